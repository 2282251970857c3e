"""BYOL's augmentations, which MoCo v3 uses."""

from __future__ import annotations

from collections.abc import Sequence

from ccl_plugins.transforms.lightly import LightlyTransform
from ccl_plugins.transforms.steps import Jitter, view_steps

BYOL = Jitter(0.4, 0.4, 0.2, 0.1)


class BYOLTransform(LightlyTransform):
    """Views by the augmentations of BYOL and MoCo v3, which differ between the two views.

    The first view is always blurred and never solarized, the second is rarely blurred and sometimes
    solarized; with more views, the two kinds alternate.  Crops keep at least 0.08 of the area in BYOL and
    in MoCo v3 with a ViT, at least 0.2 in MoCo v3 with a ResNet.

    Args:
        count: Number of views, 1 to 1024.
        blur: Probabilities of a Gaussian blur of 0.1 to 2 pixels, in the two kinds of view.
        solarize: Probabilities of inverting the brighter half of the pixel range, in the two kinds of view.

    Defaults:
        size: Paper: 224. Code: 224.
        min_scale: Paper: 0.08. Code: 0.08 (MoCo v3; 0.2 for ResNet).
        flip: Paper: 0.5. Code: 0.5.
        jitter: Paper: 0.4, 0.4, 0.2, 0.1. Code: 0.4, 0.4, 0.2, 0.1. Here: these four are the range
            of strength 1.
        gray: Paper: 0.2. Code: 0.2.

    Source:
        Grill et al., Bootstrap Your Own Latent (2020), appendix B; Chen et al., An Empirical Study of
        Training Self-Supervised Vision Transformers (2021).  As in lightly.
    """

    def __init__(
        self,
        size: int = 224,
        *,
        count: int = 2,
        min_scale: float = 0.08,
        flip: float = 0.5,
        jitter: float = 1.0,
        gray: float = 0.2,
        blur: tuple[float, float] = (1.0, 0.1),
        solarize: tuple[float, float] = (0.0, 0.2),
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        batched: bool = False,
    ) -> None:
        for name, pair in {"blur": blur, "solarize": solarize}.items():
            if len(pair) != 2:
                raise ValueError(f"{name} must be two probabilities, not {pair!r}")
        kinds = [
            view_steps(
                size, min_scale, flip, jitter, gray, blur[kind], like=BYOL, solarize=solarize[kind]
            )
            for kind in (0, 1)
        ]
        super().__init__(kinds, size=size, mean=mean, std=std, count=count, batched=batched)
