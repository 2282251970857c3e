"""A section for each kind, from an empty file to a green check."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest
from support.component_page import PAGE, heading, imports, section

from ccl_plugins.cli import main
from ccl_plugins.kinds import KINDS

KIND_NAMES = [kind.name for kind in KINDS]


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_each_kind_has_a_section_from_an_empty_file_to_a_green_check(kind, install_plugin, capsys):
    """The first block of the section, saved as a module and named in an entry point."""
    text, classes, checked = section(kind)
    points = {f"ccl_plugins.{kind}": {checked[0].lower(): f"ccl_mine:{checked[0]}"}}
    install_plugin("ccl-mine", points, {"ccl_mine.py": classes[0]})
    assert main(["check", "ccl-mine"]) == 0, capsys.readouterr().out
    assert " 0 failed" in capsys.readouterr().out.splitlines()[-1]
    assert f"../reference/kinds.md#{kind}" in text


@pytest.mark.parametrize("kind", [kind for kind in KIND_NAMES if len(section(kind).classes) > 1])
def test_further_classes_of_a_section_keep_the_laws(kind, monkeypatch):
    """In a session with the imports of the page and the blocks before."""
    _, classes, checked = section(kind)
    session = ModuleType(f"section_{kind}")  # whose classes can be pickled
    monkeypatch.setitem(sys.modules, session.__name__, session)
    checks = "\n".join(f'check(ccl.local("{kind}", {name}))' for name in checked[1:])
    exec(compile("\n".join([imports(), *classes, checks]), str(PAGE), "exec"), vars(session))


def test_the_page_says_once_how_a_class_becomes_a_package():
    text = PAGE.read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.M) == ["As a package", *map(heading, KIND_NAMES)]
    assert text.count('[project.entry-points."ccl_plugins.') == 1
    assert "ccl check ccl-mine\n" in text
