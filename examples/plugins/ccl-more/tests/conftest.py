"""Embeddings and what is known of their samples."""

import copy
from dataclasses import replace

import pytest
import torch
from ccl_plugins.pairs import Queue, Samples, in_batch
from ccl_plugins.testing import equals
from torch.nn.functional import normalize
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


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


@pytest.fixture
def queue():
    """Three (5,) unit keys in float64, of which the last place is empty."""
    generator = torch.Generator().manual_seed(7)
    return normalize(torch.randn(3, 5, generator=generator, dtype=torch.float64), dim=1)


@pytest.fixture
def queued(queue):
    """The loss of an objective on views and a queue; the conditions (10, ...) are of both."""

    def loss(objective, *views, **conditions):
        pairs = in_batch(
            normalize(torch.stack(views), dim=-1),
            Samples({k: z[:7] for k, z in conditions.items()}),
        )
        pairs = replace(
            pairs,
            queue=Queue(
                queue.to(pairs.anchors.dtype),
                torch.tensor([True, True, False]),
                {k: z[7:] for k, z in conditions.items()},
            ),
        )
        return objective.loss(pairs)

    return loss


@pytest.fixture(params=["batch", "and queue"])
def place(request, queue, queued):
    """A call with conditions (10, ...), and the queue's keys that it compares with, each with its sample."""

    def in_the_batch(objective, *views, **conditions):
        return objective(*views, condition={k: z[:7] for k, z in conditions.items()})

    if request.param == "batch":
        return in_the_batch, []
    return queued, [(queue[k], 7 + k) for k in range(2)]


@pytest.fixture
def agree():
    """Check an objective against a slow loop, in float64 to 1e-9 and in float32 to 2e-5."""

    def check(objective, loop, views, call=None, **given):
        def run(module, *views):
            return module(*views, **given) if call is None else call(module, *views)

        equals(lambda *views: run(objective.double(), *views), loop, views, tolerance=1e-9)
        narrow = copy.deepcopy(objective).float()
        equals(
            lambda *views: run(narrow, *views),
            lambda *views: loop(*(view.double() for view in views)),
            [view.float() for view in views],
            tolerance=2e-5,
        )

    return check


class Largest(TorchDispatchMode):
    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = [x.numel() for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        self.numbers = max(self.numbers, *made, 0)
        return out


@pytest.fixture
def largest():
    """A context whose ``numbers`` are the most of a tensor that an operation in it makes."""
    return Largest()
