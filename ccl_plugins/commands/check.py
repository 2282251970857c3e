"""``ccl check``: the conformance kit without pytest."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import redirect_stdout
from itertools import groupby

import ccl_registry as engine
from ccl_plugins.commands.base import add_json
from ccl_plugins.commands.doctor import troubles
from ccl_plugins.commands.tables import TextTable
from ccl_plugins.kinds import registry


class Check:
    """Check the components of a distribution against the laws of their kinds; exit with 1 on a failure."""

    example = "ccl check ccl-plugins"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("names", nargs="+", metavar="DIST", help="an installed distribution")
        add_json(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.testing.suite import and_others, by_cause, checks, on_one_line, run

        checked = {registry().host, *map(engine.normalize, arguments.names)}
        report = sys.stderr if arguments.json else sys.stdout
        rows = TextTable([])
        with redirect_stdout(sys.stderr):  # for what components print
            try:
                todo = {name: checks(name) for name in arguments.names}
            except LookupError as error:
                raise engine.Mistake(str(error)) from error
            for note in troubles(registry()):
                if note.plugin not in checked:
                    print(f"not checked, but noticed: {note}", file=report)
            for name, listed in todo.items():
                states, skipped = Counter[str](), Counter[tuple[str, str]]()
                for _, of_component in groupby(listed, key=lambda each: each.component):
                    outcomes = [run(each) for each in of_component]
                    for outcome in outcomes:
                        state, check = outcome.state, outcome.check
                        row = {"distribution": name, "check": str(check), "state": state}
                        rows.append({**row, "reason": outcome.reason, "same_as": outcome.same_as})
                        states[state] += 1
                        if state == "expected":
                            print(f"{check} failed as expected: {outcome.reason}", file=report)
                        if state == "skipped":
                            skipped[check.component, on_one_line(outcome.reason)] += 1
                    for outcome, others in by_cause(outcomes):
                        law, _, found = outcome.reason.partition("\n")
                        which = f"{outcome.check}{and_others(others)}"
                        below = f"\n  {on_one_line(found)}" if found else ""
                        print(f"{which} failed: {law}{below}", file=report, flush=True)
                for (component, reason), count in skipped.items():
                    print(f"{component} {count} skipped: {reason}", file=report)
                shown = ["passed", "failed", "skipped"] + ["expected"] * bool(states["expected"])
                print(
                    f"{name}: {', '.join(f'{states[state]} {state}' for state in shown)}",
                    file=report,
                )
        if arguments.json:
            print(rows.json())
        return 1 if any(row["state"] == "failed" for row in rows) else 0
