"""DINO: a student's prototype scores of every crop, and a momentum teacher's of the large crops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import DEEPEST, whole
from ccl_plugins.methods.base import in_one_pass
from ccl_plugins.methods.heads import PrototypeHead
from ccl_plugins.methods.momentum import MomentumMethod, rising
from ccl_plugins.protocols import Embedded


class DINO(MomentumMethod):
    """A student's prototype scores of every view, and a momentum teacher's of the first views (DINO).

    Views may be of two sizes, as the transform `dino` makes them.  All views of a size go through the
    network at once, and all features through the head, so that any batch statistics are those of
    the released code. The teacher, the momentum encoder, sees the first ``key_views``, the large
    ones. With the objective `dino` this is DINO. Other objectives compare a sample's scores,
    normalized, with the teacher's of the other samples of all processes.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim), keys (v, n, dim)

    Args:
        bottleneck: Width of the prototypes.
        dim: Number of prototypes, whose scores are projections and keys.
        batch_norm: Whether the head's hidden layers have batch normalization.
        learned_norms: Whether the prototypes' norms are learned; if False, they are 1, as in the
            paper's large models.
        momentum: Momentum of the teacher in the first step, from 0 to below 1.
        key_views: The number of views, the first ones, that the teacher sees, 1 to 1024.
        frozen: Number of first optimizer steps in which prototypes have no gradient; in the paper,
            one epoch.

    Defaults:
        hidden: Paper: 2048. Code: 2048.
        bottleneck: Paper: 256. Code: 256.
        dim: Paper: 65536. Code: 65536.
        momentum: Paper: 0.996. Code: 0.996.
        key_views: Paper: 2. Code: 2.
        frozen: Here: one epoch in the released code, whose steps depend on the data.

    Source:
        Caron et al., Emerging Properties in Self-Supervised Vision Transformers (2021). The head is
        lightly's. Here the gradient of frozen prototypes is 0, so weight decay still changes them.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"hidden": 16, "bottleneck": 8, "dim": 12}
    head: PrototypeHead

    def __init__(
        self,
        hidden: int = 2048,
        bottleneck: int = 256,
        dim: int = 65536,
        batch_norm: bool = False,
        learned_norms: bool = False,
        momentum: float = 0.996,
        key_views: int = 2,
        frozen: int = 0,
        *,
        backbone: nn.Module,
    ) -> None:
        inputs: Any = backbone.num_features
        norms = {"batch_norm": batch_norm, "learned_norms": learned_norms}
        head = PrototypeHead(inputs, hidden, bottleneck, dim, **norms)
        super().__init__(backbone, head, momentum)
        self.key_views = whole("key_views", key_views, 1, DEEPEST)
        self.frozen = whole("frozen", frozen, 0)
        self.head.is_frozen.fill_(self.frozen > 0)
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Set the mode; the teacher has no dropout or drop path, and always uses batch statistics."""
        super().train(mode)
        for module in self.key_encoder.modules():
            module.training &= isinstance(module, nn.modules.batchnorm._BatchNorm)
        return self

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """One forward pass of the student for all views of a size, and one of the teacher."""
        features, queries = self.embed_together(views)
        # Last, so that the second forward pass of micro-batches ends before the keys.
        keys = torch.stack(in_one_pass(self.key, views[: self.key_views]))
        return Embedded(features, queries, keys)

    def after_step(self, step: int, total: int) -> None:
        """Move the teacher, and decide whether the prototypes are frozen in the next step."""
        super().after_step(step, total)
        self.head.is_frozen.fill_(step + 1 < self.frozen)

    def momentum_after(self, step: int, total: int) -> float:
        """The momentum of this step: the teacher moves at its end."""
        return rising(self.momentum, step, total)
