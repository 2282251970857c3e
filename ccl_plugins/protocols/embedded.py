"""The embeddings of a batch, as a method makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ccl_plugins.numerics.precision import at_least_float32, unit


@dataclass(frozen=True)
class Embedded:
    """A batch as a method sees it.

    Args:
        features: (u, n, f) backbone features of u views; of several modalities those of the image views.
        projections: (u, n, d) the embeddings that become the objective's anchors.
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
    return unit(at_least_float32(x))
