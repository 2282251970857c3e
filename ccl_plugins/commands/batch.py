"""Work on several files or runs: a failure of one is reported, and the others go on."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ccl_registry as engine
from ccl_plugins.commands.base import Failed, about, message
from ccl_plugins.commands.tables import TextTable
from ccl_plugins.files.messages import warnings_of
from ccl_plugins.kinds import registry

if TYPE_CHECKING:
    from ccl_plugins.experiments.results import Result

EXPLAINED = (engine.Mistake, Failed, OSError)
"""Errors whose message says what is wrong; other errors are bugs and keep their traceback."""


def attempt(
    name: str,
    work: Callable[..., object],
    *given: Any,
    passing: tuple[type[BaseException], ...] = (),
) -> str:
    """Call ``work(*given)``; report its failure in a line that begins with ``name``.

    Components may raise any error; only Ctrl-C, a closed terminal and the errors in ``passing``
    stop the batch. With ``CCL_STRICT=1`` every failure is raised.

    Returns:
        The reason of the failure, in one line; empty if it did not fail.
    """
    try:
        work(*given)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, BrokenPipeError, *passing)) or registry().strict:
            raise
        reason = message(error)
        if not isinstance(error, EXPLAINED):
            traceback.print_exception(error)
            reason = f"{type(error).__name__}: {reason}"
        print(f"ccl: {about(name, reason)}", file=sys.stderr)
        return " ".join(reason.removeprefix(f"{name}: ").split()) or type(error).__name__
    return ""


def attempt_each(runs: Iterable[str], work: Callable[[Path], object]) -> dict[Path, str]:
    """Call ``work`` on each of some runs' folders; if there is one folder, its failure is raised.

    Returns:
        By folder, the reason of its failure, see `attempt`; empty if it did not fail.
    """
    folders = list({Path(run).resolve(): Path(run) for run in runs}.values())
    if len(folders) == 1:
        work(folders[0])
        return {folders[0]: ""}
    failed = {}
    for folder in folders:
        with warnings_of(str(folder)):
            failed[folder] = attempt(str(folder), work, folder)
    return failed


def compared(results: Iterable[Result]) -> TextTable:
    """The results of runs in one table: a line for each metric and configuration."""
    from ccl_plugins.experiments.results import compare_results

    rows = compare_results(results)
    notes = _notes([row["test"] for row in rows if row["test"] is not None])
    return TextTable(rows, ["", *notes] if notes else [], columns=_columns)


def _notes(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The meaning of a table's differences, and the smallest one that its number of seeds can show."""
    from ccl_plugins.experiments.results import visible

    notes = []
    for against in dict.fromkeys(test["against"] for test in tests):
        notes.append(f"DIFFERENCE: to {against}, the mean over common seeds; p: paired t-test")
    for n in sorted({test["n"] for test in tests}):
        if n < 2:
            notes.append(
                f"n = {n}: with {'one seed' if n else 'no seed'} in common, a difference cannot be "
                "told from chance; train each with several seeds (--seeds 0,1,2,3,4)"
            )
        else:
            notes.append(
                f"n = {n} common seeds: p < 0.05 needs a mean difference of {visible(n):.2f} "
                "standard"
                " deviations of the differences"
            )
    return notes


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    from ccl_plugins.experiments.results import spread

    return {
        "metric": row["metric"] or "",
        "run": row["run"],
        "n": row["n"] if row["n"] > 1 else None,
        "before": spread(row["before"], row["before_deviation"]),
        "after": spread(row["after"], row["after_deviation"], row["interval"]),
        "chance": spread(row["chance"]),
        "difference": _difference(row["test"]),
        "state": row["state"],
    }


def _difference(test: Mapping[str, Any] | None) -> str:
    if test is None or test["difference"] is None:
        return ""
    p = "" if test["p"] is None else f" (p {test['p']:.2g})"
    return f"{test['difference']:+.4g}{p}"
