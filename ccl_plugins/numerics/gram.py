"""Gram statistics: the sums over a queue that CCL-K's operator needs, updated as the queue changes.

For a kernel with features Φ of rank r, a queue of q samples enters the operator's solve only
through ΦᵀΦ, (r, r). A new computation costs O(q r²) in every step. As a sum over samples, the
matrix can be updated instead: minus the b samples that leave the queue, plus the b that enter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ccl_plugins.numerics.condition_values import as_vectors, missing_samples
from ccl_plugins.numerics.joint import Joint
from ccl_plugins.numerics.kernel_functions import KernelFunction, features_of, rank_of
from ccl_plugins.numerics.streaming import blocks

Features = Callable[[Tensor], Tensor]
"""From condition values (b,) or (b, c) to features (b, r), whose inner products are the kernel's."""


class Statistic(NamedTuple):
    """A Gram matrix that an objective requests: the name of a condition, and the features of its values."""

    on: str
    features: Features

    @property
    def joint(self) -> Joint | None:
        """The kernel whose features these are, if it reads several conditions, in place of ``on``."""
        kernel = getattr(self.features, "kernel", None)
        return kernel if isinstance(kernel, Joint) else None

    @property
    def names(self) -> tuple[str, ...]:
        """The conditions that the matrix is computed from."""
        return (self.on,) if self.joint is None else self.joint.names

    def values(self, conditions: Mapping[str, Tensor]) -> Tensor:
        """The argument of ``features``, made of the rows of all its conditions, by name."""
        return conditions[self.on] if self.joint is None else self.joint.pack(conditions)

    def rank(self, values: Tensor) -> int | None:
        """The number of features of such values; None if they have none, such as class ids."""
        if self.joint is not None:
            return rank_of(self.joint, values[:1])
        numbers = as_vectors(values[:1]).dtype.is_floating_point
        return self.features(values[:1]).shape[1] if numbers else None


@dataclass(frozen=True)
class ExactFeatures:
    """The features (b, r), in float64, of float condition values.

    Args:
        kernel: One that has features.
    """

    kernel: KernelFunction

    def __call__(self, values: Tensor) -> Tensor:
        """(b, r) of (b,) or (b, c)."""
        return exact_features(self.kernel, values)


def exact_features(kernel: KernelFunction, values: Tensor) -> Tensor:
    """(b, r) features, in float64, of float condition values (b,) or (b, c)."""
    return features_of(kernel, as_vectors(values).double())


def gram_of(features: Features, values: Tensor, valid: Tensor | None = None) -> Tensor:
    """ΦᵀΦ, (r, r) in float64, block by block.

    Args:
        features: Returns the rows of Φ.
        values: (q,) or (q, c) condition values, q at least 1.
        valid: (q,) False at values to leave out, whatever they hold; None: all values count.
            Missing values (NaN) are left out too.
    """
    rank = features(values[:1]).shape[1]
    total = torch.zeros(rank, rank, dtype=torch.float64, device=values.device)
    for columns in blocks(len(values), 2 * rank, values.device):
        out = missing_samples(values[columns])
        if valid is not None:
            out = out | ~valid[columns]
        phi = features(values[columns]).double().masked_fill(out[:, None], 0)
        total.addmm_(phi.mT, phi)
    return total


class RunningGram(nn.Module):
    """ΦᵀΦ over the filled places of a queue, updated exactly as places are overwritten.

    An update adds and subtracts b outer products in float64, each with a relative rounding error of
    1e-16; call ``rebuild`` when conditions change.

    Args:
        features: From condition values (b,) or (b, c) to (b, rank) in float64, as an objective's
            ``statistics()`` gives them by name.
        rank: r, the width of the features.
    """

    gram: Tensor

    def __init__(self, features: Features, rank: int) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("gram", torch.zeros(rank, rank, dtype=torch.float64))

    @torch.no_grad()
    def replace(self, old: Tensor, old_valid: Tensor, new: Tensor) -> None:
        """Update the sums for places of the queue that are overwritten.

        Args:
            old: (b,) or (b, c) condition values that leave.
            old_valid: (b,) False at places that were empty.
            new: (b,) or (b, c) values that enter.
        """
        self.gram += gram_of(self.features, new) - gram_of(self.features, old, old_valid)

    @torch.no_grad()
    def rebuild(self, values: Tensor, valid: Tensor) -> None:
        """Sum over the whole queue anew: (q,) or (q, c) values, and (q,) True at the filled places."""
        self.gram.copy_(gram_of(self.features, values, valid))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        kept = self.gram
        super()._apply(fn, recurse)
        self.gram = kept.to(self.gram.device)  # a cast to half precision leaves the sums in float64
        return self
