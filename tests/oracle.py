"""The stored numbers: one JSON file per case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent / "oracles"


def names(*patterns: str) -> list[str]:
    """The cases that match, sorted."""
    return sorted(path.stem for pattern in patterns for path in FOLDER.glob(f"{pattern}.json"))


def case(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def tensors(inputs: dict[str, Any], dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    """Lists as tensors; lists of whole numbers in one dimension stay class ids."""
    out = {}
    for key, value in inputs.items():
        ids = isinstance(value[0], int)
        out[key] = (
            torch.tensor(value) if ids else torch.tensor(value, dtype=torch.float64).to(dtype)
        )
    return out


def assert_gradients(loss: torch.Tensor, stored: dict[str, Any], **inputs: torch.Tensor) -> None:
    """The gradient for each input has the stored norm and the stored first row."""
    gradients = torch.autograd.grad(loss, list(inputs.values()))
    for name, gradient in zip(inputs, gradients, strict=True):
        expected = {key: torch.tensor(v, dtype=torch.float64) for key, v in stored[name].items()}
        found = {"l2": gradient.norm(), "row0": gradient[0]}
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
