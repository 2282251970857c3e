"""The folder that shares a run."""

from __future__ import annotations

import importlib.util
import io
import runpy
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ccl_plugins.backbones.timm import Timm
from ccl_plugins.experiments.export import (
    CONFIG,
    README,
    describe,
    plain_backbone,
    traced,
    unknown_to_timm,
    write_weights,
)
from ccl_plugins.experiments.paths import without_paths
from ccl_plugins.experiments.record import WATCHING, Record, write_json
from ccl_plugins.files.atomic import replacing
from ccl_plugins.files.sums import SUMS, write_sums
from ccl_plugins.files.tensors import write_tensors
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.sharing.card import FILES, LOADER, ONNX, PIPELINE, Shared, card
from ccl_plugins.sharing.loader import CONSTANTS, timm_loader, torch_loader

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run


def write_folder(
    run: Run, folder: str | Path, *, repository: str | None = None, license: str | None = None
) -> list[str]:
    """Write the folder that shares a finished run: weights, the code that loads them, and a card.

    The card is written from the record and the stored measurements; nothing is measured. No file
    has a path of this machine, a name or features of a training image, or settings of a logger.
    Before the folder is moved into place, its ``load.py`` is run, and the features are compared
    with the backbone's.

    Args:
        run: The run.
        folder: The folder, new or empty.
        repository: Its name on the Hugging Face Hub, such as ``"me/model"``, for the lines that load it.
        license: The identifier of its license on the Hub, such as ``"mit"``; None: the card says
            that there is none.

    Returns:
        Notes for the user: shortened paths, and files that were left out, with the reason.

    Raises:
        ValueError: If the run is not finished, the folder has files, the backbone cannot be written as
            plain PyTorch, or the written code computes other features.
        FileNotFoundError: If the run has no weights.
        PluginFailed: If the plug-in of backbone or transform is missing.
    """
    folder = Path(folder).expanduser()
    _require_finished(run)
    require_empty(folder)
    format = "torch" if unknown_to_timm(run) else "timm"
    config, plain = describe(run, format), plain_backbone(run)
    record, places = without_paths({k: v for k, v in run.record.items() if k not in WATCHING})
    notes = [f"paths in {PIPELINE} are shortened to their last part: {', '.join(places)}"] * bool(
        places
    )
    with replacing(folder, FILES) as staged:
        write_weights(staged, run, plain)
        write_json(staged / CONFIG, config)
        (staged / PIPELINE).write_text(Record(record).to_toml(), "utf-8")
        program: Any = None
        if format == "torch" or (onnx_is_installed() and "input_size" in config["pretrained_cfg"]):
            program = traced(plain, run, config)
        if format == "timm":
            (staged / LOADER).write_text(timm_loader(config), "utf-8")
        else:
            (staged / LOADER).write_text(
                torch_loader(program, config, _keys(program, plain)), "utf-8"
            )
            if program.constants:
                write_tensors(staged / CONSTANTS, dict(program.constants), {})
        notes += _onnx(staged, program)
        _check(staged, plain, config)
        there = [name for name in FILES if (staged / name).exists()]
        shared = Shared(run, config, record, format, [*there, SUMS], places, repository, license)
        (staged / README).write_text(card(shared), "utf-8")
        write_sums(staged, [*there, README])
    return notes


def require_empty(folder: Path) -> None:
    """Refuse a folder that is not empty.

    Raises:
        ValueError: For such a folder, with its name.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty: name a new or an empty folder")


def _require_finished(run: Run) -> None:
    step, total = run.progress
    if step < total:
        raise ValueError(
            f"{run.path} is not finished (step {step} of {total}): resume it with ccl train --resume, and"
            " share it then"
        )


def _keys(program: Any, plain: Any) -> dict[str, str]:
    """For each tensor of a program its name in the files of `write_weights`."""
    names = [*program.state_dict, *program.constants]
    inside = isinstance(plain, Timm)
    return {
        name: name.removeprefix("model.") if inside and name in program.state_dict else name
        for name in names
    }


def _onnx(staged: Path, program: Any) -> list[str]:
    """Write the model of ONNX; a note if there is none."""
    left_out = f"{ONNX[0]} is left out"
    if not onnx_is_installed():
        return [f'{left_out}: pip install "ccl-plugins[onnx]" for it']
    if program is None:
        return [f"{left_out}: the transform does not declare the size and normalization of images"]
    try:
        write_onnx(staged / ONNX[0], program)
    except ValueError as error:
        return [f"{left_out}: {error}"]
    return []


def _check(staged: Path, plain: Any, config: Mapping[str, Any]) -> None:
    """Compare the features of ``load.py`` with the backbone's, on random images."""
    shape = config.get("pretrained_cfg", config).get("input_size")
    if shape is None:
        return
    images = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), undisturbed():
        features = runpy.run_path(str(staged / LOADER))["load"]()(images)
        expected = plain(images)
    if not torch.allclose(features, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max())):
        raise ValueError(
            f"{LOADER} gives other features than the run's backbone, by up to"
            f" {float((features - expected).abs().max()):.2g}: nothing was written"
        )


def onnx_is_installed() -> bool:
    """Whether the packages that torch needs to export to ONNX are installed."""
    return all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript"))


def write_onnx(file: Path, program: Any) -> None:
    """Write a model of ONNX from any number of ``images`` to ``features``.

    It holds no path of this machine: torch's notes about source lines are deleted.

    Args:
        file: The file; weights above 1.5 GB go into a second file beside it.
        program: The backbone as a program of `torch.export`.

    Raises:
        ValueError: If it has an operation that ONNX lacks.
    """
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about its own code
            made: Any = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                input_names=["images"],
                output_names=["features"],
            )
    except RuntimeError as error:  # torch.onnx.errors.OnnxExporterError derives from it
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"the backbone has no model of ONNX: {reason}") from error
    for node in made.model.graph.all_nodes():
        node.metadata_props.clear()
    made.save(file)
