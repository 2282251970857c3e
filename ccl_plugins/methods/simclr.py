"""SimCLR: one encoder, and every view of a batch compared with every other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ccl_plugins.methods.base import EncoderMethod
from ccl_plugins.methods.heads import LastNorm, NamedHead, chosen_head
from ccl_plugins.pairs.pairs import Pairs, in_batch
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import Embedded


class SimCLR(EncoderMethod):
    """Contrast of every view with every other in the batch, with one encoder (SimCLR).

    The projection head is lightly's.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim)

    Args:
        hidden: Width of the head's hidden layers.
        dim: Dimension of the projections.
        layers: Linear layers of the head; 1 is a linear head, without hidden layers.
        batch_norm: Whether the head has batch normalization, as SimCLR's does.
        last_norm: The batch normalization after the last layer, if the head has any: with a learned
            scale and shift (``"affine"``, as in lightly), without these (``"plain"``), or no
            normalization (``"none"``).
        head: Another head of lightly of these widths, such as ``"VICRegProjectionHead"``, or one
            with arguments, ``{name = "VICRegProjectionHead", num_layers = 2}``.
        joint: Whether all views go through the network at once, so that batch statistics are of all views;
            Barlow Twins, VICReg and lightly's examples pass each view by itself.

    Defaults:
        hidden: Paper: 2048. Code: 2048.
        dim: Paper: 128. Code: 128.
        layers: Paper: 2. Code: 2.

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
        last_norm: LastNorm = "affine",
        head: NamedHead = None,
        joint: bool = True,
        *,
        backbone: nn.Module,
    ) -> None:
        inputs: Any = backbone.num_features
        settings = {"layers": layers, "batch_norm": batch_norm, "last_norm": last_norm}
        projector = chosen_head(type(self), head, inputs, hidden, dim, **settings)
        super().__init__(backbone, projector)
        self.joint = joint

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """All views of a size in one forward pass, or one view after another."""
        if not self.joint:
            features = torch.stack([self.encode(view) for view in views])
            return Embedded(features, torch.stack([self.head(each) for each in features]))
        return Embedded(*self.embed_together(views))

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """Every view against every other, over the batches of all processes."""
        return in_batch(embedded.projections, samples, gather_distributed=True)
