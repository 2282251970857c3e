"""Views by lightly's transforms, of PIL images and of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor
from torchvision.transforms.v2 import RandomHorizontalFlip
from torchvision.transforms.v2 import functional as pixels

from ccl_plugins.arguments import DEEPEST, SHARPEST, positive, whole
from ccl_plugins.files.images import read_image
from ccl_plugins.transforms.batched import BatchedView
from ccl_plugins.transforms.steps import ChannelJitter, of_channels

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class LightlyTransform:
    """Views by given transforms of lightly, and the image without augmentation.

    Images are PIL images of mode RGB or L, which are turned upright as their EXIF data says, or uint8
    tensors (channels, height, width) on the CPU; the views of both are equal.  A view has as many channels
    as ``mean``: a gray image is repeated to three channels, and any other difference is an error.
    Images of other than one or three channels can only be cropped, flipped and jittered: each
    channel gets its own brightness and contrast.

    Args:
        transforms: One or more kinds of view: for each, the steps of a lightly transform, from its random
            resized crop to its last step before the conversion to a tensor.
        size: Height and width of a view in pixels, 1 to 16384.
        mean: Mean of each channel, for pixels in [0, 1]; None: the mean that the weights of the
            pipeline's backbone were trained with, or ImageNet's without such weights.
        std: Standard deviation of each channel, above 0, for pixels in [0, 1]; None: chosen like
            ``mean``.
        count: Number of views, 1 to 1024, which take the kinds in turn; by default one view of each
            kind.
        batched: Whether training draws the views of a whole batch at once, on the device, with the
            same distribution (`BatchedView`); all images must then have one size. If False, the
            loader's workers draw them image by image.

    Args of subclasses:
        min_scale: Smallest part of the image's area that a crop keeps, above 0 and at most 1.
        flip: Probability of a horizontal flip.
        jitter: Strength of the color jitter, applied with probability 0.8; 0 turns it off, 0.5 is usual
            for small images, and 1 is the range of the transform's own paper.  The most is 2.5 for
            SimCLR's views and 5 for MoCo v2's and BYOL's.
        gray: Probability of losing the color.
        blur: Probability of a Gaussian blur of 0.1 to 2 pixels.

    Attributes:
        transforms: For each view, a function from an image to the view, so that training can seed each
            view on its own.
        batch_transforms: For each view, a function from images (n, channels, height, width) and seeds
            (n,) to the views; None unless ``batched``.

    Raises:
        ValueError: If a parameter is out of its range; on use, for a wrong shape or mode.
        TypeError: On use, for an image that is neither PIL's nor a uint8 tensor.
    """

    def __init__(
        self,
        transforms: Sequence[Sequence[Any]],
        *,
        size: int,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        count: int | None = None,
        batched: bool = False,
    ) -> None:
        self.size = whole("size", size, 1, SHARPEST)
        self.count = whole("count", len(transforms) if count is None else count, 1, DEEPEST)
        for name, given, other, beside in (("mean", mean, "std", std), ("std", std, "mean", mean)):
            if given is not None and beside is None and len(given) != len(IMAGENET_MEAN):
                raise ValueError(f"{name} has {len(given)} numbers: give {other} the same number")
        mean = IMAGENET_MEAN if mean is None else mean
        std = IMAGENET_STD if std is None else std
        if not mean or len(mean) != len(std):
            raise ValueError(f"mean and std must be equally long, not {mean!r} and {std!r}")
        # A step with probability 0 does nothing, and would take up to 100 us.
        kinds = [[step for step in steps if _probability(step) > 0] for steps in transforms]
        self._as_tensors = len(mean) not in (1, 3)
        if self._as_tensors:
            kinds = [[*map(of_channels, steps)] for steps in kinds]
        self.steps = [kinds[view % len(kinds)] for view in range(self.count)]
        self.transforms = [partial(self._view, view) for view in range(self.count)]
        more = (step for steps in self.steps for step in steps[1:])
        known = (RandomHorizontalFlip, ChannelJitter)
        if self._as_tensors and not all(isinstance(step, known) for step in more):
            raise ValueError(
                f"images of {len(mean)} channels can only be cropped, flipped and jittered: turn "
                "the other steps off, with gray=0, blur=0"
            )
        self.batch_transforms = None
        if batched:
            # One function for all views of the same steps, which are then drawn in one call.
            of_batch = {
                id(steps): partial(self._of_batch, BatchedView(kind, mean, std))
                for steps, kind in zip(transforms, kinds, strict=True)
            }
            self.batch_transforms = [
                of_batch[id(transforms[view % len(kinds)])] for view in range(self.count)
            ]
        self.mean = torch.tensor(mean)[:, None, None]
        self.std = torch.tensor([positive("std", value) for value in std])[:, None, None]

    def __call__(self, image: Image | Tensor) -> list[Tensor]:
        """The views, each (channels, size, size) float32, normalized."""
        return [transform(image) for transform in self.transforms]

    def plain(self, image: Image | Tensor) -> Tensor:
        """The image without augmentation, (..., channels, size, size) float32, normalized.

        Unless the image already has this size, its shorter side is resized to ``size`` and the
        center is cropped.

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
        if isinstance(image, Tensor) and not self._as_tensors:
            # lightly blurs PIL images only, and cropping and changing their colors takes half the time.
            image = pixels.to_pil_image(image)
        for step in self.steps[view]:
            image = step(image)
        return self._normalized(image if isinstance(image, Tensor) else pixels.pil_to_tensor(image))

    def _checked(self, image: Image | Tensor) -> Image | Tensor:
        """The image, with gray repeated to three channels where views have three."""
        channels = len(self.mean)
        if isinstance(image, Image):
            picture: Image = read_image(image)
            if image.mode not in ("L", "RGB"):
                raise ValueError(f"a PIL image must be RGB or L, not {image.mode}: convert it")
            if picture.mode == "L" and channels == 3:
                return picture.convert("RGB")
            image, has = picture, len(picture.getbands())
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
            raise ValueError(
                f"the image has {has} channels, but mean and std have {channels}: give the transform a mean"
                f" and a std of {has} numbers each, and the backbone as many channels"
            )
        return image

    def _normalized(self, tensor: Tensor) -> Tensor:
        # Bitwise equal to torchvision's ToDtype and Normalize, in a third of the time.
        # Nothing waits for the device.
        mean, std = (x.to(tensor.device, non_blocking=True) for x in (self.mean, self.std))
        return tensor.float().mul_(1.0 / 255).sub_(mean).div_(std)

    def _of_batch(self, view: BatchedView, images: Tensor, seeds: Tensor) -> Tensor:
        return view(self._checked(images), seeds)  # type: ignore[arg-type]  # no PIL


def _probability(step: Any) -> float:
    """The probability of applying a step: torchvision's ``p``, lightly's ``prob``, 1 for a crop."""
    return float(getattr(step, "p", getattr(step, "prob", 1.0)))
