"""One batch of a split before training begins, and the widths that the networks make of it."""

from __future__ import annotations

from typing import Any

import torch

from ccl_plugins.protocols import trait
from ccl_plugins.training.features import evaluating
from ccl_plugins.training.first_use import check_rows
from ccl_plugins.training.loader import Items, collate, read_batch
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.randomness import undisturbed
from ccl_plugins.training.settings import FitSettings


def widths(parts: Parts, split: Any, settings: FitSettings) -> tuple[int, int]:
    """The widths of features and of projections, from the first sample in evaluation mode."""
    items = Items(split, parts.transform, settings.seed)
    batch = read_batch(items, [(0, 0, 0)], collate, settings.workers)
    with undisturbed(), evaluating(parts.method), torch.no_grad():
        method, device = parts.method, next(parts.method.parameters()).device
        views = [view.to(device) for view in batch.views]
        features = check_rows(method, "encode", method.encode(views[0]))
        projections = check_rows(method, "project", method.project(views[0]))
        if trait(parts.transform, "modalities") or trait(parts.transform, "sizes"):
            # Networks of other modalities, and views of other sizes, are seen too.
            method.embed(views)
        return features, projections
