"""The page of defaults has the numbers of components, each as the code has it."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib

import pytest
from support.imports import ROOT

from ccl_plugins.kinds import registry


def rows() -> list[list[str]]:
    """The cells of each row, after the kind that its table's first heading names."""
    found, kind = [], ""
    for line in (ROOT / "docs/reference/defaults.md").read_text("utf-8").splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            found.append([kind, *cells])
        elif line.startswith("| "):
            kind = cells[0].lower()
    return found


ROWS = rows()
NOT_THEIRS = ("on", "seed", "count")
COMPLETE = ("objective", "method", "transform", "kernel")


def builtin(*kinds: str) -> dict[tuple[str, str, str], float]:
    """The numbers of built-in components; those of no paper have no source."""
    found = {}
    for spec in (spec for kind in kinds for spec in registry().specs(kind)):
        cls = spec.load() if spec.plugin == "ccl-plugins" else None
        if cls is None or (spec.kind == "transform" and "Source:" not in inspect.getdoc(cls)):
            continue
        for name, parameter in inspect.signature(cls).parameters.items():
            if type(parameter.default) in (int, float) and name not in NOT_THEIRS:
                found[spec.kind, spec.name, name] = float(parameter.default)
    return found


def example(name: str) -> dict[str, float]:
    """The numbers of an objective of an example plug-in, which need not be installed."""
    for file in (ROOT / "examples/plugins").glob("*/pyproject.toml"):
        project = tomllib.loads(file.read_text("utf-8"))["project"]
        entry = project.get("entry-points", {}).get("ccl_plugins.objective", {}).get(name)
        if entry:
            module, _, cls = entry.partition(":")
            source = file.parent / "src" / f"{module.replace('.', '/')}.py"
            tree = ast.parse(source.read_text("utf-8"))
            (found,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == cls]
            (init,) = [n for n in found.body if getattr(n, "name", "") == "__init__"]
            given = init.args
            plain = given.args[len(given.args) - len(given.defaults) :]
            pairs = [
                *zip(plain, given.defaults, strict=True),
                *zip(given.kwonlyargs, given.kw_defaults, strict=True),
            ]
            constants = [(a.arg, d.value) for a, d in pairs if isinstance(d, ast.Constant)]
            return {a: float(v) for a, v in constants if type(v) in (int, float)}
    raise AssertionError(f"no example has the objective {name}")


def test_every_number_of_a_built_in_component_of_a_paper_is_on_the_page():
    listed = {tuple(row[:3]) for row in ROWS}
    assert builtin(*COMPLETE).keys() <= listed
    assert len(listed) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row[:3]))
def test_a_default_is_what_the_page_says_with_a_reason_where_it_is_nobody_s(row):
    kind, name, parameter, here, paper, code, why = row
    own = builtin(kind)
    found = own.get((kind, name, parameter), ...)
    found = example(name)[parameter] if found is ... else found
    assert float(here) == found
    theirs = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", f"{paper} {code}")]
    assert found in theirs or why
