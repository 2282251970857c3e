"""Runs on a data set that is split by plates, which the features tell apart, and no training sample has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import one_hot

import ccl_plugins as ccl

PLATES = (range(6), range(6, 8))
"""Those of the training and of the test split, of 40 samples each."""


def rows(plates: Any, seed: int, words: bool = False) -> dict[str, Any]:
    """Features of which most is the plate, with the plates as numbers, or as words."""
    ids = torch.tensor([*plates]).repeat_interleave(40)
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(4, (len(ids),), generator=generator)
    x = (
        3 * one_hot(ids, 8)
        + one_hot(label, 8)
        + 0.3 * torch.randn(len(ids), 8, generator=generator)
    )
    plate = [f"p{each}" for each in ids.tolist()] if words else ids
    return {"features": x, "label": label, "plate": plate}


def pipeline(
    *evaluate: Any, plates: Any = PLATES, words: bool = False, group: Any = "plate", **parts: Any
) -> ccl.Pipeline:
    """A pipeline without a condition, if none is given."""
    train, test = (rows(each, seed, words) for seed, each in enumerate(plates))
    return ccl.Pipeline(
        dataset=ccl.create("dataset", "features", train=train, test=test, group=group),
        backbone=ccl.backbone("mlp", in_features=8, hidden=[16], batch_norm=False),
        method=ccl.method("simclr", hidden=8, dim=4, batch_norm=False),
        transform="noise",
        **{"objective": "infonce", **parts},
        evaluate=evaluate,
        fit={"epochs": 1, "batch_size": 60, "workers": 0},
    )


def of_plate(use: str, **options: Any) -> Any:
    """An evaluator of the plate."""
    return ccl.evaluator(use, column="plate", **options)


NAMING = [of_plate("linear"), of_plate("knn"), of_plate("mlp")]
"""Evaluators that cannot name the plates of the test split."""


def fit(folder: Path, *evaluate: Any, **parts: Any) -> ccl.Run:
    """A run that is measured before and after its training."""
    run = pipeline(*evaluate, **parts).fit(out=folder, progress=False)
    run.evaluate()
    return run
