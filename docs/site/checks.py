"""The page of checks: every law of the conformance kit, by kind."""

from __future__ import annotations

import inspect
from types import ModuleType

from ccl_plugins.kinds import KINDS
from ccl_plugins.testing import distributions, every_kind
from ccl_plugins.testing.subject import kind_module, laws

HEAD = """# Checks

The laws that `@parametrize_with_checks` and `ccl check` check, by kind.
[Test a plug-in](../how-to/test-a-plugin.md) shows how to use them. The report of a broken law begins with
the law, and shows the input and the result.
"""


def render() -> str:
    """The page."""
    parts = [HEAD, _section("plugin", distributions), _section("every kind", every_kind)]
    parts += [_section(kind.name, kind_module(kind.name)) for kind in KINDS]
    return "\n".join(parts)


def _section(title: str, module: ModuleType) -> str:
    lines = [
        f"- `{law.__name__.removeprefix('check_')}`: {(inspect.getdoc(law) or '').splitlines()[0]}"
        for law in laws(module)
    ]
    return "\n".join([f"## {title}\n", *lines, ""])
