"""Examples of the built-in components that read files, draw many axes or make large views."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from support.font_samples import write_font
from support.image_samples import write_image
from torch import Tensor

from ccl_plugins.metadata import fitted
from ccl_plugins.protocols import Table
from ccl_plugins.testing.inputs import SAMPLES

STEMS = {"train": "train", "test": "t10k"}


def write_idx(path: Path, values: Tensor) -> None:
    """A file of MNIST's format."""
    head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    path.write_bytes(head + values.byte().numpy().tobytes())


def mnist(folder: Path) -> Path:
    """Ten digits for each split."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem in STEMS.values():
        pixels = (torch.arange(10 * 28 * 28).reshape(10, 28, 28) + len(stem)) % 256
        write_idx(folder / f"{stem}-images-idx3-ubyte", pixels)
        write_idx(folder / f"{stem}-labels-idx1-ubyte", torch.arange(10))
    return folder


def color_mnist(folder: Path) -> Mapping[str, Any]:
    return {"root": str(mnist(folder))}


def torchvision(folder: Path) -> Mapping[str, Any]:
    mnist(folder / "MNIST" / "raw")
    return {"name": "MNIST", "root": str(folder)}


def image_folder(folder: Path) -> Mapping[str, Any]:
    for i in range(8):
        split, name = ("train", "test")[i % 2], ("cat", "dog")[i // 2 % 2]
        write_image(folder / split / name / f"{i}.png", shade=20 * i)
    return {"root": str(folder)}


def fonts(folder: Path) -> Mapping[str, Any]:
    for number, name in enumerate(("Alpha", "Beta", "Gamma", "Delta")):
        for weight in (300, 500):
            path = folder / f"{name} {weight}.ttf"
            write_font(path, name, weight=weight, index=37 * number)
    return {"folders": str(folder), "letters": "Aa", "test_fraction": 0.5}


def table(folder: Path) -> Mapping[str, Any]:
    rows = ["image,label,split,height"]
    for i in range(8):
        write_image(folder / f"{i}.png", shade=20 * i)
        rows.append(f"{i}.png,{'cat' if i % 4 < 2 else 'dog'},{('train', 'test')[i % 2]},{i / 8}")
    (folder / "images.csv").write_text("\n".join(rows) + "\n")
    return {"path": str(folder / "images.csv"), "split": "split"}


def saved(folder: Path) -> Mapping[str, Any]:
    # The same class for all: a saved table belongs to its samples in their order.
    fitted.save_table(folder / "z.safetensors", Table(torch.zeros(SAMPLES).long()), "categorical")
    return {"file": str(folder / "z.safetensors")}


EXAMPLES = {
    "condition/saved": saved,
    "dataset/color_mnist": color_mnist,
    "dataset/fonts": fonts,
    "dataset/image_folder": image_folder,
    "dataset/table": table,
    "dataset/torchvision": torchvision,
    "figure/curves": {"names": ["loss"]},
    "transform/dino": {"size": 64, "small_size": 32},
    **{f"transform/{name}": {"size": 64} for name in ("simclr", "multi", "moco_v2", "byol")},
}
