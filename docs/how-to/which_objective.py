"""Write the files on `which-objective.md` anew: what `ccl init` writes for a table of birds.

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


def render() -> str:
    """The page, with the file below each command."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_birds(Path())
        return LEAF.sub(
            lambda leaf: f"{leaf[1]}{_file(leaf[2])}{leaf[4]}", TARGET.read_text("utf-8")
        )


def _file(command: str) -> str:
    _, name, *words = shlex.split(command)
    options = read_command(name)[1].parse_args([*words, "--yes"])
    _, text, _ = chosen(options, Path(options.path), Path("birds.toml"))
    return text


if __name__ == "__main__":
    TARGET.write_text(render(), "utf-8")
    print(os.path.relpath(TARGET))
