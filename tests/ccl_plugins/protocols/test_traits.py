"""Traits: one default for each name, and wrong forms refused where a component is built."""

from __future__ import annotations

import ast
import inspect
import re

import pytest
from support.imports import ROOT

import ccl_plugins as ccl
from ccl_plugins.kinds import KINDS, protocol, registry
from ccl_plugins.protocols import KernelTraits, trait
from ccl_plugins.protocols.traits import DEFAULTS, TRAITS, names, wrong_traits


class Rows:
    """A data set of nothing."""

    def __call__(self, split):
        return []

    def schema(self):
        return {"label": "categorical"}


class Ones:
    """A condition."""

    refresh = "never"
    value_type = "categorical"

    def fit(self, split, embed, previous):
        return None


class Same:
    """A kernel."""

    positive_definite = True

    def __call__(self, a, b):
        return None


def built(kind, base, **members):
    return ccl.local(kind, type(base.__name__, (base,), members)).build()


def test_a_name_has_one_default_and_every_kind_is_one_of_the_project():
    assert {*TRAITS} <= {kind.name for kind in KINDS}
    for traits in TRAITS.values():
        defaults = {name: getattr(traits(), name) for name in names(traits)}
        plain = {name: value for name, value in defaults.items() if not callable(value)}
        assert plain.items() <= DEFAULTS.items()
        assert not {
            name for each in TRAITS.values() if each is not traits for name in names(each)
        } & (defaults.keys() - plain.keys())


def test_a_component_that_inherits_its_traits_has_their_defaults():
    inherits = type("Inherits", (Same, KernelTraits), {})
    assert trait(inherits(), "one_hot") is False
    assert trait(inherits(), "features") is trait(inherits, "features") is None
    ccl.local("kernel", inherits).build()


def test_what_is_not_declared_or_none_has_its_default():
    assert trait(Ones(), "missing") == trait(built("condition", Ones, missing=None), "missing")
    assert trait(Ones(), "missing") == "error"
    assert trait(Ones, "reads_embeddings") is False
    assert trait(Ones(), "after_step")() is None
    assert trait(Ones(), "scalars")() == {}
    assert trait(Same(), "features") is None


def test_the_column_of_a_condition_is_known():
    column = ccl.condition("column", name="color", value_type="continuous").build()
    assert trait(ccl.condition("label").build(), "column") == "label"
    assert trait(column, "column") == "color"
    assert trait(Ones(), "column") is None


@pytest.mark.parametrize(
    ("kind", "base", "members", "message"),
    [
        (
            "condition",
            Ones,
            {"missing": "skip"},
            "Ones.missing must be 'error', 'own', 'ignore' or",
        ),
        ("condition", Ones, {"missing": {"a": "skip"}}, "Ones.missing must be"),
        ("condition", Ones, {"hierarchy": 1}, "Ones.hierarchy must be True or False, not 1"),
        (
            "condition",
            Ones,
            {"reads_embeddings": "keys"},
            "must be True, False, 'key' or 'features', not 'keys'",
        ),
        (
            "condition",
            Ones,
            {"within_batch": lambda self: True},
            "within_batch must be True or False",
        ),
        ("condition", Ones, {"column": 3}, "Ones.column must be a string, not 3"),
        ("kernel", Same, {"features": 4}, r"Same.features must be a method features\(a\)"),
        ("kernel", Same, {"conditions": ["color"]}, "Same.conditions must be a mapping"),
        ("dataset", Rows, {"texts": ("caption",)}, r"Rows.texts must be a method texts\(\)"),
    ],
)
def test_a_trait_of_a_wrong_form_is_refused_where_it_is_built(kind, base, members, message):
    with pytest.raises(ccl.InvalidParameter, match=message):
        built(kind, base, **members)


@pytest.mark.parametrize(
    ("momentum", "right"), [(0, True), (0.9, True), (True, False), ("1", False)]
)
def test_a_number_may_be_whole(momentum, right):
    method = type("Moving", (), {"momentum": momentum})()
    expected = [] if right else [f"momentum must be a number, not {momentum!r}"]
    assert wrong_traits("method", method) == expected


def test_all_wrong_traits_are_named_and_properties_are_not_read():
    def read(self):
        raise AssertionError("read")

    with pytest.raises(ccl.InvalidParameter, match=r"Ones.missing must .*; Ones.hierarchy must"):
        built("condition", Ones, missing=1, hierarchy=2, column=property(read))


def test_variables_of_one_condition_may_differ():
    built("condition", Ones, missing={"a": "own", "b": "drop"}, hierarchy={"a": True})


COMPONENTS = {kind.name for kind in KINDS} - {"dataset", "logger"} | {"self", "reader", "cls"}
"""Names of variables that hold a component; a logger is Lightning's, and a data set may be a split."""


def members_read():
    """Each member of a component that the sources read where it may be absent, and the place."""
    for path in sorted((ROOT / "ccl_plugins").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(ast.Name("trait"), [_, ast.Constant(name)]):
                    yield name, f"{path.relative_to(ROOT)}:{node.lineno}"
                case ast.Call(ast.Name("getattr" | "hasattr"), [read, ast.Constant(name), *_]):
                    holder = re.findall(r"\w+", ast.unparse(read))[-1]
                    if holder in COMPONENTS and name[0] != "_" and name.islower():
                        yield name, f"{path.relative_to(ROOT)}:{node.lineno}"


def of_contracts():
    """What protocols demand, and the parameters of built-in components, which are settings."""
    for kind in KINDS:
        yield from dir(protocol(kind.name))
        yield from protocol(kind.name).__annotations__
        for spec in registry().specs(kind.name):
            if spec.plugin == registry().host:
                yield from inspect.signature(spec.load()).parameters


def test_every_trait_that_the_sources_read_is_declared():
    read = [*members_read()]
    assert len(read) > 100
    known = {*DEFAULTS} | {*of_contracts()}
    assert [each for each in read if each[0] not in known] == []
