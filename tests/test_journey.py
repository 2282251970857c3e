"""The page that follows values through the code names functions that are there."""

from __future__ import annotations

import ast
import re

from support.imports import ROOT

PAGE = ROOT / "docs" / "explanation" / "journey.md"
ROW = re.compile(r"^\| `([^`]+\.py)` \| `([\w.]+)` \| .+\. \|$", re.MULTILINE)


def defines(file, name):
    """Whether a file of the repository has a function, or a method as ``Class.method``."""
    nodes = ast.parse((ROOT / file).read_text("utf-8")).body
    for part in name.split("."):
        inner = [n.body for n in nodes if getattr(n, "name", None) == part]
        nodes = inner[0] if inner else []
    return bool(nodes)


def test_the_functions_on_the_page_exist():
    page = PAGE.read_text("utf-8")
    rows = ROW.findall(page)
    assert len(rows) == sum(line.startswith("| `") for line in page.splitlines())
    assert [row for row in rows if not defines(*row)] == []


def test_the_way_of_a_condition_is_short():
    way = PAGE.read_text("utf-8").split("\n## ")[1]
    assert len(ROW.findall(way)) <= 20
