"""The metrics of a run on the disk."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from ccl_plugins._engine import engine
from ccl_plugins.files.sums import WrongSum, check_sum, summed
from ccl_plugins.pipeline.record import read_json, write_json


def write_metrics(file: Path, metrics: Mapping[str, float]) -> None:
    """Write metrics as JSON, atomically, and their checksum to the ``SHA256SUMS`` beside them."""
    with summed(file):
        write_json(file, metrics)


def read_metrics(file: Path) -> dict[str, float]:
    """The metrics in a file; none if there is no such file.

    Warns:
        UserWarning: For a file that is damaged, or holds something else; none of it is used.
    """
    if not file.is_file():
        return {}
    try:
        check_sum(file)
        found = read_json(file)
    except (WrongSum, engine.InvalidConfig) as error:
        warnings.warn(f"{error}; no metric of it is used", stacklevel=3)
        return {}
    if wrong := {k: v for k, v in found.items() if type(v) not in (int, float)}:
        given = engine.represented(wrong)
        warnings.warn(
            f"{file} must hold numbers by name, not {given}: it is not used", stacklevel=3
        )
        return {}
    return found
