"""What figures read of kernels: which objective reads a condition through one, and the samples known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ccl_plugins.figures.samples import Values, conditions_of, metadata_column_of, some, variable
from ccl_plugins.protocols import DoesNotApply

if TYPE_CHECKING:
    from torch import Tensor

    from ccl_plugins.experiments.pipeline import Run


@dataclass(frozen=True, eq=False)
class Reader:
    """An objective that reads a condition through a kernel, or several conditions.

    Args:
        names: The names of the conditions.
        kernel: The kernel.
        objective: The objective, or the part of a mixture.
    """

    names: tuple[str, ...]
    kernel: Any
    objective: Any

    @property
    def kernel_name(self) -> str:
        """The kernel with its scale, if it has one."""
        scale = getattr(self.kernel, "scale", None)
        return type(self.kernel).__name__ + ("" if scale is None else f", scale {scale}")

    def variables(self, run: Run) -> list[Values]:
        """What is known of the conditions."""
        return [variable(run, name) for name in self.names]

    def values(self, variables: Sequence[Values], rows: Tensor) -> Any:
        """What the kernel takes of some samples: values, or those of several conditions by name."""
        values = [each.values[rows] for each in variables]
        return values[0] if len(values) == 1 else dict(zip(self.names, values, strict=True))


def reader(run: Run, condition: str | None = None) -> Reader:
    """The first objective of a run that reads a condition with a table, or several, through a kernel.

    Raises:
        DoesNotApply: If there is none.
    """
    from ccl_plugins.training.kernel_check import kernel_of

    known = conditions_of(run)
    readers = [
        Reader(names, kernel, each)
        for each in run.parts.objective.modules()
        for kernel, names in kernel_of(each)
        if condition is None
        or any(condition in (name, metadata_column_of(known.get(name))) for name in names)
    ]
    if not readers:
        of = "a condition" if condition is None else f"condition {condition!r}"
        raise DoesNotApply(f"no objective of {run.path} reads {of} through a kernel")
    # If all are of values that are computed in every step, the first says so when it is read.
    tables = (r for r in readers if all(known[name].refresh != "batch" for name in r.names))
    return next(tables, readers[0])


def known_rows(variables: Sequence[Values], most: int) -> Tensor:
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
