"""The data sets of torchvision, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.arguments import did_you_mean
from ccl_plugins.datasets.annotated import Annotated, InMemory, find_labels
from ccl_plugins.datasets.splitting import check_split
from ccl_plugins.protocols import ValueType

_BY_FLAG = ({"train": True}, {"train": False})
_BY_NAME = ({"split": "train"}, {"split": "test"})
_TRAINVAL = ({"split": "trainval"}, {"split": "test"})
_TO_VAL = ({"split": "train"}, {"split": "val"})

SPLITS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "CIFAR10": _BY_FLAG,
    "CIFAR100": _BY_FLAG,
    "Country211": _BY_NAME,
    "DTD": _BY_NAME,
    "FGVCAircraft": _TRAINVAL,
    "FashionMNIST": _BY_FLAG,
    "Flowers102": _BY_NAME,
    "Food101": _BY_NAME,
    "GTSRB": _BY_NAME,
    "ImageNet": _TO_VAL,
    "Imagenette": _TO_VAL,
    "KMNIST": _BY_FLAG,
    "MNIST": _BY_FLAG,
    "OxfordIIITPet": _TRAINVAL,
    "STL10": _BY_NAME,
    "SVHN": _BY_NAME,
    "USPS": _BY_FLAG,
}
"""torchvision's arguments for train and test, for its classification data sets that have both splits."""


class TorchVision:
    """A classification data set of torchvision by its name, such as CIFAR10, STL10 or MNIST.

    Columns: ``label``. Small images are kept in memory, as in torchvision; gray images have one
        channel, which the views repeat if the network takes three.

    Args:
        name: torchvision's name: CIFAR10, CIFAR100, Country211, DTD, FGVCAircraft, FashionMNIST,
            Flowers102, Food101, GTSRB, ImageNet, Imagenette, KMNIST, MNIST, OxfordIIITPet, STL10,
            SVHN or USPS.
        root: The folder that holds it, in the layout that torchvision expects.
        download: Whether torchvision may download what is missing.

    Raises:
        ValueError: For another name.
        FileNotFoundError: On use, if the data is missing or incomplete.

    Source:
        torchvision, which compares the checksums of CIFAR's files before it reads them.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "CIFAR10"}

    def __init__(self, name: str, root: str | Path = "data", download: bool = False) -> None:
        if name not in SPLITS:
            near = did_you_mean(name, SPLITS, "", most=3)
            raise ValueError(
                f"there is no data set {name!r} of torchvision here.{near} There are"
                f" {', '.join(SPLITS)}; the data set 'torch' takes any other"
            )
        self.name = name
        self.root = Path(root).expanduser()
        self.download = download

    def __call__(self, split: str) -> InMemory | Annotated:
        """The ``"train"`` or ``"test"`` split."""
        train, test = SPLITS[self.name]
        options = train if check_split(split) == "train" else test
        samples = self._open(dict(options))
        label = torch.as_tensor(np.asarray(find_labels(samples))).long()
        pixels = getattr(samples, "data", None)
        if pixels is None:
            return Annotated(samples, {"label": label})
        return InMemory(channels_first(torch.as_tensor(pixels)), label, {"label": label})

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return {"label": "categorical"}

    def _open(self, options: dict[str, Any]) -> Any:
        from torchvision import datasets  # late: composing a pipeline does not need it

        if self.name != "ImageNet":  # torchvision cannot download it
            options["download"] = self.download
        elif self.download:
            raise ValueError("ImageNet cannot be downloaded: see image-net.org, and give its root")
        try:
            return getattr(datasets, self.name)(self.root, **options)
        except (RuntimeError, FileNotFoundError) as error:
            raise FileNotFoundError(
                f"torchvision finds no complete {self.name} in {str(self.root)!r}: {error}"
            ) from error


def channels_first(pixels: Tensor) -> Tensor:
    """(N, channels, height, width), from the same, (N, height, width, 3) or gray (N, height, width)."""
    if pixels.ndim == 3:
        return pixels[:, None]
    return pixels.permute(0, 3, 1, 2).contiguous() if pixels.shape[-1] == 3 else pixels
