"""``ccl check``: the conformance kit without pytest."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import redirect_stdout

from ccl_plugins.cli.commands import JSON, Command, Mistake, argument


def _run(options: argparse.Namespace) -> int:
    """Check the components of a distribution against the laws of their kinds; exit with 1 if one fails."""
    from ccl_plugins.cli.tables import TextTable
    from ccl_plugins.testing.suite import checks, run

    report = sys.stderr if options.json else sys.stdout
    rows = TextTable([])
    with redirect_stdout(sys.stderr):  # for what components print
        try:
            todo = {name: checks(name) for name in options.names}
        except LookupError as error:
            raise Mistake(str(error)) from error
        for name, found in todo.items():
            states, skipped = Counter[str](), Counter[tuple[str, str]]()
            for each in found:
                outcome = run(each)
                state, reason = outcome.state, outcome.reason
                rows.append(
                    {"distribution": name, "check": str(each), "state": state, "reason": reason}
                )
                reason = " ".join(reason.split())  # on one line
                states[state] += 1
                if state == "failed":
                    print(f"{each} failed: {reason}", file=report, flush=True)
                if state == "skipped":
                    skipped[each.component, reason] += 1
            for (component, reason), count in skipped.items():
                print(f"{component} {count} skipped: {reason}", file=report)
            counts = ", ".join(
                f"{states[state]} {state}" for state in ("passed", "failed", "skipped")
            )
            print(f"{name}: {counts}", file=report)
    if options.json:
        print(rows.json())
    return 1 if any(row["state"] == "failed" for row in rows) else 0


COMMAND = Command(
    _run,
    "ccl check ccl-plugins",
    argument("names", nargs="+", metavar="DIST", help="an installed distribution"),
    JSON,
)
