"""Work on several files or runs, of which each may fail: a failure is reported, and the rest goes on."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine
from ccl_plugins.cli.commands import Failed, Mistake, message
from ccl_plugins.cli.tables import TextTable
from ccl_plugins.kinds import registry

if TYPE_CHECKING:
    from ccl_plugins.runs.results import Result

EXPLAINED = (engine.RegistryError, Mistake, Failed, OSError)
"""Errors whose message says what is wrong; others are bugs, and keep their traceback."""


def attempt(
    name: str,
    work: Callable[..., object],
    *given: Any,
    passing: tuple[type[BaseException], ...] = (),
) -> str:
    """Call ``work(*given)``; report its failure in a line that begins with ``name``.

    Components may raise anything; only Ctrl-C, a closed terminal and the errors in ``passing`` end the
    whole.  With ``CCL_STRICT=1`` every failure is raised.

    Returns:
        Why it failed, in one line; empty if it did not.
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
        place = "" if reason.startswith((f"{name}: ", f"{name} ")) else f"{name}: "
        print(f"ccl: {place}{reason}", file=sys.stderr)
        return " ".join(reason.removeprefix(f"{name}: ").split()) or type(error).__name__
    return ""


def compared(results: Iterable[Result]) -> TextTable:
    """The results of runs in one table: a line for each metric and configuration."""
    from ccl_plugins.runs.results import compare

    return TextTable(compare(results), columns=_columns)


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "metric": row["metric"] or "",
        "run": row["run"],
        "n": row["n"] if row["n"] > 1 else None,
        **{time: spread(row[time], row[f"{time}_deviation"]) for time in ("before", "after")},
        "state": row["state"],
    }


def spread(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return ""
    return f"{mean:.4g}" if deviation is None else f"{mean:.4g} ± {deviation:.2g}"
