"""The stored numbers: one JSON file per case."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

Data: TypeAlias = Mapping[str, torch.Tensor]
Answers: TypeAlias = Mapping[str, Callable[[], torch.Tensor]]
"""What computes each stored number, by its key; for a stored gradient, the loss it is of."""

Family: TypeAlias = Callable[[dict[str, Any], Data], Answers]
"""From a case and its inputs to its answers."""

FOLDER = Path(__file__).parents[1] / "oracles"


def names(*patterns: str) -> list[str]:
    """The cases that match, sorted."""
    found = {path.stem for pattern in patterns for path in FOLDER.glob(f"{pattern}.json")}
    return sorted(found - {"INDEX"})


def case(name: str) -> dict[str, Any]:
    return {"extras": {}, **json.loads((FOLDER / f"{name}.json").read_text())}


def index() -> list[str]:
    """The names of all stored cases."""
    return sorted(entry["name"] for entry in json.loads((FOLDER / "INDEX.json").read_text()))


def tensors(inputs: dict[str, Any], dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    """Lists as tensors; lists of whole numbers in one dimension stay class ids."""
    out = {}
    for key, value in inputs.items():
        ids = isinstance(value[0], int)
        out[key] = (
            torch.tensor(value) if ids else torch.tensor(value, dtype=torch.float64).to(dtype)
        )
    return out
