"""One batch of a split before training begins, and the widths that the networks make of it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from ccl_plugins.training.features import evaluating
from ccl_plugins.training.first_use import check_rows
from ccl_plugins.training.loader import Items, collate
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.randomness import undisturbed
from ccl_plugins.training.settings import FitSettings


def widths(parts: Parts, split: Any, settings: FitSettings) -> tuple[int, int]:
    """The widths of features and of projections, from the first sample in evaluation mode."""
    loader = DataLoader(
        Items(split, parts.views, settings.seed),
        batch_sampler=[[(0, 0, 0)]],
        collate_fn=collate,
        # Files that a data set opens when it is first read may not be shared with the workers.
        num_workers=0 if settings.workers == 0 else 1,
        generator=torch.Generator(),
    )
    (batch,) = loader
    with undisturbed(), evaluating(parts.method), torch.no_grad():
        method, view = parts.method, batch.views[0].to(next(parts.method.parameters()).device)
        features = check_rows(method, "encode", method.encode(view))
        return features, check_rows(method, "project", method.project(view))
