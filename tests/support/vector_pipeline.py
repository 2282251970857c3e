"""A pipeline on vectors in memory, which trains in a second in a forked process too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import ccl_plugins as ccl

ROWS = {
    "features": torch.randn(32, 4, generator=torch.Generator().manual_seed(0)),
    "label": torch.arange(32) % 2,
}


def make_pipeline(
    temperature: float = 0.1,
    plugins: dict[str, Any] | None = None,
    evaluate: Sequence[Any] = ("knn",),
    **settings: Any,
) -> ccl.Pipeline:
    return ccl.Pipeline(
        dataset=ccl.create("dataset", "features", train=ROWS, test=ROWS),
        backbone=ccl.backbone("mlp", in_features=4, hidden=[8]),
        method=ccl.method("simclr", hidden=8, dim=4),
        transform="noise",
        objective=ccl.objective("infonce", temperature=temperature),
        evaluate=evaluate,
        plugins=plugins,
        fit={"epochs": 2, "batch_size": 16, "workers": 0, "checkpoint_every": 1, **settings},
    )
