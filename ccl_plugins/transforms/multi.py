"""Any number of views by SimCLR's augmentations."""

from __future__ import annotations

from collections.abc import Sequence

from ccl_plugins.transforms.lightly import LightlyTransform
from ccl_plugins.transforms.simclr import SIMCLR
from ccl_plugins.transforms.steps import Jitter, view_steps


class MultiTransform(LightlyTransform):
    """Any number of views by SimCLR's augmentations, drawn independently.

    Args:
        count: Number of views, 1 to 1024.
        jitter: Strength of the color jitter, 0 to 2.5; 0 turns it off.  Or four numbers, as in
            torchvision: for brightness, contrast, saturation, and hue, at most 0.5.
        jitter_chance: Probability of the color jitter.

    Defaults:
        size: Here: the augmentations are those of ``simclr``.
        min_scale: Here: that of ``simclr``.
        flip: Here: that of ``simclr``.
        jitter: Here: that of ``simclr``.
        jitter_chance: Here: that of ``simclr``.
        gray: Here: that of ``simclr``.
        blur: Here: that of ``simclr``.

    Source:
        The 1 + K views of Zheng et al., Contrastive Attraction and Contrastive Repulsion for
        Representation Learning (2021), with SimCLR's augmentations.
    """

    def __init__(
        self,
        size: int = 224,
        *,
        count: int = 4,
        min_scale: float = 0.08,
        flip: float = 0.5,
        jitter: float | Sequence[float] = 1.0,
        jitter_chance: float = 0.8,
        gray: float = 0.2,
        blur: float = 0.5,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        batched: bool = False,
    ) -> None:
        like, strength = SIMCLR, jitter
        if not isinstance(strength, int | float):
            like, strength = _four(strength), 1.0
        steps = view_steps(
            size, min_scale, flip, strength, gray, blur, like=like, chance=jitter_chance
        )
        super().__init__([steps], size=size, mean=mean, std=std, count=count, batched=batched)


def _four(jitter: Sequence[float]) -> Jitter:
    if len(jitter) != 4 or min(jitter) < 0 or jitter[3] > 0.5:
        raise ValueError(
            "jitter must be a strength, or four numbers, 0 or more, with at most 0.5 for the last, hue,"
            f" not {jitter!r}"
        )
    return Jitter(*jitter)
