"""Write checks.md: every law of the conformance kit, by kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ccl_plugins.kinds import KINDS
from ccl_plugins.testing import every, plugin
from ccl_plugins.testing.subject import laws

TARGET = Path(__file__).with_name("checks.md")
HEAD = """# Checks

<!-- Written by docs/reference/generate_checks.py; run it after a change. -->

What `@parametrize_with_checks` and `ccl check` check of a component, by kind;
[test a plug-in](../how-to/test-a-plugin.md) shows how to use them. The report of a broken law shows what
was given and what came out.
"""


def render() -> str:
    """The page."""
    parts = [HEAD, _section("plugin", plugin.CHECKS), _section("every kind", every.CHECKS)]
    parts += [_section(kind.name, laws(kind.name).CHECKS) for kind in KINDS]
    return "\n".join(parts)


def _section(title: str, checks: Iterable[Callable[[Any], None]]) -> str:
    lines = [
        f"- `{law.__name__.removeprefix('check_')}`: {(inspect.getdoc(law) or '').splitlines()[0]}"
        for law in checks
    ]
    return "\n".join([f"## {title}\n", *lines, ""])


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
