"""One page per kind, from an empty file to a green check."""

from __future__ import annotations

import re

import pytest
from support.imports import ROOT

from ccl_plugins.cli import main
from ccl_plugins.kinds import KINDS

HOW_TO = ROOT / "docs" / "how-to"


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_each_kind_has_a_page_from_an_empty_file_to_a_green_check(kind, install_plugin, capsys):
    """The first block of the page, saved as a module and named in an entry point."""
    page = (HOW_TO / f"write-a{'n' * (kind[0] in 'aeiou')}-{kind}.md").read_text("utf-8")
    source, checked = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[:2]
    (component,) = re.findall(rf'^check\(ccl\.local\("{kind}", (\w+)', checked, re.MULTILINE)
    name = (re.findall(rf'^"""The {kind} ``(\w+)``', source) or ["mine"])[0]
    points = {f"ccl_plugins.{kind}": {name: f"ccl_mine:{component}"}}
    install_plugin("ccl-mine", points, {"ccl_mine.py": source})
    assert main(["check", "ccl-mine"]) == 0, capsys.readouterr().out
    assert " 0 failed" in capsys.readouterr().out.splitlines()[-1]
    assert "test-a-plugin.md#as-a-package" in page
    assert f"../reference/kinds.md#{kind}" in page


def test_the_page_that_makes_a_package_says_what_the_pages_leave_out():
    page = (HOW_TO / "test-a-plugin.md").read_text("utf-8")
    assert "## As a package\n" in page
    assert '[project.entry-points."ccl_plugins.' in page
    assert "ccl check ccl-mine\n" in page
