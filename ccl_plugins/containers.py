"""What components hand to each other: `ccl_plugins.protocols` has them beside the kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor
from torch.nn import functional

from ccl_plugins.numerics import at_least_float32


@dataclass(frozen=True)
class Embedded:
    """A batch as a method sees it.

    Args:
        features: (u, n, f) backbone features of u views.
        projections: (u, n, d) what the objective's anchors are made of.
        keys: (v, n, d) momentum keys, or None where the projections are the keys.
    """

    features: Tensor
    projections: Tensor
    keys: Tensor | None = None

    def normalized(self) -> Embedded:
        """Projections and keys on the unit sphere, in at least float32."""
        return replace(
            self,
            projections=_unit(self.projections),
            keys=None if self.keys is None else _unit(self.keys),
        )


def _unit(x: Tensor) -> Tensor:
    return functional.normalize(at_least_float32(x), dim=-1)


@dataclass(frozen=True)
class Table:
    """A condition's values for a whole data set.

    Args:
        values: (N,) or (N, c), row i belonging to sample i.
        extras: further tensors of any shape (centroids, say), given to objectives by name.
    """

    values: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Frozen:
    """Frozen features of one split.

    Args:
        features: (N, f) float32, on the CPU.
        metadata: The split's columns, (N,) or (N, c) each.
    """

    features: Tensor
    metadata: Mapping[str, Tensor]
