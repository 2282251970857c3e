"""A small table of images with every kind of column, as `docs/how-to/which-objective.md` describes it."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image

SPECIES = ["crow", "gull", "heron", "kite", "owl", "robin", "stork", "swan", "tern", "wren"]


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
        caption = f"a {plumage} {species} with a {beak} beak seen on day {i}"
        nest = i // 4
        rows.append(
            f"birds/{i:04}.png,{species},{camera},{age},{plumage},{beak},nest {nest},{caption}"
        )
    table = folder / "birds.csv"
    table.write_text("\n".join(rows) + "\n", "utf-8")
    return table
