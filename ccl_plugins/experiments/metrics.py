"""The metrics of a run on the disk."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ccl_plugins._engine import engine
from ccl_plugins.experiments.record import read_json, write_json
from ccl_plugins.files.sums import WrongSum, check_sum, summed
from ccl_plugins.protocols import Estimate


def write_metrics(file: Path, metrics: Mapping[str, float]) -> None:
    """Write metrics as JSON, atomically, and their checksum to the ``SHA256SUMS`` beside them."""
    _write(file, {name: float(value) for name, value in metrics.items()})


def add_costs(file: Path, seconds: Mapping[str, float]) -> None:
    """Put seconds into the costs of a run, beside those that are there."""
    write_metrics(file, {**read_metrics(file), **seconds})


def write_intervals(file: Path, metrics: Mapping[str, float]) -> None:
    """Write the intervals of those metrics that have one, as `write_metrics` does."""
    estimates = {k: v for k, v in metrics.items() if isinstance(v, Estimate)}
    _write(file, {name: [value.low, value.high] for name, value in estimates.items()})


def read_metrics(file: Path) -> dict[str, float]:
    """The metrics in a file; none if there is no such file.

    Warns:
        UserWarning: For a file that is damaged, or holds something else; none of it is used.
    """
    return _read(file, "numbers by name", _is_number)


def read_intervals(file: Path) -> dict[str, tuple[float, float]]:
    """The intervals in a file, the lower end first; none if there is no such file.

    Warns:
        UserWarning: For a file that is damaged, or holds something else; none of it is used.
    """
    found = _read(file, "two numbers by name", _are_two)
    return {name: (low, high) for name, (low, high) in found.items()}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _are_two(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _write(file: Path, values: Mapping[str, Any]) -> None:
    with summed(file):
        write_json(file, values)


def _read(file: Path, what: str, right: Callable[[Any], bool]) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        check_sum(file)
        found = read_json(file)
    except (WrongSum, engine.InvalidConfig) as error:
        warnings.warn(f"{error}; no metric of it is used", stacklevel=4)
        return {}
    if wrong := {k: v for k, v in found.items() if not right(v)}:
        given = engine.represented(wrong)
        warnings.warn(f"{file} must hold {what}, not {given}: it is not used", stacklevel=4)
        return {}
    return found
