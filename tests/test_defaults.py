"""The numbers of components are those that their docstrings compare with papers and released code."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib

import pytest
from support.imports import ROOT
from support.scripts import script

from ccl_plugins.kinds import registry

NOT_THEIRS = ("on", "seed", "count")
COMPLETE = ("objective", "method", "transform", "kernel")
"""Kinds of which every number is compared; a transform without a source is of no paper."""


stated = script("docs/site/components.py").stated


def numbers(component):
    given = inspect.signature(component).parameters.items()
    return {
        name: float(parameter.default)
        for name, parameter in given
        if type(parameter.default) in (int, float) and name not in NOT_THEIRS
    }


def assert_compared(component):
    """Each default is the paper's or the code's, or has a reason."""
    found = numbers(component)
    for name, (paper, code, why) in stated(component).items():
        theirs = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", f"{paper} {code}")]
        assert found[name] in theirs or why, name


BUILT_IN = [spec for spec in registry().specs() if spec.plugin == registry().host]


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: f"{spec.kind}/{spec.name}")
def test_a_default_is_the_paper_s_or_has_a_reason(spec):
    component = spec.load()
    assert_compared(component)
    doc = inspect.getdoc(component)
    if spec.kind in COMPLETE and (spec.kind != "transform" or "Source:" in doc):
        assert stated(component).keys() >= numbers(component).keys(), "Defaults in the docstring"


PLUGINS = [
    (file.parent / "src", address)
    for file in sorted((ROOT / "examples" / "plugins").glob("*/pyproject.toml"))
    for address in tomllib.loads(file.read_text("utf-8"))["project"]["entry-points"]
    .get("ccl_plugins.objective", {})
    .values()
]


@pytest.mark.parametrize(("folder", "address"), PLUGINS, ids=[each for _, each in PLUGINS])
def test_an_example_plug_in_s_too(folder, address, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    module, _, name = address.partition(":")
    component = getattr(importlib.import_module(module), name)
    assert_compared(component)
