"""Tables of conditions that are too large for the memory of each process: in a file that all map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ccl_plugins.files.fingerprints import of_parts
from ccl_plugins.files.mapped import (
    DTYPES,
    NAMES,
    blocks,
    is_large,
    map_at,
    map_safetensors,
    place_of,
    writing,
)
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.protocols import Table
from ccl_registry.errors import Mistake


class MissingTable(Mistake):
    """The file of a condition's table is missing or has changed."""


def put(run: RunFolder, name: str, epoch: int, table: Table) -> Table:
    """The table with its values in a file of the run, if they are large and not in a file yet.

    Args:
        run: The run's folder, whose checkpoints name the file in place of the values.
        name: The condition's name.
        epoch: The epoch in which it was fitted.
        table: The table.

    Raises:
        OSError: If there is no room for it.
    """
    values = table.values
    if not is_large(values.nbytes) or place_of(values) is not None or values.dtype not in NAMES:
        return table
    path = run.claim(run.table(name, epoch))
    with writing(path, {"values": (tuple(values.shape), values.dtype)}) as tensors:
        for rows in blocks(values):
            tensors["values"][rows] = values[rows]
    return Table((map_safetensors(path) or {})["values"], table.extras)


def reference(values: Tensor, run: RunFolder | None) -> dict[str, Any] | None:
    """The place of values in a file, as plain data; None for values in memory.

    Args:
        values: The values of a table.
        run: The run's folder; files beside its checkpoints are named without their folder.
    """
    if (place := place_of(values)) is None:
        return None
    path, offset = place
    inside = run is not None and path.parent == run.checkpoints.resolve()
    return {
        "file": path.name if inside else str(path),
        "offset": offset,
        "shape": list(values.shape),
        "dtype": NAMES[values.dtype],
        "fingerprint": of_parts(values),
    }


def tables_of(state: Mapping[str, Any], run: RunFolder) -> dict[str, Any]:
    """The state of a checkpoint's tables with all values, mapped if they are in files.

    Args:
        state: A ``state_dict`` of `ccl_plugins.training.tables.Tables`.
        run: The run's folder.

    Raises:
        MissingTable: If there is no such file, or it holds other values.
    """
    return {n: {**saved, "values": _values(n, saved, run)} for n, saved in state.items()}


def _values(name: str, saved: Mapping[str, Any], run: RunFolder) -> Tensor:
    """The values of a condition's saved table, in memory or in the file that it refers to."""
    if "file" not in saved:
        values: Tensor = saved["values"]
        return values
    path = run.checkpoints / saved["file"]
    try:
        values = map_at(path, saved["offset"], DTYPES[saved["dtype"]], saved["shape"])
    except (OSError, ValueError) as error:
        raise MissingTable(
            f"the values of condition {name!r} are in {path}, which cannot be read: {error}"
        ) from error
    if of_parts(values) != saved["fingerprint"]:
        raise MissingTable(
            f"the values of condition {name!r} are in {path}, which holds others than it did: put back the"
            " file, or begin anew"
        )
    return values
