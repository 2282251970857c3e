"""The export of a run's backbone to a format that other libraries read."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.pipeline.record import write_json

if TYPE_CHECKING:
    from ccl_plugins.runs.pipeline import Run

FORMATS = ("timm",)
WEIGHTS = "model.safetensors"
CONFIG = "config.json"


def export(run: Run, folder: str | Path | None = None, *, format: str = "timm") -> Path:
    """Write a run's backbone, without heads, as a folder that timm reads.

    It holds ``model.safetensors``, which ``timm.create_model(name, num_classes=0, checkpoint_path=...)``
    takes, and ``config.json``, which describes the model: ``timm.create_model("local-dir:FOLDER",
    pretrained=True)`` needs nothing else.  ``SHA256SUMS`` has the checksums of both, which
    ``sha256sum --check`` compares, and a backbone of this library that loads the weights.

    Args:
        run: A finished or interrupted run.
        folder: The folder to write; by default ``timm`` in the run's folder.  Files of these names are
            replaced.
        format: ``"timm"``.

    Returns:
        The folder.

    Raises:
        ValueError: For another format, and for a backbone that timm lacks.
    """
    from ccl_plugins.arguments import one_of
    from ccl_plugins.files.sums import SUMS, write_sums
    from ccl_plugins.files.tensors import write_tensors

    one_of("format", format, FORMATS)
    backbone = _of_timm(run)
    target = Path(folder).expanduser() if folder is not None else run.layout.exported
    # Copies, since safetensors refuses tensors that share memory.
    state = {name: tensor.clone() for name, tensor in backbone.model.state_dict().items()}
    (target / SUMS).unlink(missing_ok=True)  # of files that are replaced
    write_tensors(target / WEIGHTS, state, {})
    write_json(target / CONFIG, _config(backbone, run))
    write_sums(target, (WEIGHTS, CONFIG))
    return target


def _of_timm(run: Run) -> Any:
    from ccl_plugins.backbones.timm import Timm

    backbone = run.parts.method.backbone
    use = "or use ccl.load(RUN).encode(images), which takes any backbone"
    if not isinstance(backbone, Timm):
        raise ValueError(
            f"{run.path} has the backbone {run.pipeline.choices['backbone']!r}, which timm does not"
            f" have: train with a backbone of timm, {use}"
        )
    if backbone.stem != "default":
        raise ValueError(
            f"{run.path} has a backbone with stem={backbone.stem!r}, which no model of timm has:"
            f" train with stem='default', {use}"
        )
    return backbone


def _config(backbone: Any, run: Run) -> dict[str, Any]:
    """The entries that timm's own export writes, and the objective, method and plug-ins of the run."""
    import timm
    import torch

    known = backbone.model.pretrained_cfg
    views: Any = run.parts.views
    # Options of create_model itself tell where weights come from, and do not describe the model.
    not_model = set(inspect.signature(timm.create_model).parameters)
    images: dict[str, Any] = {}
    if all(hasattr(views, name) for name in ("size", "mean", "std")):
        mean, std = (
            torch.as_tensor(getattr(views, name)).flatten().tolist() for name in ("mean", "std")
        )
        images = {"input_size": [len(mean), views.size, views.size], "mean": mean, "std": std}
        images["crop_pct"] = 1.0  # the views' `plain` resizes to the size itself
    return {
        "architecture": known["architecture"],
        "num_classes": 0,
        "num_features": backbone.num_features,
        "model_args": {k: v for k, v in backbone.options.items() if k not in not_model},
        "pretrained_cfg": {
            **{k: known[k] for k in ("first_conv", "classifier", "pool_size") if k in known},
            **images,
            "interpolation": "bilinear",
            "num_classes": 0,
        },
        "ccl_plugins": {k: run.record[k] for k in ("objective", "method", "plugins")},
    }
