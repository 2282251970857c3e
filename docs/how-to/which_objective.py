"""Write the files on `which-objective.md` anew: what `ccl init` writes for a table of birds.

The first file is whole; of the others, the page has what differs from it.

python docs/how-to/which_objective.py
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import tempfile
from pathlib import Path

from PIL import Image

from ccl_plugins.cli import read_command
from ccl_plugins.start.init import chosen

TARGET = Path(__file__).with_name("which-objective.md")
SPECIES = ["crow", "gull", "heron", "kite", "owl", "robin", "stork", "swan", "tern", "wren"]
LEAF = re.compile(r"(```sh\n(ccl init birds\.csv[^\n]*)\n```\n\n```toml\n)(.*?)(```\n)", re.DOTALL)


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
    """The page, with the file, or what differs in it, below each command."""
    page = TARGET.read_text("utf-8")
    first, *others = files(page).items()
    shown, seen = dict([first]), {*first[1].splitlines()}
    for command, text in others:
        shown[command] = _differing(text, first[1], seen)
        seen |= {*text.splitlines()}
    return LEAF.sub(lambda leaf: f"{leaf[1]}{shown[leaf[2]]}{leaf[4]}", page)


def _differing(text: str, first: str, seen: set[str]) -> str:
    """The blocks of a file that the first one lacks, without comments that were seen before."""

    def settings(block: str) -> tuple[str, ...]:
        return tuple(line for line in block.splitlines() if not line.startswith("#"))

    known = {settings(block) for block in _blocks(first)}
    found = []
    for block in _blocks(text):
        if settings(block) and settings(block) not in known:
            lines = block.splitlines()
            found.append("\n".join(x for x in lines if not (x.startswith("#") and x in seen)))
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
