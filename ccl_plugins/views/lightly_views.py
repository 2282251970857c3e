"""Views made by lightly's transforms, on PIL images and on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as pixels

from ccl_plugins.arguments import positive
from ccl_plugins.views.crop import RandomResizedCrop

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class LightlyViews:
    """One view per given transform of lightly, and the image without augmentation.

    Images are RGB or L images of PIL, or uint8 tensors (channels, height, width) on the CPU; both
    give the same views, but for one level of rounding in the crop.  ``mean`` says how many channels
    views have: a gray image is repeated to three where there are three, any other difference is an
    error.

    Args:
        transforms: For each view the steps of a lightly transform, beginning with its random resized
            crop and without its end, the conversion to a tensor.
        size: Height and width of views in pixels, 1 or more.
        mean: Of each channel, for pixels in [0, 1].
        std: Of each channel, above 0, for pixels in [0, 1].

    Attributes:
        transforms: For each view a function from an image to it, so that training can seed every view
            on its own.

    Raises:
        ValueError: If a parameter is out of its range; on use, for a wrong shape or mode.
        TypeError: On use, for an image of another type.
    """

    def __init__(
        self,
        transforms: Sequence[Sequence[Any]],
        *,
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
    ) -> None:
        if size < 1:
            raise ValueError(f"size must be 1 or more pixels, not {size!r}")
        if not mean or len(mean) != len(std):
            raise ValueError(f"mean and std must be equally long, not {mean!r} and {std!r}")
        # A step whose probability is 0 does nothing, yet takes up to 100 us of a view's time.
        self.steps = [[s for s in steps if _probability(s) > 0] for steps in transforms]
        # Crops of tensors; those of PIL images are the first steps.
        self.crops = [RandomResizedCrop(s[0].size, s[0].scale, s[0].ratio) for s in self.steps]
        self.count = len(transforms)
        self.transforms = [partial(self._view, view) for view in range(self.count)]
        if len(mean) not in (1, 3) and any(len(steps) > 1 for steps in self.steps):
            raise ValueError(
                f"images of {len(mean)} channels can be cropped only: turn the other steps off"
            )
        self.size = size
        self.mean = torch.tensor(mean)[:, None, None]
        self.std = torch.tensor([positive("std", value) for value in std])[:, None, None]

    def __call__(self, image: Image | Tensor) -> list[Tensor]:
        """The views, each (channels, size, size) float32, normalized."""
        return [transform(image) for transform in self.transforms]

    def plain(self, image: Image | Tensor) -> Tensor:
        """The image without augmentation, (..., channels, size, size) float32, normalized.

        The shorter side is resized to ``size`` and the center taken, unless it has that size already.

        Args:
            image: An image, or a batch (n, channels, height, width) of uint8.
        """
        image = self._checked(image)
        tensor = image if isinstance(image, Tensor) else pixels.pil_to_tensor(image)
        if tensor.shape[-2:] != (self.size, self.size):
            tensor = pixels.center_crop(pixels.resize(tensor, [self.size]), [self.size])
        return self._normalized(tensor)

    def _view(self, view: int, image: Image | Tensor) -> Tensor:
        image = self._checked(image)
        if isinstance(image, Tensor) and image.ndim != 3:
            raise ValueError(f"an image must be (channels, h, w), not {tuple(image.shape)}")
        crop, *rest = self.steps[view]
        if isinstance(image, Tensor):
            image = self.crops[view](image)
            if rest:  # lightly blurs PIL images only, and they are twice as fast to color
                image = pixels.to_pil_image(image)
        else:
            image = crop(image)
        for step in rest:
            image = step(image)
        return self._normalized(image if isinstance(image, Tensor) else pixels.pil_to_tensor(image))

    def _checked(self, image: Image | Tensor) -> Image | Tensor:
        """The image with the right number of channels."""
        channels = len(self.mean)
        if isinstance(image, Image):
            if image.mode not in ("L", "RGB"):
                raise ValueError(f"a PIL image must be RGB or L, not {image.mode}: convert it")
            if image.mode == "L" and channels == 3:
                return image.convert("RGB")
            has = len(image.getbands())
        elif isinstance(image, Tensor) and image.dtype == torch.uint8:
            if image.ndim not in (3, 4):
                raise ValueError(f"images must be ([n,] channels, h, w), not {tuple(image.shape)}")
            has = image.shape[-3]
            if has == 1 and channels == 3:
                return image.expand(*image.shape[:-3], 3, -1, -1)
        else:
            what = image.dtype if isinstance(image, Tensor) else type(image).__name__
            raise TypeError(f"an image must be a PIL image or a uint8 tensor, not {what}")
        if has != channels:
            raise ValueError(f"the image has {has} channels, but mean and std have {channels}")
        return image

    def _normalized(self, tensor: Tensor) -> Tensor:
        # The arithmetic of torchvision's ToDtype and Normalize, to the bit, in a third of the time.
        mean, std = self.mean, self.std
        if tensor.device != mean.device:
            mean, std = mean.to(tensor.device), std.to(tensor.device)
        return tensor.float().mul_(1.0 / 255).sub_(mean).div_(std)


def _probability(step: Any) -> float:
    """Of being applied: torchvision says ``p``, lightly ``prob``, a crop always is."""
    return float(getattr(step, "p", getattr(step, "prob", 1.0)))
