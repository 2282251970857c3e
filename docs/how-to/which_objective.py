"""Write the files on `which-objective.md` anew: what `ccl init` writes for a table of birds.

The first file is whole; of the others, the page has the blocks that no file above has.

python docs/how-to/which_objective.py
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import tempfile
import textwrap
from pathlib import Path

from PIL import Image

from ccl_plugins.cli import read_command
from ccl_plugins.start.init import chosen
from ccl_plugins.start.pipeline import WIDTH

TARGET = Path(__file__).with_name("which-objective.md")
SPECIES = ["crow", "gull", "heron", "kite", "owl", "robin", "stork", "swan", "tern", "wren"]
LEAF = re.compile(r"(```sh\n(ccl init birds\.csv[^\n]*)\n```\n\n```toml\n)(.*?)(```\n)", re.DOTALL)
NUMBER = re.compile(r"\d+")
SENTENCE = re.compile(r"(?<=\.) (?=[A-Z\d])")
COLUMNS = re.compile(r'columns? = (?:\[.*?\]|".*?")')


def write_birds(folder: Path, count: int = 1000, size: int = 64) -> Path:
    """Write ``birds.csv`` into a folder, and beside it images of one color each."""
    draw = random.Random(0)
    (folder / "birds").mkdir(parents=True)
    rows = ["image,species,camera,age,plumage,beak,nest,caption"]
    for i in range(count):
        color = tuple(draw.randrange(256) for _ in range(3))
        Image.new("RGB", (size, size), color).save(folder / "birds" / f"{i:04}.png")
        species, camera = SPECIES[i % 10], "ABC"[i // 10 % 3]
        age = f"{draw.expovariate(0.4):.1f}" if i % 50 else ""
        plumage, beak = draw.choice(["plain", "spotted", "striped"]), draw.choice(["long", "short"])
        caption = f"a {plumage} {species} with a {beak} beak, seen on day {i}"
        rows.append(
            f'birds/{i:04}.png,{species},{camera},{age},{plumage},{beak},nest {i // 4},"{caption}"'
        )
    table = folder / "birds.csv"
    table.write_text("\n".join(rows) + "\n", "utf-8")
    return table


def files(page: str) -> dict[str, str]:
    """What each command of the page writes."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_birds(Path())
        return {leaf[2]: _file(leaf[2]) for leaf in LEAF.finditer(page)}


def render() -> str:
    """The page, with the file, or what is new in it, below each command."""
    page = TARGET.read_text("utf-8")
    seen: set[str] = set()
    shown = {command: _new(text, seen) for command, text in files(page).items()}
    return LEAF.sub(lambda leaf: f"{leaf[1]}{shown[leaf[2]]}{leaf[4]}", page)


def _new(text: str, seen: set[str]) -> str:
    """The blocks of a file, and sentences of their comments, that are not in ``seen``, to which all go.

    What differs only in the names of columns, or in the numbers of a comment, is not new.
    """
    found, whole = [], not seen
    for block in _blocks(text):
        comment = [line for line in block.splitlines() if line.startswith("#")]
        settings = block[len("".join(comment)) + len(comment) :]
        sentences = SENTENCE.split(" ".join(line.removeprefix("# ") for line in comment))
        said = " ".join(each for each in sentences if NUMBER.sub("", each) not in seen)
        if whole:
            found.append(block)
        elif settings and COLUMNS.sub("", settings) not in seen:
            lines = textwrap.wrap(said, WIDTH, break_long_words=False, break_on_hyphens=False)
            found.append("\n".join([*(f"# {line}" for line in lines), settings]))
        seen |= {COLUMNS.sub("", settings), *(NUMBER.sub("", each) for each in sentences)}
    return "\n\n".join(found) + "\n"


def _blocks(text: str) -> list[str]:
    """The blocks between empty lines; each evaluator is one."""
    return [each.strip() for each in re.split(r"\n\n|\n(?=\[\[)", text)]


def _file(command: str) -> str:
    _, name, *words = shlex.split(command)
    options = read_command(name)[1].parse_args([*words, "--yes"])
    _, text, _ = chosen(options, Path(options.path), Path("birds.toml"))
    return text


if __name__ == "__main__":
    TARGET.write_text(render(), "utf-8")
    print(os.path.relpath(TARGET))
