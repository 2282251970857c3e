"""The page that follows values through the code names real functions, and each uses the next."""

from __future__ import annotations

import ast
import itertools
import re

import pytest
from support.imports import ROOT

PAGE = ROOT / "docs" / "explanation" / "journey.md"
ROW = re.compile(r"^\| `([^`]+\.py)` \| `([\w.]+)` \| (?:`(\w+)`)? ?\| (.+) \|$")


def tables():
    """The rows (file, function, next, sentence) of each table of the page."""
    found = [[]]
    for line in PAGE.read_text("utf-8").splitlines():
        if match := ROW.match(line):
            found[-1].append(match.groups())
        elif found[-1]:
            found.append([])
    return [rows for rows in found if rows]


HOPS = [row for rows in tables() for row in rows]
PAIRS = [pair for rows in tables() for pair in itertools.pairwise(rows) if pair[0][2]]


def function(file, name):
    """The node of a function, or of a method as ``Class.method``, in a file of the repository."""
    node = ast.parse((ROOT / file).read_text("utf-8"))
    for part in name.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        (node,) = (n for n in node.body if isinstance(n, kinds) and n.name == part)
    return node


def test_the_page_has_its_journeys():
    assert len(tables()) == 5
    lines = PAGE.read_text("utf-8").splitlines()
    assert len(HOPS) == sum(line.startswith("| `") for line in lines), "a row that is not read"


@pytest.mark.parametrize(("file", "name", "called", "text"), HOPS)
def test_each_function_exists_and_uses_the_name_it_reaches_the_next_by(file, name, called, text):
    node = function(file, name)
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    assert called is None or called in names
    assert text.endswith(".")


@pytest.mark.parametrize(("hop", "following"), PAIRS)
def test_the_name_leads_to_the_next_function(hop, following):
    """By its own name, by its class, or to a special method, which has no name to call it by."""
    called, (_, name, *_) = hop[2], following
    assert called in name.split(".") or name.split(".")[-1].startswith("__")
