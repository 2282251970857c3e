"""Pairs of two images with the same, or a similar, value of the condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.drawing.by_class import OfClass
from ccl_plugins.drawing.by_kernel import by_kernel
from ccl_plugins.drawing.nearest import among_nearest
from ccl_plugins.drawing.partners import Partners
from ccl_plugins.protocols import VALUE_TYPES, Kernel, ValueType
from ccl_plugins.samplers.uniform import Uniform, require_values

TOGETHER = 4096
"""The most anchors whose partners are drawn in one call, in whole batches; a call has a fixed cost."""


class ConditionalPair(Uniform):
    """Positive pairs of two images with the same, or a similar, value of the condition.

    z ~ P_Z, then x, y ~ P(.|z): an anchor x and its partner y. Every sample is the anchor once per
    epoch, in random order, so each value z occurs in proportion to its samples. Partners are drawn
    anew in every epoch. The first view shows the anchor, the other views show the partner.

    Without ``kernel`` and ``nearest``, the condition is categorical, and the partner is any sample with the
    anchor's value (for a hierarchy: in all levels).

    Args:
        own_pair: Whether the partner may be the anchor itself: two views of one image. The partner
            is always the anchor if there is no other candidate.
        kernel: Makes P(.|z) proportional to the kernel, for a condition of any value type.  Draws are exact
            at any scale, and fastest for class ids and for one number.  ``scale="median"`` is the median
            over the candidates that a call compares.
        nearest: Makes P(.|z) uniform over this many nearest samples, for a multi-label or continuous
            condition.
        condition: (size,) or (size, c) values; supplied by the pipeline.

    Raises:
        ValueError: For ``kernel`` and ``nearest`` together, for numbers without either, for class ids with
            ``nearest``, and for a kernel that is not positive definite.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), eq. (1); Tsai et
        al., Conditional Contrastive Learning with Kernel (2022), eq. (3).
    """

    def __init__(
        self,
        own_pair: bool = True,
        kernel: Kernel | None = None,
        nearest: int | None = None,
        on: str = "condition",
        *,
        size: int,
        batch_size: int,
        seed: int,
        condition: Tensor,
    ) -> None:
        require_values(condition, size)
        accepted = self.value_types({"kernel": kernel, "nearest": nearest})
        numbers = condition.is_floating_point()
        if ("continuous" if numbers else "categorical") not in accepted:
            raise ValueError(
                f"the condition holds {'numbers' if numbers else 'class ids'}, {tuple(condition.shape)}"
                f" {condition.dtype}: conditional_pair draws partners among numbers by kernel= or"
                " nearest=, among class ids without nearest="
            )
        super().__init__(size=size, batch_size=batch_size, seed=seed)
        self._partners: Partners
        if kernel is not None:
            self._partners = by_kernel(condition, own_pair, kernel)
        elif nearest is not None:
            self._partners = among_nearest(condition, own_pair, nearest)
        else:
            self._partners = OfClass(condition, own_pair)

    @staticmethod
    def value_types(parameters: Mapping[str, Any]) -> tuple[ValueType, ...]:
        """The value types that the condition may have under these parameters."""
        kernel, nearest = parameters.get("kernel"), parameters.get("nearest")
        if kernel is not None and nearest is not None:
            raise ValueError("conditional_pair takes kernel= or nearest=, not both")
        if kernel is not None:
            return VALUE_TYPES
        return ("categorical",) if nearest is None else ("multi_label", "continuous")

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """The epoch's batches of anchors and partners, (batch_size, 2), from batch ``start`` on."""
        together = max(1, TOGETHER // self.batch_size)
        number = start - start % together
        left = super().batches(epoch, number)
        while some := [*islice(left, together)]:
            anchors = torch.cat(some)
            draws = np.random.default_rng((self.seed, epoch, number))
            partners = self._partners.draw(anchors, draws)
            pairs = torch.stack([anchors, partners], 1).split(self.batch_size)
            yield from pairs[max(start - number, 0) :]
            number += together
