"""Embeddings and what is known of their samples."""

import pytest
import torch
from torch.nn.functional import normalize


@pytest.fixture(params=[2, 3], ids=["two views", "three views"])
def views(request):
    """Raw (7, 5) embeddings in float64, one per view."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(request.param, 7, 5, generator=generator, dtype=torch.float64))


@pytest.fixture
def units():
    """What the loops are written on: every view of every sample, as (embedding, sample, view)."""

    def rows(views):
        unit = [normalize(view, dim=1) for view in views]
        return [(unit[v][i], i, v) for v in range(len(views)) for i in range(len(views[0]))]

    return rows
