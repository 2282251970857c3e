"""Features of images by a frozen model of timm, with the preparation that its weights need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm  # type: ignore[import-untyped]  # it ships no types

from ccl_plugins.files.images import Mode, read_image

CHANNELS: dict[int, Mode] = {1: "L", 3: "RGB"}
"""Pillow's mode by the number of channels."""


def preprocessing(model: nn.Module, image_size: int | None) -> dict[str, Any]:
    """The preparation of a model's images: size, crop, interpolation, mean and standard deviation.

    Args:
        model: A model of timm.
        image_size: Height and width in pixels, in place of the model's own.

    Raises:
        ValueError: For a model whose images are neither gray nor in color.
    """
    from timm.data.config import resolve_data_config

    config: dict[str, Any] = resolve_data_config({}, model=model)
    channels, *size = config["input_size"]
    config["input_size"] = (channels, *([image_size] * 2 if image_size else size))
    if channels not in CHANNELS:
        raise ValueError(f"the model takes images of {channels} channels; 1 or 3 are right")
    return config


def extract(
    model: nn.Module,
    split: Any,
    config: dict[str, Any],
    *,
    device: str,
    batch_size: int,
    workers: int,
    name: str,
) -> Tensor:
    """Features (N, f), float32 on the CPU, of images prepared as in timm's evaluation of the model.

    Args:
        model: In evaluation mode, on ``device``.
        split: A torch Dataset of ``(image, ...)``; images are Pillow's, or tensors (channels, height,
            width), uint8 or from 0 to 1.
        config: The result of `preprocessing`.
        device: The model's device.
        batch_size: Images per forward pass.
        workers: Processes that prepare images.
        name: The model's name, for the progress bar.
    """
    from timm.data.transforms_factory import create_transform

    transform = create_transform(**config, is_training=False)
    rows: Any = range(len(split))
    loader = torch.utils.data.DataLoader(
        rows,
        batch_size=batch_size,
        collate_fn=partial(_prepare, split, transform, CHANNELS[config["input_size"][0]]),
        num_workers=workers,
        # A separate generator: the loader would draw a seed from the run's.
        generator=torch.Generator(),
    )
    all_features = []
    # disable=None: no bar if standard error is no terminal.
    bar = tqdm(total=len(split), desc=f"{name} features", unit="image", disable=None, leave=False)
    with torch.inference_mode(), bar:
        for images in loader:
            features = model(images.to(device))
            if features.ndim != 2:
                raise ValueError(
                    f"the model {name!r} must give (n, f) features, not {tuple(features.shape)}; an"
                    " option such as global_pool changes that"
                )
            all_features.append(features.float().cpu())
            bar.update(len(images))
    return torch.cat(all_features).clone()


def _prepare(
    split: Any, transform: Callable[[Any], Tensor], mode: Mode, rows: Sequence[int]
) -> Tensor:
    """(n, channels, height, width): the images of some rows of a split, prepared for a model."""
    pictures = (read_image(_as_picture(split[i][0], i), mode) for i in rows)
    return torch.stack([transform(picture) for picture in pictures])


def _as_picture(image: Any, index: int) -> Any:
    if not isinstance(image, Tensor):
        return image
    from torchvision.transforms.functional import to_pil_image

    if image.ndim != 3 or image.shape[0] not in CHANNELS:
        raise ValueError(
            f"an encoder needs images of 1 or 3 channels; sample {index} has shape"
            f" {tuple(image.shape)}: condition column or clusters reads numbers"
        )
    return to_pil_image(image)
