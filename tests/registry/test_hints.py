"""Values against hints, and hints as messages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from support.toy_registry import Kernel

from ccl_registry import InvalidParameter, UnknownComponent
from ccl_registry.hints import Mismatch, accept, describe
from ccl_registry.params import Parameter, schema

NONE = type(None)


@pytest.mark.parametrize(
    ("value", "hint", "accepted"),
    [
        (1, int, 1),
        (True, bool, True),
        ("a", str, "a"),
        (None, None, None),
        (None, NONE, None),
        (2, float, 2.0),
        (Fraction(1, 2), float, 0.5),
        ("a/b", Path, Path("a/b")),
        (PurePath("a"), Path, Path("a")),
        ("b", Literal["a", "b"], "b"),
        (2, float | int, 2),
        (2.0, float | int, 2.0),
        (2, Union[float, str, None], 2.0),  # noqa: UP007  the older spelling must work too
        (None, Optional[int], None),  # noqa: UP045
        ([1, 2], list[float], [1.0, 2.0]),
        ((1, 2), list[float], [1.0, 2.0]),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        ([], tuple[float, ...], ()),
        ([1], tuple[float], (1.0,)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ([1, "a"], tuple, (1, "a")),
        ([1, "a"], list, [1, "a"]),
        ([1, "a"], Sequence, (1, "a")),
        ([1], Sequence[float], (1.0,)),
        ([[1], []], Sequence[Sequence[float]], ((1.0,), ())),
        ({"a": [1]}, dict[str, list[float]], {"a": [1.0]}),
        ({"a": None}, dict[str, None], {"a": None}),
        (3, Any, 3),
        (object, object, object),
    ],
    ids=str,
)
def test_a_value_becomes_what_its_hint_says(toy, value, hint, accepted):
    found = accept(value, hint, toy, "here")
    assert found == accepted
    assert repr(found) == repr(accepted)  # 1, 1.0 and True are three values


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1.0, int),
        (True, int),
        (True, float),
        (Decimal(1), int),
        (1 + 0j, float),
        (10**400, float),
        (0, bool),
        (b"a", str),
        (0, None),
        (False, NONE),
        ("a", None),
        (1, Path),
        (1, Literal[True]),
        (1, Literal["a", 1.0]),
        ("ab", Literal["a"]),
        ("ab", list[str]),
        ("ab", Sequence),
        ({1: 2}, list),
        ({1, 2}, Sequence[int]),
        ([1, 2], tuple[int]),
        ([1], tuple[int, int]),
        ([1, "a"], tuple[int, ...]),
        ([("a", 1)], dict[str, int]),
        ({1: 1}, dict[str, int]),
        ({"a": "b"}, Mapping[str, int]),
        ("a", int | float | None),
        (None, Kernel),
        (3, Kernel),
        ([1], Kernel),
        ((1,), Kernel),
        (b"rbf", Kernel),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused(toy, value, hint):
    with pytest.raises(Mismatch):
        accept(value, hint, toy, "here")


def test_a_component_is_tried_before_hints_that_accept_everything(toy):
    for hint in (Any | Kernel, Kernel | Any):
        assert accept("rbf", hint, toy, "here").spec.name == "rbf"
    assert accept({"a": 1}, Any | Mapping[str, float], toy, "here")["a"].__class__ is float


def test_words_are_tried_before_components(toy):
    hint = Kernel | Literal["rbf"] | tuple[str]
    assert accept("rbf", hint, toy, "here") == "rbf"
    assert accept(["a"], hint, toy, "here") == ("a",)


def test_a_name_that_no_alternative_knows_says_so_with_its_place(toy):
    for hint in (Kernel | None, None | Kernel, Kernel | float):
        with pytest.raises(UnknownComponent, match=r"^here: no kernel 'rgb'"):
            accept("rgb", hint, toy, "here")


@pytest.mark.parametrize(
    ("value", "hint", "place"),
    [
        (["rbf", "rgb"], tuple[Kernel, Kernel], r"here\[1\]"),
        ({"a": ["rgb"]}, dict[str, list[Kernel]], r"here\.a\[0\]"),
        ({"rgb": 1}, dict[Kernel, int], "here"),
        ({"use": "kernel:rgb"}, Any, "here"),
        ([{"use": "kernel:rgb"}], list, r"here\[0\]"),
    ],
)
def test_a_mistake_within_a_value_has_its_place(toy, value, hint, place):
    with pytest.raises(UnknownComponent, match=rf"^{place}: no kernel '(kernel:)?rgb'"):
        accept(value, hint, toy, "here")
    with pytest.raises(UnknownComponent, match=rf"^{place}: no kernel '(kernel:)?rgb'"):
        accept(value, hint | None, toy, "here")


@pytest.mark.parametrize(
    ("hint", "words", "of_kinds"),
    [
        (int, "int", "int"),
        (NONE, "None", "None"),
        (None, "None", "None"),
        (float | None, "float | None", "float | None"),
        (Kernel | None, "Kernel | None", "a kernel | None"),
        (Sequence[Kernel], "Sequence[Kernel]", "Sequence[a kernel]"),
        (tuple[int, ...], "tuple[int, ...]", "tuple[int, ...]"),
        (dict[str, list[int]], "dict[str, list[int]]", "dict[str, list[int]]"),
        (Literal["a", 1], "Literal['a', 1]", "Literal['a', 1]"),
        (list, "list", "list"),
        (Any, "Any", "Any"),
    ],
    ids=str,
)
def test_a_hint_is_shown_as_it_would_be_written(toy, hint, words, of_kinds):
    assert describe(hint) == words
    assert describe(hint, toy) == of_kinds


def test_a_misspelled_name_is_no_misspelled_word_where_there_are_no_words(toy):
    with pytest.raises(UnknownComponent, match="no kernel 'rgb'") as raised:
        accept("rgb", Kernel | None, toy, "kernel")
    assert "Or it is one of" not in str(raised.value)


def test_notes_of_other_libraries_in_a_hint_count_for_nothing(toy):
    def noted(a: Annotated[int, "above 0"]): ...

    (parameter,) = schema(noted).parameters
    assert (parameter.hint, describe(parameter.hint, toy)) == (int, "int")


@pytest.mark.parametrize(
    ("parameter", "line"),
    [
        (Parameter("a", Any, ""), "a"),
        (Parameter("a", int, "int"), "a: int"),
        (Parameter("a", Any, "", None), "a = None"),
        (Parameter("a", str, "str", "b"), "a: str = 'b'"),
    ],
)
def test_a_parameter_is_shown_as_in_a_signature(parameter, line):
    assert str(parameter) == line


@dataclass(frozen=True)
class Way:
    """What a component takes as a table."""

    on: str
    by: Literal["words", "numbers"] | Kernel
    weight: float = 1.0


def test_a_dataclass_takes_a_table_of_its_fields_or_an_instance_and_gives_all_of_them(toy):
    given = {"on": "color", "by": {"use": "rbf", "scale": 2}}
    (found,) = accept([given], Sequence[Way], toy, "ways")
    assert found == {"on": "color", "by": toy.choose("kernel", "rbf", scale=2), "weight": 1.0}
    instance = Way("color", toy.choose("kernel", "rbf", scale=2))
    assert accept(instance, Way, toy, "way") == found
    assert accept({"on": "a", "by": "words"}, Way, toy, "way")["by"] == "words"
    with pytest.raises(Mismatch):
        accept("color", Way, toy, "way")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"on": "a", "by": "words", "wieght": 1},
            r"ways\[0\]: a way has no parameter 'wieght'. Did you",
        ),
        ({"on": "a"}, r"ways\[0\]: a way needs 'by'"),
        ({"on": 1, "by": "words"}, r"ways\[0\]: a way: on must be str, not 1"),
        (
            {"on": "a", "by": "word"},
            r"ways\[0\].by: no kernel 'word'.* Or it is one of 'words', 'numb",
        ),
    ],
)
def test_a_mistake_in_the_table_of_a_dataclass_has_its_place(toy, given, words):
    with pytest.raises((InvalidParameter, UnknownComponent), match=words):
        accept([given], Sequence[Way], toy, "ways")
