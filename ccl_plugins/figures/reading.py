"""What figures read of kernels: which objective reads a condition through one, and the samples known."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ccl_plugins.figures.samples import Values, conditions_of, metadata_column_of, some, variable
from ccl_plugins.protocols import DoesNotApply
from ccl_plugins.training.kernel_check import KernelReading, kernel_readings

if TYPE_CHECKING:
    from torch import Tensor

    from ccl_plugins.experiments.pipeline import Run


def reader(run: Run, condition: str | None = None) -> KernelReading:
    """The first objective of a run that reads a condition with a table, or several, through a kernel.

    Raises:
        DoesNotApply: If there is none.
    """
    known = conditions_of(run)
    readers = [
        each
        for each in kernel_readings(run.parts.objective)
        if condition is None
        or any(condition in (name, metadata_column_of(known.get(name))) for name in each.names)
    ]
    if not readers:
        of = "a condition" if condition is None else f"condition {condition!r}"
        raise DoesNotApply(f"no objective of {run.path} reads {of} through a kernel")
    # If all are of values that are computed in every step, the first says so when it is read.
    tables = (r for r in readers if all(known[name].refresh != "batch" for name in r.names))
    return next(tables, readers[0])


def variables_of(run: Run, reading: KernelReading) -> dict[str, Values]:
    """What is known of the conditions that a kernel reads, by their names."""
    return {name: variable(run, name) for name in reading.names}


def known_rows(variables: Collection[Values], most: int) -> Tensor:
    """The places of at most so many samples that have a value of all variables.

    Raises:
        DoesNotApply: If these have no two values.
    """
    import torch

    named = " and ".join(repr(each.name) for each in variables)
    known = (~torch.stack([each.missing for each in variables]).any(0)).nonzero().flatten()
    rows = known[some(len(known), most)]
    if len(rows) < 3:
        raise DoesNotApply(f"condition {named} is known of {len(rows)} samples only")
    if all((each.values[rows] == each.values[rows[0]]).all() for each in variables):
        raise DoesNotApply(
            f"condition {named} has one value in all of {len(rows)} samples, so that nothing can be"
            " compared by it"
        )
    return rows
