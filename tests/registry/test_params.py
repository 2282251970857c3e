"""The signature as the schema."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Optional

import numpy as np
import pytest
from support.toy_registry import Identity, Kernel

from ccl_registry import (
    InvalidConfig,
    InvalidParameter,
    InvalidSpec,
    RegistryError,
    UnknownComponent,
)
from ccl_registry.hints import accept, describe
from ccl_registry.params import Parameter, Schema, fill, schema


def rejected(toy, **params):
    with pytest.raises(InvalidParameter) as raised:
        toy.choose("kernel", "many", **{"number": 1, **params})
    return str(raised.value)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"nmae": "b"}, "kernel toy-host/many has no parameter 'nmae'. Did you mean 'name'?"),
        ({"zzz": 1}, "It takes number, flag, name,"),
        ({"number": 1.5}, "kernel toy-host/many: number must be int, not 1.5"),
        ({"number": True}, "number must be int, not True"),
        ({"number": "1"}, "number must be int, not '1'"),
        ({"rate": True}, "rate must be float, not True"),
        ({"rate": 1j}, "rate must be float, not 1j"),
        ({"flag": 1}, "flag must be bool, not 1"),
        ({"name": None}, "name must be str, not None"),
        ({"mode": "odd"}, "mode must be Literal['weak', 'fair'] | None, not 'odd'"),
        ({"path": 3}, "path must be Path | None, not 3"),
        ({"sizes": "12"}, "sizes must be Sequence[int], not '12'"),
        ({"sizes": [1, "2"]}, "sizes must be Sequence[int], not [1, '2']"),
        ({"pair": [1, 2, 3]}, "pair must be tuple[float, float], not [1, 2, 3]"),
        ({"options": {"a": "b"}}, "options must be Mapping[str, float] | None, not {'a': 'b'}"),
        ({"options": {1: 1.0}}, "options must be Mapping[str, float] | None, not {1: 1.0}"),
    ],
)
def test_a_wrong_name_or_type_is_quoted_with_what_would_be_right(toy, params, message):
    assert message in rejected(toy, **params)


def test_a_required_parameter_that_is_missing_is_named(toy):
    with pytest.raises(InvalidParameter, match="kernel toy-host/many needs 'number'"):
        toy.choose("kernel", "many")


def test_values_arrive_as_the_hint_says(toy):
    given = {
        "number": np.int64(3),
        "rate": 1,
        "path": "a/b",
        "sizes": [3, 4],
        "pair": [1, 2],
        "options": {"a": 1},
        "either": 1,
        "free": [1],
        "unhinted": "x",
        "late": None,
    }
    values = toy.create("kernel", "many", **given).values
    assert values["path"] == Path("a/b")
    assert [type(values[k]) for k in ("number", "rate", "either")] == [int, float, int]
    assert (values["sizes"], values["pair"], values["options"]) == ((3, 4), (1.0, 2.0), {"a": 1.0})
    assert (values["free"], values["unhinted"], values["late"]) == ([1], "x", None)


def test_a_float_of_numpy_is_a_float(toy):
    assert repr(toy.choose("kernel", "rbf", scale=np.float32(0.5)).params["scale"]) == "0.5"


def test_a_word_is_a_literal_before_it_is_anything_else(toy):
    assert toy.choose("kernel", "rbf", scale="median").params == {"scale": "median"}
    assert toy.choose("objective", "composed").params["scale"] == "median"
    assert toy.choose("objective", "composed", scale="rbf").params["scale"].spec.name == "rbf"


def test_every_parameter_is_in_the_choice_with_its_default(toy):
    choice = toy.choose("kernel", "many", number=1)
    assert list(choice.params)[:4] == ["number", "flag", "name", "rate"]
    assert choice.params["rate"] is None


@pytest.mark.parametrize(
    "form", ["rbf", {"use": "rbf"}, {"use": "kernel:toy-host/rbf", "scale": 1}]
)
def test_a_component_is_given_by_name_table_or_choice(toy, form):
    wanted = toy.choose("kernel", "rbf", scale=1.0)
    for value in (form, wanted):
        params = {"kernel": value, "other": value, "several": [value], "named": {"a": value}}
        choice = toy.choose("objective", "composed", **params)
        built = choice.build()
        found = [built.kernel, built.other, *built.several, built.named["a"]]
        assert [kernel.scale for kernel in found] == [1.0] * 4
        assert choice.params["other"] == wanted
        assert isinstance(built.several, tuple)


def test_any_other_object_is_a_component_of_the_session(toy):
    def mine(a, b):
        return a

    choice = toy.choose("objective", "composed", kernel=mine)
    assert choice.build().kernel is mine
    assert choice.record()["kernel"] == {"use": "kernel:local/mine"}


def test_a_choice_in_a_parameter_without_a_hint_is_built_too(toy):
    kernel = toy.choose("kernel", "rbf")
    for value in (kernel, kernel.record()):
        assert toy.create("objective", "composed", free=value).free.scale == 1.0


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"kernel": "rgb"}, UnknownComponent, "kernel: no kernel 'rgb'. Did you mean 'rbf'?"),
        ({"kernel": {"scale": 1.0}}, InvalidConfig, 'kernel: a kernel needs use = "its name"'),
        ({"kernel": 3}, InvalidParameter, "kernel must be a kernel, not 3"),
        ({"other": 3}, InvalidParameter, "other must be a kernel | None, not 3"),
        ({"several": "rbf"}, InvalidParameter, "several must be Sequence[a kernel], not 'rbf'"),
        (
            {"kernel": {"use": "rbf", "scal": 1}},
            InvalidParameter,
            "kernel: kernel toy-host/rbf has no parameter 'scal'. Did you mean 'scale'?",
        ),
        ({"several": ["rbf", "rgb"]}, UnknownComponent, "several[1]: no kernel 'rgb'"),
        ({"named": {"a": "rgb"}}, UnknownComponent, "named.a: no kernel 'rgb'"),
    ],
)
def test_a_mistake_in_a_nested_component_is_placed(toy, params, error, message):
    with pytest.raises(error) as raised:
        toy.choose("objective", "composed", **params)
    assert message in str(raised.value)


def test_hidden_parameters_are_an_error_of_the_component(toy):
    with pytest.raises(InvalidSpec, match=r"Variadic takes '\*\*options'"):
        toy.choose("objective", "variadic")


def test_a_class_without_a_constructor_takes_nothing(toy):
    assert toy.choose("objective", "bare").params == {}
    with pytest.raises(InvalidParameter, match="It takes none"):
        toy.choose("objective", "bare", scale=1.0)


def test_a_function_is_a_component_too(toy):
    assert toy.create("kernel", "soft_rbf").scale == 2.0


@pytest.mark.parametrize("hint", [Mapping, dict, Mapping[Any, Any], dict[int | str, float]])
def test_the_keys_of_a_mapping_are_read_as_its_hint_says(toy, hint):
    assert accept({1: 0.5, "a": 2.0}, hint, toy, "options") == {1: 0.5, "a": 2.0}


def test_all_parameters_that_are_missing_are_named(toy):
    with pytest.raises(InvalidParameter) as raised:
        toy.local("kernel", type("Two", (), {"__init__": lambda self, a, b: None}))
    assert str(raised.value) == "kernel local/two needs 'a', 'b'"


@pytest.mark.parametrize(
    ("head", "stars"),
    [
        ("def __init__(self, *given: int): ...", "*given"),
        ("def __init__(self, a=1, *, b=2, **options): ...", "**options"),
        ("def __init__(self, *given, **options): ...", "*given"),
        ("def __init__(self, **options): ...", "**options"),
    ],
)
def test_parameters_without_names_are_refused(head, stars):
    names: dict[str, Any] = {}
    exec(f"class Loose:\n    {head}", names)
    with pytest.raises(InvalidSpec) as raised:
        schema(names["Loose"])
    assert str(raised.value) == (
        f"the constructor of Loose takes {stars!r}; every parameter must be named, for names and"
        " types to be checked"
    )
    if "a=1" in head:
        with pytest.raises(InvalidSpec):
            schema(type("Heir", (names["Loose"],), {}))
    else:  # as of nn.Module, which accepts nothing either
        assert schema(type("Heir", (names["Loose"],), {})).parameters == ()


def test_a_function_without_named_parameters_is_refused():
    def loose(*given):
        return given

    with pytest.raises(InvalidSpec, match=r"^the constructor of loose takes '\*given'; every"):
        schema(loose)


class Even:
    """Is equal to whatever is even."""

    def __eq__(self, other):
        raise ValueError("equal to what?")

    __hash__ = None


def test_a_default_is_accepted_against_its_hint_and_nothing_that_only_equals_it(toy):
    parameters = (
        Parameter("word", float, "float", "".join(["au", "to"])),
        Parameter("number", str, "str", 1),
        Parameter("none", str, "str", None),
        Parameter("sizes", int, "int", [1]),
        Parameter("even", int, "int", Even()),
    )
    values = {each.name: each.default for each in parameters}
    assert fill(Schema(parameters), {}, toy, "a") == values
    assert fill(Schema(parameters), {"word": "".join(["a", "uto"])}, toy, "a") == values
    for name, value in (
        ("word", "other"),
        ("number", True),
        ("number", 1.0),
        ("none", False),
        ("sizes", [1]),
        ("even", Even()),
    ):
        with pytest.raises(InvalidParameter, match=rf"^a: {name} must be (float|str|int), not"):
            fill(Schema(parameters), {name: value}, toy, "a")


def test_messages_begin_with_the_place_in_a_config(toy):
    found = Schema(
        (Parameter("a", int, "int"), Parameter("b", Kernel, "Kernel", "rbf")),
        (Parameter("size", int, "int"),),
    )
    cases = {
        "x: kernel k: 'size' is supplied when it is built, not chosen": {"size": 1},
        "x: kernel k has no parameter 'zzz'. It takes a, b.": {"zzz": 1},
        "x: kernel k needs 'a'": {},
        "x: kernel k: a must be int, not 'y'": {"a": "y"},
        "x.b: no kernel 'rgb'. Did you mean 'rbf'?": {"a": 1, "b": "rgb"},
    }
    for message, given in cases.items():
        for where in ("x", ""):
            with pytest.raises(RegistryError) as raised:
                fill(found, given, toy, "kernel k", where)
            shorter = message.replace("x: ", "").replace("x.", "")
            assert str(raised.value) == (message if where else shorter)
        with pytest.raises(RegistryError) as raised:
            fill(found, given, toy, "kernel k")
        assert str(raised.value) == shorter


def test_a_schema_has_hints_as_types_and_as_they_were_written():
    def f(a, b: int | None, *, size: Sequence[int] = ()):
        return a, b, size

    f.__annotations__["size"] = Sequence[int]
    found = schema(f, ("size",))
    assert found.parameters == (
        Parameter("a", Any, ""),
        Parameter("b", int | None, f.__annotations__["b"]),
    )
    assert found.supplied == (Parameter("size", Sequence[int], "Sequence[int]", ()),)
    assert [each.required for each in (*found.parameters, *found.supplied)] == [True, True, False]


class Renamed(Identity):
    """Had other names for its parameters."""

    OLD_PARAMETERS: ClassVar = {
        "width": "radius",
        "size": "radius",
        "edge": "gone",
        "soft": "edges",
    }

    def __init__(self, radius: float = 1.0, soft: bool = False, edges: int = 0) -> None:
        self.radius = radius


def test_a_parameter_is_found_by_its_old_name_with_a_warning(toy):
    toy.define("kernel", Renamed)
    for where, place in (("", ""), ("run.toml: kernel", "run.toml: kernel: ")):
        with pytest.warns(FutureWarning) as warned:
            choice = toy.read("kernel", {"use": "renamed", "width": 2}, where)
        (only,) = warned
        assert str(only.message) == f"{place}kernel local/renamed: 'width' is called 'radius' now"
        assert choice.record() == {
            "use": "kernel:local/renamed", "radius": 2.0, "soft": False, "edges": 0}  # fmt: skip
    with pytest.warns(FutureWarning, match="'size' is called 'radius' now"):
        assert toy.create("kernel", "renamed", size=3).radius == 3.0


@pytest.mark.parametrize("given", [{"width": 1, "radius": 1}, {"size": 1, "width": 1}])
def test_a_value_given_by_two_names_is_an_error(toy, given):
    toy.define("kernel", Renamed)
    warnings.simplefilter("ignore", FutureWarning)
    with pytest.raises(InvalidParameter) as raised:
        toy.choose("kernel", "renamed", **given)
    assert str(raised.value).endswith("is an old name of 'radius'; give only 'radius'")


def test_an_old_name_never_hides_a_parameter_and_leads_to_one(toy):
    found = toy.schema(toy.define("kernel", Renamed))
    assert found.old_names == {"width": "radius", "size": "radius"}
    with pytest.raises(InvalidParameter, match="no parameter 'edge'"):
        toy.choose("kernel", "renamed", edge=1)


@pytest.mark.parametrize("old", [3, {"a": 1}, ("a", "b")])
def test_old_names_that_are_no_mapping_of_names_are_refused(toy, old):
    with pytest.raises(
        InvalidSpec, match="OLD_PARAMETERS must map old names of parameters to their"
    ):
        toy.local("kernel", type("Odd", (Renamed,), {"OLD_PARAMETERS": old}))


def test_a_dataclass_is_described_as_the_table_that_it_takes():
    assert describe(Parameter | None).startswith("a table of name, ")


def types_of(target):
    return {each.name: each.hint for each in schema(target).parameters}


def module(monkeypatch, name, source, **names):
    """A module with these names and this source."""
    made = ModuleType(name)
    vars(made).update(names)
    monkeypatch.setitem(sys.modules, name, made)
    exec(f"from __future__ import annotations\n{source}", vars(made))
    return made


FIELD = "@dataclass\nclass {}:\n    {}: T\n"


def test_a_hint_means_what_it_does_where_it_is_written(monkeypatch):
    one = "class Base:\n    a: T\n    def __init__(self, a: T): pass\ndef f(b: T): pass\n"
    base = module(monkeypatch, "toy_base", one, T=int)
    heir = module(monkeypatch, "toy_heir", "class Heir(Base): pass\n", T=str, Base=base.Base)
    assert types_of(heir.Heir) == {"a": int}
    assert types_of(functools.wraps(base.f)(lambda *given: None)) == {"b": int}
    made = type("Made", (), {"__new__": lambda cls, a: None, "__module__": "toy_heir"})
    assert types_of(made) == {"a": Any}
    written = FIELD.format("Base", "a")
    base = module(monkeypatch, "toy_base", written, T=int, dataclass=dataclass)
    written = FIELD.format("Heir(Base)", "b")
    heir = module(monkeypatch, "toy_heir", written, T=str, dataclass=dataclass, Base=base.Base)
    assert types_of(heir.Heir) == {"a": int, "b": str}


def test_one_hint_means_another_type_in_another_module(monkeypatch):
    hint = Optional["T"]  # noqa: F821  one object wherever it is written, which remembers its type
    found = []
    for name, meant in (("toy_one", int), ("toy_other", str)):
        made = module(monkeypatch, name, "def f(a): pass\n", T=meant)
        made.f.__annotations__ = {"a": hint}
        found.append(types_of(made.f)["a"])
    assert found == [int | None, str | None]


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (
            "T | None",
            "the hint of a, 'T | None', cannot be resolved (NameError: name 'T' is not defined):"
            " import T at the top of toy_late, not only for type checkers",
        ),
        (
            "int.x",
            "the hint of a, 'int.x', cannot be resolved (AttributeError: type object 'int' has no"
            " attribute 'x'): write it so that it means a type in toy_late",
        ),
    ],
)
def test_a_hint_that_cannot_be_resolved_says_what_to_import(monkeypatch, hint, message):
    source = "import typing\nif typing.TYPE_CHECKING:\n    from decimal import Decimal as T\n"
    late = module(monkeypatch, "toy_late", f"{source}def f(a: {hint}): pass\n")
    with pytest.raises(InvalidSpec) as raised:
        schema(late.f)
    assert str(raised.value) == message
