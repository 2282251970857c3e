"""Gram statistics of a queue's conditions: what CCL-K's operator needs of them, kept up to date.

For a kernel with features Φ of rank r, a queue of q samples enters the operator's solve through ΦᵀΦ
alone, (r, r).  Computed anew it costs O(q r²) in every step; as a sum over samples it can follow the
queue instead: less the b samples that leave it, plus the b that enter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ccl_plugins.numerics.kernel_functions import KernelFunction as KernelFunction
from ccl_plugins.numerics.logsumexp import as_vectors
from ccl_plugins.numerics.streaming import blocks

Features = Callable[[Tensor], Tensor]
"""From condition values (b,) or (b, c) to features (b, r), whose inner products are the kernel's."""


class Statistic(NamedTuple):
    """What a Gram matrix is made of: the name of a condition, and features of its values."""

    on: str
    features: Features


def gram_name(on: str, kernel: KernelFunction) -> str:
    """The name in ``Pairs.extras`` of the Gram matrix of the queue's filled places.

    Args:
        on: The name of the condition.
        kernel: The kernel whose features it is made of.
    """
    return f"{on}/gram/{kernel!r}"


def exact_features(kernel: KernelFunction) -> Features:
    """The features (b, r) of a kernel that has them, of float condition values, in float64."""
    return partial(_features, kernel)  # and no closure, so that a queue can be copied to processes


def _features(kernel: KernelFunction, values: Tensor) -> Tensor:
    return kernel.features(as_vectors(values).double())  # type: ignore[attr-defined]  # it has


def gram_of(features: Features, values: Tensor, valid: Tensor | None = None) -> Tensor:
    """ΦᵀΦ, (r, r) in float64, block by block.

    Args:
        features: Of which Φ is made.
        values: (q,) or (q, c) condition values, q at least 1.
        valid: (q,), False for values that do not count, whatever they hold; None: all count.
    """
    rank = features(values[:1]).shape[1]
    total = torch.zeros(rank, rank, dtype=torch.float64, device=values.device)
    for columns in blocks(len(values), 2 * rank, values.device):
        phi = features(values[columns]).double()
        if valid is not None:
            phi = phi.masked_fill(~valid[columns, None], 0)
        total.addmm_(phi.mT, phi)
    return total


class RunningGram(nn.Module):
    """ΦᵀΦ over the filled places of a queue, kept exactly as places are written over.

    An update adds and takes away O(b) squares of rank r, in float64, where rounding grows by 1e-16 of
    what passes through; ``rebuild`` it where conditions change, and once per epoch.

    Args:
        features: Of condition values (b,) or (b, c), (b, rank) in float64: an objective's
            ``statistics()`` has them by name.
        rank: r, the width of the features.
    """

    gram: Tensor

    def __init__(self, features: Features, rank: int) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("gram", torch.zeros(rank, rank, dtype=torch.float64))

    @torch.no_grad()
    def replace(self, old: Tensor, old_valid: Tensor, new: Tensor) -> None:
        """Account for places of the queue that are written over.

        Args:
            old: (b,) or (b, c) condition values that leave.
            old_valid: (b,) False where a place was empty.
            new: (b,) or (b, c) values that enter.
        """
        self.gram += gram_of(self.features, new) - gram_of(self.features, old, old_valid)

    @torch.no_grad()
    def rebuild(self, values: Tensor, valid: Tensor) -> None:
        """Sum over the whole queue again: (q,) or (q, c) values, and (q,) which places are filled."""
        self.gram.copy_(gram_of(self.features, values, valid))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        kept = self.gram
        super()._apply(fn, recurse)
        self.gram = kept.to(self.gram.device)  # a module cast to half precision keeps its sums
        return self
