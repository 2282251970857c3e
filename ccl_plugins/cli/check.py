"""``ccl check``: the conformance kit without pytest."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from ccl_plugins.cli.commands import Mistake, command

if TYPE_CHECKING:
    from ccl_plugins.cli.commands import Commands


def add(commands: Commands) -> None:
    """Add the sub-command."""
    parser = command(
        commands,
        "check",
        "Hold the components of a distribution against the laws of their kinds; exit with 1 if one"
        " is broken.",
        "ccl check ccl-plugins",
    )
    parser.add_argument("names", nargs="+", metavar="DIST", help="an installed distribution")
    parser.add_argument("--json", action="store_true", help="as a JSON array, of all checks")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ccl_plugins.cli.tables import TextTable
    from ccl_plugins.testing.suite import checks, run

    try:
        todo = {name: checks(name) for name in options.names}
    except LookupError as error:
        raise Mistake(str(error)) from error
    rows: list[dict[str, Any]] = []
    skipped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, found in todo.items():
        for each in found:
            outcome = run(each)
            rows.append(
                {
                    "distribution": name,
                    "check": str(each),
                    "state": outcome.state,
                    "reason": outcome.reason,
                }
            )
            if outcome.state == "failed" and not options.json:
                print(f"{each} failed: {_line(outcome.reason)}", flush=True)
            if outcome.state == "skipped":
                skipped[each.component, outcome.reason].append(each.name)
    if options.json:
        print(TextTable(rows).json())
    for (component, reason), laws in () if options.json else skipped.items():
        print(f"{component} {len(laws)} skipped: {_line(reason)}")
    for name in todo:
        count = Counter(row["state"] for row in rows if row["distribution"] == name)
        summary = ", ".join(f"{count[state]} {state}" for state in ("passed", "failed", "skipped"))
        print(f"{name}: {summary}", file=sys.stderr if options.json else sys.stdout)
    return 1 if any(row["state"] == "failed" for row in rows) else 0


def _line(reason: str) -> str:
    """A message on one line."""
    return " ".join(reason.split())
