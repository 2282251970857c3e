"""Features of a frozen model of timm, or from a file, as conditioning variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.arguments import DEEPEST, SHARPEST, checked, whole
from ccl_plugins.files.arrays import read_array
from ccl_plugins.files.cache import cached, default_folder
from ccl_plugins.files.fingerprints import of_split, of_tensors
from ccl_plugins.files.reading import naming_files
from ccl_plugins.metadata.columns import encode
from ccl_plugins.metadata.matching import read_rows, require_images, require_matrix
from ccl_plugins.metadata.variable import Variable, check_policy
from ccl_plugins.networks import timm_models
from ccl_plugins.networks.devices import accelerator
from ccl_plugins.networks.extraction import extract, preprocessing
from ccl_plugins.protocols import Embedder, Missing, Refresh, Table, ValueType


@dataclass(eq=False, repr=False)
class Encoder:
    """Features of each image by a frozen model of timm, or from a file.

    Features are extracted once, from un-augmented images that are prepared as in timm's evaluation
    of the model. They are kept on disk for later runs with the same model, weights, preparation and
    images.

    Shape:
        N samples -> (N, f)

    Args:
        name: A name of ``timm.list_models()``, with or without a tag of weights.
        pretrained: Download timm's weights for it.
        checkpoint_path: A file of weights, loaded last.
        head: Keep the model's last layer: a classifier, or a CLIP tower's projection.
        normalize: Scale the features to unit length.
        image_size: Height and width that images are resized to, in pixels; None: the model's own.
        options: Further arguments of the model.
        file: Features, (N, f), to use instead of a model: ``.npy``, ``.safetensors`` or ``.parquet``.
        key: For ``.parquet``, the column that names the sample, matched with the data set's column
            of the same name; None: row i is sample i.
        missing: What to do with samples without features in the file: ``"error"``, ``"ignore"`` or
            ``"drop"`` (see `ccl_plugins.conditions.Column`).
        cache: The folder for extracted features; None: ``$CCL_CACHE``, else the user's cache.
        batch_size: Images per forward pass.
        workers: Processes that prepare images.
        device: Where the model runs; None: an accelerator if there is one.

    Raises:
        ValueError: For neither or both of a model and a file; for a model that timm does not have, and
            for a file of another data set.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "name": "resnet10t",
        "pretrained": False,
        "image_size": 32,
    }
    refresh: ClassVar[Refresh] = "never"
    value_type: ClassVar[ValueType] = "continuous"

    name: str | None = None
    pretrained: bool = True
    checkpoint_path: str | Path | None = None
    head: bool = False
    normalize: bool = False
    image_size: int | None = checked(whole, least=1, most=SHARPEST, default=None)
    options: Mapping[str, Any] | None = None
    file: str | Path | None = None
    key: str | None = None
    missing: Missing = "error"
    cache: str | Path | None = None
    batch_size: int = checked(whole, least=1, default=64)
    workers: int = checked(whole, least=0, most=DEEPEST, default=0)
    device: str | None = None

    def __post_init__(self) -> None:
        if (self.name is None) == (self.file is None):
            raise ValueError("give name=, a model of timm, or file=, a file of features; not both")
        self.options = dict(self.options or {})
        if self.file is not None:
            self.file = Path(self.file).expanduser()
        if self.name is not None:
            timm_models.check_name(self.name)
            if (size := self.image_size) is not None:
                timm_models.check_image_size(self.name, self.options, size, "image_size =")
        check_policy(self.missing, self.value_type)

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """The features of the training split."""
        if self.name is None:
            with naming_files(file := Path(self.file or "")):
                features = _read_features(file, self.key, split)
        else:
            features = self._extracted(self.name, split)
        return functional.normalize(features, dim=1) if self.normalize else features

    def _extracted(self, name: str, split: Any) -> Tensor:
        model: nn.Module = timm_models.create_model(
            name,
            self.pretrained,
            self.options or {},
            keep_head=self.head,
            instead="file=FILE, features that were computed elsewhere; or checkpoint_path=FILE, a file of"
            " weights",
        )
        if self.checkpoint_path is not None:
            timm_models.load_weights(model, self.checkpoint_path, keep_head=self.head)
        model.eval().requires_grad_(False)
        config = preprocessing(model, self.image_size)
        device = self.device or str(accelerator())
        made_of = {
            "model": [name, self.head, self.options],
            "weights": of_tensors(model.state_dict()),
            "preparation": {key: str(value) for key, value in config.items()},
            "dataset": of_split(split),
        }
        return cached(
            default_folder() if self.cache is None else Path(self.cache).expanduser(),
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


def _read_features(path: Path, key: str | None, split: Any) -> Tensor:
    """Features (N, f) of a split's samples, NaN for samples that a table lacks."""
    if path.suffix not in (".npy", ".safetensors", ".parquet"):
        raise ValueError(
            "a file of features must end in .npy, .safetensors or .parquet, not be named "
            f"{path.name!r}"
        )
    if path.suffix == ".parquet":
        encoded = encode(read_rows(path, key, split))
        for name in encoded.vocabulary:
            raise ValueError(
                f"{path}: column {name!r} holds words, but features are numbers; if it names the "
                "samples, give key="
            )
        # Columns of whole numbers are read as class ids, with -1 for a missing value.
        numbers = [
            Variable(column, encoded.schema[name]).as_numbers().float()
            for name, column in encoded.tables[0].items()
        ]
        return torch.cat([column.reshape(len(split), -1) for column in numbers], 1)
    if key is not None:
        raise ValueError(f"key={key!r} names a column of a table, but {path} is not a table")
    features = read_array(path)
    if path.suffix == ".safetensors":
        require_images(path, split)
    return require_matrix(features, split, str(path)).float()
