"""One page per kind, from an empty file to a green check."""

from __future__ import annotations

import re
import tomllib

import pytest
from support.imports import ROOT

from ccl_plugins.cli import main
from ccl_plugins.kinds import KINDS

HOW_TO = ROOT / "docs" / "how-to"


def page_of(kind: str) -> str:
    name = f"a{'n' * (kind[0] in 'aeiou')}-{kind}"
    return (HOW_TO / f"write-{name}.md").read_text("utf-8")


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_each_kind_has_a_page_from_an_empty_file_to_a_green_check(kind, install_plugin, capsys):
    page = page_of(kind)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    source = next(text for language, text in blocks if language == "python")
    (points,) = [
        tomllib.loads(text)["project"]["entry-points"]
        for language, text in blocks
        if language == "toml" and "entry-points" in text
    ]
    assert list(points) == [f"ccl_plugins.{kind}"]
    install_plugin("ccl-mine", points, {"ccl_mine.py": source})
    assert "ccl check ccl-mine\n" in page
    assert main(["check", "ccl-mine"]) == 0, capsys.readouterr().out
    assert " 0 failed" in capsys.readouterr().out.splitlines()[-1]
