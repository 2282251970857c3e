"""Frozen features of another model as conditioning variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins import timm_models
from ccl_plugins.accelerator import accelerator
from ccl_plugins.conditions.arrays import read_features
from ccl_plugins.conditions.extraction import extract, preprocessing
from ccl_plugins.conditions.feature_cache import cached, default_folder
from ccl_plugins.fingerprint import of_split, of_tensors
from ccl_plugins.missing import Missing, check_policy
from ccl_plugins.protocols import Life, Measure, Table


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
    life: Life = "static"
    measure: Measure = "continuous"

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
        self.missing = check_policy(missing, self.measure)
        self.cache = None if cache is None else Path(cache)
        self.batch_size = batch_size
        self.workers = workers
        self.device = device

    def fit(self, dataset: Any, embed: Callable[[], Tensor], previous: Table | None) -> Tensor:
        """The features of the training split."""
        if self.name is None:
            features = read_features(Path(self.file or ""), self.key, dataset)
        else:
            features = self._extracted(self.name, dataset)
        return functional.normalize(features, dim=1) if self.normalize else features

    def _extracted(self, name: str, dataset: Any) -> Tensor:
        model = self._model(name)
        config = preprocessing(model, self.image_size)
        device = self.device or str(accelerator())
        made_of = {
            "model": [name, self.head, self.options],
            "weights": of_tensors(model.state_dict()),
            "preparation": {key: str(value) for key, value in config.items()},
            "dataset": of_split(dataset),
        }
        return cached(
            self.cache or default_folder(),
            name,
            made_of,
            len(dataset),
            lambda: extract(
                model.to(device),
                dataset,
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
