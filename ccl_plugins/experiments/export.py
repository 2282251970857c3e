"""The export of a run's backbone to a format that other libraries read."""

from __future__ import annotations

import copy
import inspect
import io
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from ccl_plugins.arguments import one_of
from ccl_plugins.backbones.lora import adapters
from ccl_plugins.backbones.timm import Timm
from ccl_plugins.experiments.paths import without_paths
from ccl_plugins.experiments.record import write_json
from ccl_plugins.files.atomic import replacing
from ccl_plugins.files.lock import owning
from ccl_plugins.files.sums import SUMS, has_sum, write_sums
from ccl_plugins.files.tensors import write_tensors
from ccl_plugins.transforms.modalities import of_image

Run: TypeAlias = Any
"""A `Run`, whose module imports this one."""


WEIGHTS = "model.safetensors"
CONFIG = "config.json"
PROGRAM = "backbone.pt2"
ADAPTERS = ("adapter_model.safetensors", "adapter_config.json")
README = "README.md"
EXPORTED = (WEIGHTS, CONFIG, PROGRAM, *ADAPTERS, README, SUMS)
"""The files of an export."""


def export(run: Run, folder: str | Path | None = None, *, format: str | None = None) -> Path:
    """Write a run's backbone, without heads, as a folder that other libraries read without this one.

    The format ``"timm"`` holds ``model.safetensors``, which ``timm.create_model(name,
    num_classes=0, checkpoint_path=...)`` takes, and ``config.json``, which describes the model:
    ``timm.create_model("local-dir:FOLDER", pretrained=True).eval()`` needs nothing else.

    The format ``"torch"``, for any backbone, holds ``backbone.pt2``, a program of `torch.export` in
    evaluation mode, which ``torch.export.load(...).module()`` runs with PyTorch alone, and
    ``model.safetensors``, the weights, to train them further.

    The weights include the adapters of ``lora``. The adapters are also in files that peft reads:
    ``adapter_model.safetensors`` and ``adapter_config.json``.

    ``README.md`` has the lines that load it. ``SHA256SUMS`` has the checksums of the other files,
    which ``sha256sum --check`` compares; a backbone of this library also checks them when it loads
    the weights.

    The arguments, the result and the errors are those of `Run.export`.
    """
    unknown = unknown_to_timm(run)
    if format is None:
        format = "torch" if unknown else "timm"
    if one_of("format", format, [*run.folder.exports]) == "timm" and unknown:
        raise ValueError(f"{run.path} has {unknown}: the format 'torch' takes any backbone")
    target = Path(folder).expanduser() if folder is not None else run.folder.exports[format]
    if folder is None:
        run.folder.refuse_links()
    _refuse_other_files(target, run.folder.own_names() if folder is None else ())
    config = describe(run, format)
    plain = plain_backbone(run)
    program = None if format == "timm" else _saved(traced(plain, run, config))
    with owning(run.path if folder is None else target), replacing(target, EXPORTED) as staged:
        write_weights(staged, run, plain)
        write_json(staged / CONFIG, config)
        if program is not None:
            (staged / PROGRAM).write_bytes(program)
        (staged / README).write_text(_readme(config, format), "utf-8")
        parts = (WEIGHTS, CONFIG, PROGRAM, *ADAPTERS)
        write_sums(staged, [part for part in parts if (staged / part).exists()])
        if folder is None:
            run.folder.note(*(target / name for name in EXPORTED if (staged / name).exists()))
    return target


def _refuse_other_files(target: Path, wrote: Collection[str]) -> None:
    """Refuse a folder with files of these names that neither the run nor an export wrote."""
    names = [name for name in EXPORTED if os.path.lexists(target / name)]
    known = [name for name in names if has_sum(target / name)]
    known += [README, SUMS] if WEIGHTS in known else []
    others = [name for name in names if name not in known and f"{target.name}/{name}" not in wrote]
    if others:
        raise ValueError(
            f"{target} has a file {others[0]}, which no export wrote and which would be replaced: "
            "name another folder"
        )


def unknown_to_timm(run: Run) -> str:
    """The part of a run's backbone that timm lacks, or nothing."""
    backbone = run.backbone
    if not isinstance(backbone, Timm):
        return f"the backbone {run.recorded.choices['backbone']!r}, which timm does not have"
    if backbone.stem != "default":
        return f"a backbone with stem={backbone.stem!r}, which no model of timm has"
    if backbone.features != "default":
        return f"a backbone with features={backbone.features!r}, which timm pools in another way"
    return ""


def plain_backbone(run: Run) -> Any:
    """A copy of a run's backbone on the CPU, in evaluation mode, with adapters merged into its weights."""
    backbone = run.backbone
    plain = backbone.plain() if isinstance(backbone, Timm) else copy.deepcopy(backbone)
    return plain.cpu().eval()


def write_weights(folder: Path, run: Run, plain: Any) -> None:
    """Write the weights of a run's backbone, and its adapters beside them, if it has any.

    Args:
        folder: Where.
        run: The run.
        plain: Its `plain_backbone`.
    """
    inner = plain.model if isinstance(plain, Timm) else plain
    # Copies, since safetensors refuses tensors that share memory.
    state = {name: tensor.clone() for name, tensor in inner.state_dict().items()}
    write_tensors(folder / WEIGHTS, state, {})
    if isinstance(run.backbone, Timm) and run.backbone.lora is not None:
        learned, settings = adapters(run.backbone.model)
        write_tensors(folder / ADAPTERS[0], learned, {})
        settings.save_pretrained(folder)


def traced(plain: Any, run: Run, config: Mapping[str, Any]) -> Any:
    """A backbone as a program of `torch.export` for batches of any size.

    It holds no path of this machine: torch's notes about source lines are deleted.

    Args:
        plain: The `plain_backbone`.
        run: The run, for errors.
        config: Its description, which has the shape of an image.

    Raises:
        ValueError: If `torch.export` cannot follow it.
    """
    shape = config.get("pretrained_cfg", config)["input_size"]
    try:
        with torch.no_grad():  # or blocks without gradients would become modules of their own
            program = torch.export.export(
                plain,
                (torch.zeros(2, *shape),),
                dynamic_shapes=({0: torch.export.Dim("n", min=1)},),
            )
    except RuntimeError as error:  # all errors of its tracer are of this type
        raise ValueError(
            f"torch.export cannot follow the backbone {run.recorded.choices['backbone']!r}:"
            f" {str(error).strip().partition(chr(10))[0]}"
        ) from error
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    return program


def _saved(program: Any) -> bytes:
    written = io.BytesIO()  # writing to a full disk, torch would end the process
    torch.export.save(program, written)
    return written.getvalue()


def describe(run: Run, format: str) -> dict[str, Any]:
    """The description of a run's backbone in a format, without paths of this machine."""
    described = _config(run.backbone, run) if format == "timm" else _torch_config(run)
    plain, _ = without_paths(described)
    return plain


def _torch_config(run: Run) -> dict[str, Any]:
    """The inputs and outputs of the program, and the parts of the run's record."""
    transform: Any = run.transform
    images = _images(transform)
    if not images:  # a transform of one's own: one sample shows the shape
        plain = transform.plain(run.dataset("train")[0][0])
        images = {"input_size": [*plain.shape]}
    return {
        **images,
        "num_features": run.backbone.num_features,
        "ccl_plugins": _known(run, "backbone", "objective", "method", "versions"),
    }


def _known(run: Run, *tables: str) -> dict[str, Any]:
    """Tables of a run's record, and how it read images."""
    return {"reading": run.record.reading, **{name: run.record[name] for name in tables}}


def _images(transform: Any) -> dict[str, Any]:
    """The shape of the images that a transform makes, and their mean and deviation, as timm writes them."""
    transform = of_image(transform)
    if not all(hasattr(transform, name) for name in ("size", "mean", "std")):
        return {}
    mean, std = (
        torch.as_tensor(getattr(transform, name)).flatten().tolist() for name in ("mean", "std")
    )
    return {"input_size": [len(mean), transform.size, transform.size], "mean": mean, "std": std}


LOADING = {
    "timm": """\
import timm

model = timm.create_model("local-dir:.", pretrained=True).eval()""",
    "torch": """\
model = torch.export.load("backbone.pt2").module()  # in evaluation mode""",
}
"""The lines that load an export, in its folder."""

PREPARED = ", of pixels in [0, 1], less the mean, divided by std, as in config.json"


def _readme(config: Mapping[str, Any], format: str) -> str:
    images = config.get("pretrained_cfg", config)
    shape = ", ".join(map(str, images.get("input_size", (3, 224, 224))))
    after = {
        "timm": "`create_model` returns a model in training mode: without `.eval()`, batch norms "
        "and dropout change the features.",
        "torch": "`backbone.pt2` is fixed in evaluation mode. `model.safetensors` has the weights, "
        "to train"
        " them further.",
    }[format]
    return f"""\
# A backbone trained with ccl-plugins

Its features (n, {config["num_features"]}) of images, without the heads of its training; in this folder:

```python
import torch
{LOADING[format]}
images = torch.zeros(2, {shape})  # (n, channels, height, width){PREPARED if "mean" in images else ""}
with torch.no_grad():
    features = model(images)
```

{after}
"""


def _config(backbone: Any, run: Run) -> dict[str, Any]:
    """The entries that timm's own export writes, and the objective, method and plug-ins of the run."""
    import timm

    known = backbone.model.pretrained_cfg
    # Options of create_model itself tell where weights come from, and do not describe the model.
    not_model = set(inspect.signature(timm.create_model).parameters)
    images = _images(run.transform)
    if images:
        images["crop_pct"] = 1.0  # the transform's `plain` resizes to the size itself
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
        "ccl_plugins": _known(run, "objective", "method", "versions"),
    }
