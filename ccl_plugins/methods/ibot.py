"""iBOT: DINO, and the teacher's scores of patches that are masked for the student."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import DEEPEST, probability, whole
from ccl_plugins.methods.base import in_one_pass
from ccl_plugins.methods.dino import DINO
from ccl_plugins.methods.heads import PrototypeHead
from ccl_plugins.pairs.patches import Masks, PatchScores
from ccl_plugins.protocols import Embedded, trait

SMALLEST = 4
"""The number of patches of the smallest block, while that many may still be masked."""

ASPECT = 0.3
"""The least ratio of a block's sides."""

TRIES = 10
"""The number of failed draws of a block after which no more patches are masked."""


class IBOT(DINO):
    """DINO with scores of patches that are masked for the student and not for the teacher (iBOT).

    In the first ``key_views`` views, the large ones, blocks of patches are masked for the student: a
    learned token takes the place of their embeddings before positions are added. The teacher sees
    all patches. So the student's features and projections of these views are of masked images. A
    sample's masks are drawn where its views are, when it is loaded. Only masked patches are scored.

    With a mixture of the objectives `dino` and `ibot` this is iBOT; with `koleo` and
    ``centering = "sinkhorn"`` it is DINOv2. The backbone must be a vision transformer, such as
    `timm`'s.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim), keys (v, n, dim), patches (p, dim)
        of p masked patches

    Args:
        mask_probability: Probability that a large view has masked patches, 0 to 1.
        mask_ratio: Least and largest part of the patches of such a view that is masked, drawn
            uniformly.
        shared_head: Whether one head scores images and patches, as in the paper; DINOv2 has one for each.

    Raises:
        TypeError: For a number that is not whole.
        ValueError: For a value out of range, a backbone without patches, and one head for features and
            patches of different widths.

    Defaults:
        hidden: Code: 2048.
        bottleneck: Code: 256.
        dim: Paper: 8192. Code: 8192. Here: DINOv2 has 65,536 and 131,072.
        momentum: Paper: 0.996. Code: 0.996. Here: DINOv2 has 0.992 and 0.994.
        key_views: Paper: 2. Code: 2.
        frozen: Here: one epoch in the released code, whose steps depend on the data.
        mask_probability: Paper: 0.5. Code: 0.5.

    Source:
        Zhou et al., iBOT: Image BERT Pre-Training with Online Tokenizer (2022); masks: `BlockMasks`, as in
        DINOv2.  Steps are those of lightly's DINOv2 example.
    """

    def __init__(
        self,
        hidden: int = 2048,
        bottleneck: int = 256,
        dim: int = 8192,
        batch_norm: bool = False,
        learned_norms: bool = False,
        momentum: float = 0.996,
        key_views: int = 2,
        frozen: int = 0,
        mask_probability: float = 0.5,
        mask_ratio: tuple[float, float] = (0.1, 0.5),
        shared_head: bool = True,
        *,
        backbone: nn.Module,
    ) -> None:
        if (shape := trait(backbone, "patch_shape")) is None:
            raise ValueError(
                f"the method ibot masks patches, and the backbone {type(backbone).__name__} has "
                "none: take a vision transformer, such as timm's 'vit_small_patch16_224', or the "
                "method dino"
            )
        *patch, width = shape
        if shared_head and width != backbone.num_features:
            raise ValueError(
                f"shared_head = true scores features and patches by one head, but their widths are"
                f" {backbone.num_features} and {width}: give the backbone features = 'token', or"
                " shared_head = false"
            )
        sizes = (hidden, bottleneck, dim, batch_norm, learned_norms)
        super().__init__(*sizes, momentum, key_views, frozen, backbone=backbone)
        self.masking = BlockMasks(key_views, tuple(patch), mask_probability, mask_ratio)
        self.mask_token = nn.Parameter(torch.zeros(width))
        self.patch_head = self.patch_key_head = None
        if not shared_head:
            norms = {"batch_norm": batch_norm, "learned_norms": learned_norms}
            self.patch_head = PrototypeHead(width, hidden, bottleneck, dim, **norms)
            self.patch_key_head = copy.deepcopy(self.patch_head).requires_grad_(False)
            self.patch_head.is_frozen.fill_(self.frozen > 0)

    @staticmethod
    def masked_views(parameters: Mapping[str, Any]) -> int:
        """The number of views that may have masked patches: the first ones, which the teacher sees.

        Raises:
            ValueError: For views, a probability or a ratio out of range, without building a network.
        """
        probability, ratio = parameters["mask_probability"], parameters["mask_ratio"]
        views = whole("key_views", parameters["key_views"], 1, DEEPEST)
        return BlockMasks(views, (1, 1), probability, ratio).views

    def embed(self, views: Sequence[Tensor], masks: Masks | None = None) -> Embedded:
        """Embed views as DINO does, with masked patches in the student's first views."""
        if masks is None:
            return super().embed(views)
        large, places = masks.masked.transpose(0, 1).flatten(0, 1), masks.places()
        v = masks.masked.shape[1]
        together = torch.cat([*views[:v]])
        seen, patches = self.backbone(together, large, self.mask_token)
        small = in_one_pass(self.encode, views[v:])
        features = torch.stack([*seen.chunk(v), *small])
        queries = self.query(features.flatten(0, 1)).unflatten(0, features.shape[:2])
        student = _scores(self.patch_head or self.head, patches, v, places)
        # Last, so that the second forward pass of micro-batches ends before the teacher.
        keys, teacher = self._teacher(together, v, places)
        scores = PatchScores(student, teacher, masks.masked.sum((2, 3)))
        return Embedded(features, queries, keys, scores)

    @torch.no_grad()
    def _teacher(self, together: Tensor, v: int, places: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (v, n, dim) of v views one after another, and scores (p, dim) of some patches."""
        encoder = self.key_encoder
        seen, patches = encoder.backbone(together, None, self.mask_token)
        head = self.patch_key_head or encoder.head
        return encoder.head(seen).unflatten(0, (v, -1)), _scores(head, patches, v, places)

    def after_step(self, step: int, total: int) -> None:
        """Move the teacher, and decide whether the prototypes are frozen in the next step."""
        super().after_step(step, total)
        if self.patch_head is not None:
            from lightly.models.utils import update_momentum

            momentum = self.momentum_after(step, total)
            update_momentum(self.patch_head, self.patch_key_head, momentum)
            self.patch_head.is_frozen.copy_(self.head.is_frozen)


def _scores(head: nn.Module, patches: Tensor, v: int, places: Tensor) -> Tensor:
    """(p, dim) scores of some of all patches, (v · n, rows, columns, width) of v views."""
    of_samples = patches.unflatten(0, (v, -1)).transpose(0, 1).flatten(0, 3)
    scores: Tensor = head(of_samples[places])
    return scores


@dataclass(frozen=True)
class BlockMasks:
    """Draws masks as iBOT and DINOv2 do: rectangles of patches, in some of the views.

    Each view is drawn by itself, so that a batch may be loaded in parts. DINOv2 masks exactly this
    part of a batch's views, with ratios spread evenly over the range; a single view has the same
    distribution there.

    Args:
        views: The number of views, the first ones, that may have masked patches.
        patch: Height and width of a patch in pixels.
        probability: Probability that a view has masked patches, 0 to 1.
        ratio: Range of the part of such a view's patches that is masked, drawn uniformly; at least
            one patch is.

    Raises:
        ValueError: For a value out of range.

    Source:
        Bao et al., BEiT: BERT Pre-Training of Image Transformers (2022), algorithm 1; Oquab et al., DINOv2:
        Learning Robust Visual Features without Supervision (2023).
    """

    views: int
    patch: tuple[int, int]
    probability: float = 0.5
    ratio: Sequence[float] = (0.1, 0.5)

    def __post_init__(self) -> None:
        probability("mask_probability", self.probability)
        rising = len(self.ratio) == 2 and 0 <= self.ratio[0] <= self.ratio[1] <= 1
        if not rising or not self.ratio[1]:
            raise ValueError(
                "mask_ratio must be the least and the largest part of the patches that is masked, "
                f"such as [0.1, 0.5], from 0 to 1, not {self.ratio!r}"
            )

    def __call__(self, height: int, width: int) -> Tensor:
        """(rows, columns) True at the masked patches of a view, whose size is in pixels."""
        mask = torch.zeros(height // self.patch[0], width // self.patch[1], dtype=torch.bool)
        if random.random() < self.probability:
            wanted = max(1, int(mask.numel() * random.uniform(*self.ratio)))
            while (left := wanted - int(mask.sum())) > 0 and _add_block(mask, left):
                pass
        return mask


def _add_block(mask: Tensor, most: int) -> bool:
    """Mask a block with 1 to ``most`` new patches; return whether one was found."""
    rows, columns = mask.shape
    for _ in range(TRIES):
        area = random.uniform(min(SMALLEST, most), most)
        aspect = math.exp(random.uniform(math.log(ASPECT), -math.log(ASPECT)))
        height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if not (0 < height <= rows and 0 < width <= columns):
            continue
        top, left = random.randint(0, rows - height), random.randint(0, columns - width)
        block = mask[top : top + height, left : left + width]
        if 0 < int((~block).sum()) <= most:
            block.fill_(True)
            return True
    return False
