"""A small data set of images with captions and attributes, and a pipeline on it that trains in a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import ccl_plugins as ccl
from ccl_plugins.datasets.annotated import InMemory

WORDS = ("red", "green", "blue")


class Captioned:
    """Images of one color each, a caption that names it, and attributes that say it, without noise."""

    def __init__(self, size: int = 24, words: Sequence[str] = WORDS) -> None:
        self.size = size
        self.words = words

    def __call__(self, split: str) -> InMemory:
        label = torch.arange(self.size) % len(self.words)
        generator = torch.Generator().manual_seed(int(split == "test"))
        images = torch.randint(0, 80, (self.size, 3, 8, 8), generator=generator)
        images += 150 * torch.nn.functional.one_hot(label, 3)[:, :, None, None]
        columns = {
            "label": label,
            "attributes": torch.nn.functional.one_hot(label, 3).float(),
            "weight": label.float(),
        }
        texts = {"caption": [f"a {self.words[i]} square" for i in label.tolist()]}
        return InMemory(images.to(torch.uint8), label, columns, texts=texts)

    def schema(self) -> Mapping[str, str]:
        return {"label": "categorical", "attributes": "multi_label", "weight": "continuous"}

    def texts(self) -> Sequence[str]:
        return ("caption",)


class Plain:
    """The image and noise."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.transforms = [self._noisy] * count

    def __call__(self, image: Tensor) -> list[Tensor]:
        return [self._noisy(image) for _ in range(self.count)]

    def _noisy(self, image: Tensor) -> Tensor:
        return self.plain(image) + 0.05 * torch.randn(image.shape)

    def plain(self, image: Tensor) -> Tensor:
        return image / 255


TEXT = {"use": "text_transformer", "length": 16, "width": 16, "depth": 1, "heads": 2}
VIEWS = {"image": Plain(), "text": {"use": "tokens", "length": 16}}


def pipeline(**changes: Any) -> Any:
    """A pipeline of images and captions."""
    given: dict[str, Any] = {
        "dataset": Captioned(),
        "transform": VIEWS,
        "backbone": {"use": "mlp", "in_features": 192, "hidden": [16], "batch_norm": False},
        "method": {"use": "dual", "towers": {"text": TEXT}, "dim": 8},
        "objective": "infonce",
        "evaluate": ["knn"],
        "fit": {
            "epochs": 2,
            "batch_size": 8,
            "workers": 0,
            "optimizer": {"use": "adamw", "lr": 1e-2},
        },
    }
    return ccl.Pipeline(**{**given, **changes})
