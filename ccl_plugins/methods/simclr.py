"""SimCLR: one encoder, and every view of a batch compared with every other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ccl_plugins.pairs import Pairs, in_batch
from ccl_plugins.protocols import Embedded


class SimCLR(nn.Module):
    """SimCLR with lightly's projection head.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim)

    Args:
        hidden: Width of the head's hidden layers.
        dim: Dimension of the projections.
        layers: Linear layers of the head.
        batch_norm: Whether the head has batch normalisation, as SimCLR's does.
        backbone: Images to features; supplied by the pipeline.

    Source:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (2020).
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"hidden": 16, "dim": 8}

    def __init__(
        self,
        hidden: int = 2048,
        dim: int = 128,
        layers: int = 2,
        batch_norm: bool = True,
        *,
        backbone: nn.Module,
    ) -> None:
        super().__init__()
        from lightly.models.modules import SimCLRProjectionHead

        for name, value in (("hidden", hidden), ("dim", dim)):
            if value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value!r}")
        if layers < 2:
            raise ValueError(f"layers must be 2 or more, not {layers!r}")
        self.backbone = backbone
        self.head = SimCLRProjectionHead(backbone.num_features, hidden, dim, layers, batch_norm)

    def encode(self, x: Tensor) -> Tensor:
        """Features (n, f)."""
        return self.backbone(x)

    def project(self, x: Tensor) -> Tensor:
        """Projections (n, d)."""
        return self.head(self.encode(x))

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """All views through one forward pass, so that batch statistics are of all views."""
        features = self.encode(torch.cat(list(views)))
        split = (len(views), len(views[0]), -1)
        return Embedded(features=features.view(split), projections=self.head(features).view(split))

    def pairs(
        self, embedded: Embedded, condition: Mapping[str, Tensor], index: Tensor | None
    ) -> Pairs:
        """Every view with every other, over the batches of all processes."""
        return in_batch(
            embedded.projections, condition, index, embedded.features, gather_distributed=True
        )

    def enqueue(self, pairs: Pairs) -> None:
        """Nothing: SimCLR has no queue."""

    def after_step(self, step: int, total: int) -> None:
        """Nothing: SimCLR has no momentum encoder."""
