"""Momentum encoders: a slow copy of an encoder, and the pairs of queries and its keys."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.numerics.distributed import gather
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Embedded


class MomentumEncoder(nn.Module):
    """A backbone and its head, copied as a pair, that follow the originals slowly and take no gradient.

    Args:
        backbone: Images to features.
        head: Features to projections.
    """

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        from lightly.models.utils import deactivate_requires_grad

        # Together, so that what the two share is shared by their copies.
        self.backbone, self.head = copy.deepcopy([backbone, head])
        deactivate_requires_grad(self)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Keys (n, d) of images."""
        keys: Tensor = self.head(self.backbone(x))
        return keys

    def update(self, backbone: nn.Module, head: nn.Module, momentum: float) -> None:
        """Move the weights: ``momentum`` times these plus the rest of those.

        Buffers, as batch statistics, are each encoder's own.

        Raises:
            TypeError: For weights of less than float32, which would not move at all.
        """
        from lightly.models.utils import update_momentum

        narrow = next((p for p in self.parameters() if p.dtype.itemsize < 4), None)
        if narrow is not None:
            raise TypeError(
                f"a momentum encoder of {narrow.dtype} does not move: keep weights in float32, as"
                ' precision="bf16-mixed" does'
            )
        update_momentum(
            nn.ModuleList([backbone, head]), nn.ModuleList([self.backbone, self.head]), momentum
        )


def cosine_momentum(base: float, step: int, total: int) -> float:
    """The momentum at a step: from ``base`` up to 1, which it would reach after the last.

    Source:
        Chen, Xie and He, An Empirical Study of Training Self-Supervised Vision Transformers (2021).
    """
    return 1 - (1 - base) * (1 + math.cos(math.pi * step / total)) / 2


def against_keys(
    embedded: Embedded,
    condition: Mapping[str, Tensor],
    index: Tensor | None,
    first_key_view: int = 0,
    **more: Any,
) -> Pairs:
    """Queries of this process against the momentum keys of all.

    Args:
        embedded: Projections (u, n, d) are the queries; keys (v, n, d).
        condition: By name (n,), (n, c) or (views, n, c).
        index: (n,) dataset indices.
        first_key_view: The number of the first of the v views; queries are of the first u.
        more: Further fields of `Pairs`.
    """
    from lightly.utils import dist

    if embedded.keys is None:
        raise ValueError(
            "these embeddings have no keys, which a method with a momentum encoder makes"
        )
    with torch.no_grad():
        return Pairs(
            anchors=embedded.projections,
            keys=gather(embedded.keys, 1),
            anchor_views=tuple(range(len(embedded.projections))),
            key_views=tuple(range(first_key_view, first_key_view + len(embedded.keys))),
            offset=dist.rank() * embedded.projections.shape[1],
            processes=dist.world_size(),
            condition={k: gather(z, 1 if z.ndim == 3 else 0) for k, z in condition.items()},
            index=None if index is None else gather(index),
            features=embedded.features,
            **more,
        )
