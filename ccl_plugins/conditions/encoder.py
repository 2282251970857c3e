"""Frozen features of another model as conditioning variable."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.conditions.given import read_features
from ccl_plugins.files.fingerprints import of_split, of_tensors
from ccl_plugins.files.tensors import DamagedFile, read_tensors, write_tensors
from ccl_plugins.metadata.missing import Missing, check_policy
from ccl_plugins.networks import timm_models
from ccl_plugins.networks.devices import accelerator
from ccl_plugins.protocols import Refresh, Table, ValueType

CHANNELS = {1: "L", 3: "RGB"}


def preprocessing(model: nn.Module, image_size: int | None) -> dict[str, Any]:
    """How a model wants its images, as its weights say: size, crop, interpolation, mean and deviation.

    Args:
        model: Of timm.
        image_size: Height and width in pixels, in place of the model's own.

    Raises:
        ValueError: For a model of other images than gray or color ones.
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
    """Features (N, f), float32 on the CPU, of images prepared as timm evaluates the model.

    Args:
        model: In evaluation mode, on ``device``.
        split: A torch Dataset of ``(image, ...)``; images as Pillow has them, or tensors (channels,
            height, width), uint8 or from 0 to 1.
        config: As `preprocessing` gives it.
        device: Where the model is.
        batch_size: Images per forward pass.
        workers: Processes that prepare images.
        name: Of the model, for the progress bar.
    """
    from timm.data.transforms_factory import create_transform
    from tqdm import tqdm  # type: ignore[import-untyped]  # it ships no types

    transform = create_transform(**config, is_training=False)
    loader = torch.utils.data.DataLoader(
        Prepared(split, transform, CHANNELS[config["input_size"][0]]),
        batch_size=batch_size,
        num_workers=workers,
        # A generator of its own: the loader would draw a seed from the run's.
        generator=torch.Generator(),
    )
    found = []
    # No bar where standard error is no terminal.
    bar = tqdm(total=len(split), desc=f"{name} features", unit="image", disable=None, leave=False)
    with torch.inference_mode(), bar:
        for images in loader:
            features = model(images.to(device))
            if features.ndim != 2:
                raise ValueError(
                    f"the model {name!r} must give (n, f) features, not {tuple(features.shape)}; an"
                    " option such as global_pool changes that"
                )
            found.append(features.float().cpu())
            bar.update(len(images))
    return torch.cat(found).clone()


class Prepared(torch.utils.data.Dataset[Tensor]):
    """A split's images as a model takes them.

    Args:
        split: Of ``(image, ...)``.
        transform: From a Pillow image to a tensor.
        mode: Pillow's name of the channels.
    """

    def __init__(self, split: Any, transform: Callable[[Any], Tensor], mode: str) -> None:
        self.split = split
        self.transform = transform
        self.mode = mode

    def __len__(self) -> int:
        """Number of images."""
        return len(self.split)

    def __getitem__(self, index: int) -> Tensor:
        """One image, prepared."""
        image = self.split[index][0]
        if isinstance(image, Tensor):
            image = _as_picture(image, index)
        return self.transform(image.convert(self.mode))


def _as_picture(image: Tensor, index: int) -> Any:
    from torchvision.transforms.functional import to_pil_image

    if image.ndim != 3 or image.shape[0] not in CHANNELS:
        raise ValueError(
            f"an encoder needs images of 1 or 3 channels; sample {index} has shape"
            f" {tuple(image.shape)}: condition column or clusters reads numbers"
        )
    return to_pil_image(image)


def default_folder() -> Path:
    """``$CCL_CACHE``, else ``ccl-plugins`` among the user's caches."""
    if os.environ.get("CCL_CACHE"):
        return Path(os.environ["CCL_CACHE"])
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "ccl-plugins"


def cached(
    folder: Path, name: str, made_of: Mapping[str, Any], size: int, make: Callable[[], Tensor]
) -> Tensor:
    """What ``make`` gives, from a file where there is one that was made of the same.

    Several processes may ask at once: each that finds no file makes one, and files appear whole.

    Args:
        folder: Where files are.
        name: Begins a file's name, for people.
        made_of: Everything that the result depends on, as plain data; ``"dataset"`` is the
            fingerprint of the images.
        size: Rows of the result.
        make: Gives (size, f).

    Warns:
        UserWarning: For a file that is damaged or stale, which is made anew.
    """
    about = {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in made_of.items()
    }
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}-{digest[:16]}.safetensors"
    found = _read(path, about, size)
    if found is None:
        found = make()
        write_tensors(path, {"values": found}, about)
    return found


def _read(path: Path, about: Mapping[str, str], size: int) -> Tensor | None:
    try:
        tensors, written = read_tensors(path)
    except FileNotFoundError:
        return None
    except DamagedFile as error:
        warnings.warn(f"{error}; it is made anew", stacklevel=4)
        return None
    if written != dict(about) or "values" not in tensors or len(tensors["values"]) != size:
        warnings.warn(f"{path} was made of something else; it is made anew", stacklevel=4)
        return None
    return tensors["values"]


class Encoder:
    """Features of each image by a frozen model of timm, or from a file.

    They are extracted once, un-augmented, prepared as timm evaluates the model, and kept on the disk
    for the next run with the same model, weights, preparation and images.

    Shape:
        N samples -> (N, f)

    Args:
        name: As in ``timm.list_models()``, with or without a tag of weights.
        pretrained: Download timm's weights for it.
        checkpoint_path: A file of weights, loaded last.
        head: Keep the model's last layer: a classifier, or a CLIP tower's projection.
        normalize: Bring the features to unit length.
        image_size: Height and width that images are brought to, in pixels; None: the model's own.
        options: Further arguments of the model.
        file: Features in place of a model: ``.npy``, ``.safetensors`` or ``.parquet``, (N, f).
        key: For ``.parquet``, the column that names the sample, as the data set's column of the same
            name does; None: row i is sample i.
        missing: What becomes of samples that a file has no features of: ``"error"`` or ``"drop"``.
        cache: The folder where extracted features are kept; None: ``$CCL_CACHE``, else the user's
            cache.
        batch_size: Images per forward pass.
        workers: Processes that prepare images.
        device: Where the model runs; None: an accelerator if there is one.

    Raises:
        ValueError: For neither or both of a model and a file; for a model that timm does not have, and
            a file that is of another data set.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "name": "resnet10t",
        "pretrained": False,
        "image_size": 32,
    }
    refresh: Refresh = "never"
    value_type: ValueType = "continuous"

    def __init__(
        self,
        name: str | None = None,
        pretrained: bool = True,
        checkpoint_path: str | Path | None = None,
        head: bool = False,
        normalize: bool = False,
        image_size: int | None = None,
        options: Mapping[str, Any] | None = None,
        file: str | Path | None = None,
        key: str | None = None,
        missing: Missing = "error",
        cache: str | Path | None = None,
        batch_size: int = 64,
        workers: int = 0,
        device: str | None = None,
    ) -> None:
        if (name is None) == (file is None):
            raise ValueError("give name=, a model of timm, or file=, features of another origin")
        if batch_size < 1 or workers < 0 or (image_size is not None and image_size < 1):
            raise ValueError(
                "batch_size and image_size must be 1 or more and workers 0 or more, not"
                f" {batch_size!r}, {image_size!r} and {workers!r}"
            )
        if name is not None:
            timm_models.check_name(name)
        self.name = name
        self.pretrained = pretrained
        self.checkpoint_path = checkpoint_path
        self.head = head
        self.normalize = normalize
        self.image_size = image_size
        self.options = dict(options or {})
        self.file = None if file is None else Path(file)
        self.key = key
        self.missing = check_policy(missing, self.value_type)
        self.cache = None if cache is None else Path(cache)
        self.batch_size = batch_size
        self.workers = workers
        self.device = device

    def fit(self, split: Any, embed: Callable[[], Tensor], previous: Table | None) -> Tensor:
        """The features of the training split."""
        if self.name is None:
            features = read_features(Path(self.file or ""), self.key, split)
        else:
            features = self._extracted(self.name, split)
        return functional.normalize(features, dim=1) if self.normalize else features

    def _extracted(self, name: str, split: Any) -> Tensor:
        model = self._model(name)
        config = preprocessing(model, self.image_size)
        device = self.device or str(accelerator())
        made_of = {
            "model": [name, self.head, self.options],
            "weights": of_tensors(model.state_dict()),
            "preparation": {key: str(value) for key, value in config.items()},
            "dataset": of_split(split),
        }
        return cached(
            self.cache or default_folder(),
            name,
            made_of,
            len(split),
            lambda: extract(
                model.to(device),
                split,
                config,
                device=device,
                batch_size=self.batch_size,
                workers=self.workers,
                name=name,
            ),
        )

    def _model(self, name: str) -> nn.Module:
        model: nn.Module = timm_models.create(
            name, self.pretrained, self.options, keep_head=self.head
        )
        if self.checkpoint_path is not None:
            timm_models.load_weights(model, self.checkpoint_path, keep_head=self.head)
        return model.eval().requires_grad_(False)
