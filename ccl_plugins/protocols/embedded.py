"""The embeddings of a batch that a method returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ccl_plugins.numerics.precision import at_least_float32, unit
from ccl_plugins.pairs.patches import PatchScores


@dataclass(frozen=True)
class Embedded:
    """The embeddings of a batch.

    Args:
        features: (u, n, f) backbone features of u views; with several modalities, of the image
            views.
        projections: (u, n, d) the embeddings that become the objective's anchors.
        keys: (v, n, d) momentum keys, or None where the projections are the keys.
        patches: The scores of masked patches, if the method masks some.
    """

    features: Tensor
    projections: Tensor
    keys: Tensor | None = None
    patches: PatchScores | None = None

    def at_least_float32(self) -> Embedded:
        """The same embeddings in at least float32."""
        return Embedded(
            at_least_float32(self.features),
            at_least_float32(self.projections),
            None if self.keys is None else at_least_float32(self.keys),
            None if self.patches is None else self.patches.at_least_float32(),
        )

    def normalized(self) -> Embedded:
        """Projections and keys on the unit sphere, in at least float32."""
        return replace(
            self,
            projections=_unit(self.projections),
            keys=None if self.keys is None else _unit(self.keys),
        )


def _unit(x: Tensor) -> Tensor:
    return unit(at_least_float32(x))
