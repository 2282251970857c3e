"""A backbone as a model of ONNX."""

from __future__ import annotations

import importlib.util
import io
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def onnx_is_installed() -> bool:
    """Whether torch finds what it exports to ONNX with."""
    return all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript"))


def write_onnx(file: Path, program: Any) -> None:
    """Write a model of ONNX from any number of ``images`` to ``features``.

    It holds no path of this machine: what torch notes of the source of each operation is deleted.

    Args:
        file: The file; above 1.5 GB the weights lie in another beside it.
        program: The backbone as a program of `torch.export`.

    Raises:
        ValueError: If it has an operation that ONNX lacks.
    """
    import torch

    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about itself
            made: Any = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                input_names=["images"],
                output_names=["features"],
            )
    except RuntimeError as error:  # which torch.onnx.errors.OnnxExporterError is
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"the backbone has no model of ONNX: {reason}") from error
    for node in made.model.graph.all_nodes():
        node.metadata_props.clear()
    made.save(file)
