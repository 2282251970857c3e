"""Large batches on one device: embedded in pieces, and once more when the gradients come.

The objective sees the whole batch, and its gradient reaches each piece through a second forward pass
of that piece (gradient caching): the memory of one piece, the gradient of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ccl_plugins.protocols import Embedded
from ccl_plugins.training.randomness import cpu_states, set_cpu_states, undisturbed

NORMS = nn.modules.batchnorm._NormBase
"""The norms that have statistics of what they have seen."""


def embed(method: Any, views: Sequence[Tensor], size: int | None) -> Embedded:
    """A batch, embedded in pieces of ``size`` samples; None: at once.

    The second pass of a piece draws what the first drew, from python, numpy and torch, and changes no
    running statistics.  It ends where the gradient needs no more, so that what a method computes last
    and without gradient, as momentum keys, is computed once.

    Args:
        method: A `ccl_plugins.protocols.Method` and ``nn.Module``.
        views: u tensors (n, channels, height, width).
        size: Samples of a piece; the last may have fewer.
    """
    n = len(views[0])
    if size is None or size >= n:
        return method.embed(views)
    parts: list[Embedded] = [
        checkpoint(
            method.embed,
            [view[first : first + size] for view in views],
            use_reentrant=False,
            context_fn=partial(_contexts, method),
        )
        for first in range(0, n, size)
    ]
    return Embedded(
        features=torch.cat([part.features for part in parts], 1),
        projections=torch.cat([part.projections for part in parts], 1),
        keys=_joined([part.keys for part in parts]),
    )


def _joined(keys: list[Tensor | None]) -> Tensor | None:
    there = [key for key in keys if key is not None]
    return torch.cat(there, 1) if there else None


def _contexts(
    method: nn.Module,
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """What surrounds the first pass of a piece and the second; torch's own part is torch's to do."""
    return nullcontext(), _again(method, cpu_states())


@contextmanager
def _again(method: nn.Module, states: Any) -> Iterator[None]:
    norms = [m for m in method.modules() if isinstance(m, NORMS) and m.track_running_stats]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    with undisturbed():
        set_cpu_states(states)
        for norm in norms:
            norm.momentum, norm.num_batches_tracked = 0.0, None
        try:
            yield
        finally:
            for norm, (momentum, count) in zip(norms, before, strict=True):
                norm.momentum, norm.num_batches_tracked = momentum, count


def piecewise_statistics(method: nn.Module, size: int | None, n: int) -> str | None:
    """What there is to say of batch statistics where a batch is embedded in pieces, or None.

    Args:
        method: Whose norms are looked at.
        size: Samples of a piece.
        n: Samples of the batch, on this process.
    """
    norms = [m for m in method.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if size is None or size >= n or not norms:
        return None
    return (
        f"micro_batch={size}: the {len(norms)} batch normalizations take their statistics from {size}"
        f" samples at a time and not from {n}, so that this is not the gradient of the whole batch;"
        " group or layer normalization would give that"
    )
