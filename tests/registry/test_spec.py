"""Names, kinds and specifications."""

from __future__ import annotations

import sys
from dataclasses import FrozenInstanceError, fields
from types import ModuleType
from typing import Protocol

import pytest

from ccl_registry import ComponentSpec, Failure, InvalidSpec, Kind, PluginFailed, Project
from ccl_registry.distributions import Remnant
from ccl_registry.params import Parameter, Schema
from ccl_registry.plugin import Plugin
from ccl_registry.spec import LocalSpec, fold, normalize, with_article

PLAIN = [
    ComponentSpec("kernel", "a", "m:A"),
    LocalSpec.of("kernel", 3),
    Kind("kernel", "A kernel.", "m:Kernel"),
    Project("toy", "toy", (), ModuleType("hooks"), "host"),
    Failure("a", "1", "", ""),
    Remnant("a", "/", ""),
    Parameter("a", int, "int"),
    Schema(()),
]


@pytest.mark.parametrize("data", PLAIN, ids=lambda data: type(data).__name__)
def test_what_a_registry_says_cannot_be_changed(data):
    with pytest.raises(FrozenInstanceError):
        setattr(data, fields(data)[0].name, "b")


def test_what_is_not_known_of_a_plugin_is_empty():
    plugin = Plugin("a", "1")
    assert plugin.copies == plugin.entries == plugin.faults == ()
    assert (plugin.state, plugin.reason, plugin.failures, plugin.changes) == ("ok", "", [], [])
    assert Kind("a", "A.", "m:A").supplied == Schema(()).supplied == ()
    assert Kind("a", "A.", "m:A").check == ""


def test_names_fold_and_distributions_normalize():
    assert fold(" CL-InfoNCE ") == "cl_infonce"
    assert normalize(" CCL__Foo.-bar ") == "ccl-foo-bar"


def test_a_noun_has_its_article():
    assert [with_article(x) for x in ("kernel", "objective", "evaluator", "union", "item")] == [
        "a kernel", "an objective", "an evaluator", "an union", "an item"]  # fmt: skip
    assert with_article("ape") == "an ape"


def test_a_component_is_named_in_three_ways():
    spec = ComponentSpec("kernel", "ring", "m:A", "toy-a", "1.2")
    assert (spec.id, spec.use) == ("toy-a/ring", "kernel:toy-a/ring")
    assert spec.label == "kernel toy-a/ring 1.2"
    assert ComponentSpec("kernel", "ring", "m:A", "toy-a").label == "kernel toy-a/ring"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("RBF", "rbf"),
        ("Bad-Name", "bad_name"),
        ("2 d!", "2_d"),
        ("größe", "größe"),
        (" _x", "x"),
        ("", ""),
    ],
)
def test_a_name_that_is_not_plain_gets_one_that_is_near(name, wanted):
    with pytest.raises(InvalidSpec) as raised:
        ComponentSpec("kernel", name, "m:A")
    assert str(raised.value) == (
        f"kernel name {name!r} is not valid: it must be lower-case letters, digits and underscores,"
        f" starting with a letter, as in {wanted!r}"
    )


@pytest.mark.parametrize("target", ["m", "m:", ":A", "m:A b"])
def test_a_target_that_is_no_class_of_a_module_is_quoted(target):
    with pytest.raises(InvalidSpec) as raised:
        ComponentSpec("kernel", "a", target)
    assert str(raised.value) == f"kernel 'a' points to {target!r}; it must be 'module:Class'"


def test_a_target_may_be_a_class_in_a_class(monkeypatch):
    module = ModuleType("toy_nested")
    module.Outer = type("Outer", (), {"Inner": int})
    monkeypatch.setitem(sys.modules, "toy_nested", module)
    assert ComponentSpec("kernel", "a", "toy_nested:Outer.Inner").load() is int


def test_an_import_that_ends_the_program_is_an_error_of_the_component(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "toy_leaves.py").write_text("raise SystemExit(3)")
    (tmp_path / "toy_stops.py").write_text("raise KeyboardInterrupt")
    spec = ComponentSpec("kernel", "a", "toy_leaves:A", "toy-a", "1")
    with pytest.raises(PluginFailed) as raised:
        spec.load()
    message = "kernel toy-a/a 1: cannot import toy_leaves:A (SystemExit: 3)"
    assert str(raised.value) == message
    assert isinstance(raised.value.__cause__, SystemExit)
    with pytest.raises(KeyboardInterrupt):
        ComponentSpec("kernel", "a", "toy_stops:A").load()


class Sized(Protocol):
    """Has members of every sort, and private ones."""

    width: int
    _hidden: int

    def __len__(self) -> int:
        """A count."""
        ...

    def __iter__(self) -> object:
        """Not asked for."""
        ...

    def _private(self) -> None: ...

    def rows(self) -> int:
        """A count."""
        ...


def test_a_protocol_asks_for_its_public_members_and_for_being_called_and_counted():
    kind = Kind("table", "A table.", f"{__name__}:Sized")
    assert kind.members() == ["__len__", "_hidden", "rows", "width"]

    class Half:
        rows = None

        def __len__(self):
            return 0

        def __getattr__(self, name):
            if name == "width":
                return 1
            raise AttributeError(name)

    assert kind.missing_members(Half()) == ["_hidden"]
    assert kind.missing_members(3) == ["__len__", "_hidden", "rows", "width"]


def function():
    """A component of the session."""


@pytest.mark.parametrize(
    ("value", "name", "target"),
    [
        (Sized, "sized", f"{__name__}:Sized"),
        (function, "function", f"{__name__}:function"),
        ({}, "dict", "builtins:dict"),
        ([].append, "append", "None:list.append"),
        (type("CL_Größe", (), {}), "cl_gre", f"{__name__}:CL_Größe"),
        (type("数据", (), {})(), "object", f"{__name__}:数据"),
        (type("_Mine_2", (), {})(), "mine_2", f"{__name__}:_Mine_2"),
    ],
    ids=range(7),  # a text of these values has an address, another in each process
)
def test_what_a_session_defines_is_named_after_its_class_or_function(value, name, target):
    spec = LocalSpec.of("kernel", value)
    assert (spec.kind, spec.name, spec.target) == ("kernel", name, target)
    assert (spec.plugin, spec.version, spec.label) == ("local", "", f"kernel local/{name}")
    assert spec.load() is value


def test_objects_are_told_apart_by_identity_and_kind():
    one, other = [1], [1]
    same = LocalSpec.of("kernel", one)
    assert {LocalSpec.of("kernel", one), same} == {same}
    assert len({same, LocalSpec.of("kernel", other), LocalSpec.of("sampler", one)}) == 3
    assert hash(same) == hash(LocalSpec.of("kernel", one)) != hash(LocalSpec.of("sampler", one))
    assert same != ComponentSpec("kernel", "list", "builtins:list", "local")
