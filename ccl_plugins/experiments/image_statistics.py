"""Mean and standard deviation of images: those of a backbone's weights, and those of a transform."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from ccl_plugins.protocols import trait
from ccl_plugins.transforms.lightly import IMAGENET_MEAN, IMAGENET_STD, LightlyTransform
from ccl_plugins.transforms.modalities import IMAGE, Modalities, of_image


def with_statistics(transform: Any, backbone: Any) -> Any:
    """The choice of a transform whose mean and std are numbers, so that a record has them.

    Where none are given, they are those of the backbone's weights, else ImageNet's.  A transform of
    another author is left as it is.

    Args:
        transform: The choice.
        backbone: The choice.
    """
    cls, params = transform.spec.load(), transform.params
    changes: dict[str, Any] = {}
    if cls is Modalities and hasattr(image := params["of"].get(IMAGE), "params"):
        changes["of"] = {**params["of"], IMAGE: with_statistics(image, backbone)}
    elif isinstance(cls, type) and issubclass(cls, LightlyTransform):
        mean, std = _of_weights(backbone) or (IMAGENET_MEAN, IMAGENET_STD)
        defaults = {"mean": tuple(mean), "std": tuple(std)}
        given = {len(params[name]) for name in defaults if params.get(name) is not None}
        changes = {
            name: value
            for name, value in defaults.items()
            if params.get(name, 0) is None and given <= {len(value)}
        }
    if not changes:
        return transform
    changed = copy.copy(transform)  # which may be part of another pipeline
    changed.params = {**params, **changes}
    return changed


def warn_of_other_statistics(transform: Any, backbone: Any) -> None:
    """Warn if a transform prepares images in another way than those that a backbone's weights know.

    Args:
        transform: The built transform.
        backbone: The choice.
    """
    image: Any = of_image(transform)
    known = _of_weights(backbone)
    if known is None or not all(hasattr(image, name) for name in ("mean", "std")):
        return
    given = [torch.as_tensor(each).flatten().tolist() for each in (image.mean, image.std)]
    if all(map(_close, given, known)):
        return
    (mean, std), (its_mean, its_std) = ([_shown(x) for x in pair] for pair in (given, known))
    warnings.warn(
        f"the weights of the backbone were trained on images with mean {its_mean} and std {its_std}, and"
        f" the views have mean {mean} and std {std}: leave both out of the transform, or give it mean ="
        f" {its_mean}, std = {its_std}",
        stacklevel=5,
    )


def _of_weights(backbone: Any) -> tuple[Sequence[float], Sequence[float]] | None:
    cls = backbone.spec.load()
    if not isinstance(cls, type):
        return None
    statistics: tuple[Sequence[float], Sequence[float]] | None
    statistics = trait(cls, "image_statistics")(backbone.params)
    return statistics


def _close(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether numbers are equal as far as papers print them."""
    return len(a) == len(b) and all(abs(x - y) <= 2e-3 for x, y in zip(a, b, strict=True))


def _shown(numbers: Sequence[float]) -> str:
    return f"[{', '.join(f'{each:.4g}' for each in numbers)}]"
