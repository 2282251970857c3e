"""What built-in components say of a parameter out of range."""

from __future__ import annotations

import copy
import inspect
import math
import re
from types import NoneType
from typing import Literal, get_args, get_origin

import pytest
from support.builtin_examples import EXAMPLES

import ccl_registry as engine
from ccl_plugins.commands.docstrings import arguments, documentation
from ccl_plugins.kinds import registry
from ccl_plugins.testing.every_kind import OUT_OF_RANGE, require_built_or_named, require_named
from ccl_plugins.testing.subject import Subject

BUILT_IN = {
    f"{spec.kind}/{spec.name}": spec
    for spec in registry().specs()
    if spec.plugin == registry().host
}
ABSURD = (2**40, 10**30, 10**400, 1e14, 1e30, -math.inf, True, "3", [])
"""Slips of the pen, any of which might ask for all memory, for a year, or for something else."""
LARGE = ("backbone/timm", "condition/encoder", "dataset/hf")
"""Components that take seconds to be built as often."""


def subject_of(name):
    return Subject(BUILT_IN[name], EXAMPLES.get(name))


def called(name, **params):
    """A component with other parameters, as if its class were called, whatever their types."""
    subject = subject_of(name)
    choice = copy.copy(subject.choice)
    choice.params = {**choice.params, **params}
    return Subject(subject.spec, chosen=choice)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in BUILT_IN],
)
def test_a_slip_of_the_pen_is_refused_by_the_parameter_s_name(name):
    subject = subject_of(name)
    for parameter in registry().schema(subject.spec).parameters:
        numbers = re.search(r"\b(int|float|Scalar)\b", parameter.text)
        for value in ABSURD if numbers else OUT_OF_RANGE:
            require_named(subject, parameter.name, value)
        for value in (*OUT_OF_RANGE, *ABSURD) if re.search(r"\bint\b", parameter.text) else ():
            require_built_or_named(called(name, **{parameter.name: value}), parameter.name)


def words():
    """Each parameter of a built-in component that is one of several words."""
    for name, spec in BUILT_IN.items():
        for parameter in registry().schema(spec).parameters:
            alternatives = [each for each in get_args(parameter.hint) if each is not NoneType]
            if get_origin(parameter.hint) is Literal or (
                alternatives and all(get_origin(each) is Literal for each in alternatives)
            ):
                yield name, parameter.name


@pytest.mark.parametrize(("name", "parameter"), [*words()])
def test_a_word_that_is_none_of_a_parameter_s_is_refused_by_its_name(name, parameter):
    with pytest.raises(ValueError, match=rf"\b{parameter}\b.*no such word"):
        called(name, **{parameter: "no such word"}).build()


NUMBER = r"(-?\d+(?:\^\d+)?(?:\.\d+)?(?:e-?\d+)?)"
RANGES = {
    rf"above {NUMBER}": (0, None),
    rf"{NUMBER} or more": (-1, None),
    rf"{NUMBER} to {NUMBER}": (-1, 1),
    rf"from {NUMBER} to below {NUMBER}": (-1, 0),
    rf"between {NUMBER} and {NUMBER}": (0, 0),
    rf"above {NUMBER} and at most {NUMBER}": (0, 1),
    rf"above {NUMBER} and below {NUMBER}": (0, 0),
    rf"{NUMBER} or more and below {NUMBER}": (-1, 0),
}
"""How a docstring says a range, and what is to be added to its ends to be outside of it."""


def outside(text, near):
    """Numbers just outside of the range that the words about an argument say, at their begin or end."""
    for words, steps in RANGES.items():
        if found := re.search(rf"(?:^|, ){words}(?=[,;:.]|$)", text, re.IGNORECASE):
            for end, step in zip(found.groups(), steps, strict=False):
                base, _, power = end.partition("^")
                yield (int(base) ** int(power) if power else float(end)) + step * near
            return


OF_A_NAME = {
    **dict.fromkeys(("seed", "workers", "frozen", "warmup", "page"), (-1,)),
    **dict.fromkeys(("batch_size", "hidden", "dim", "layers", "bottleneck"), (0,)),
    **dict.fromkeys(("landmarks", "iterations", "restarts", "every", "positives", "k"), (0,)),
    **dict.fromkeys(("flip", "gray", "blur", "solarize", "jitter_chance"), (-0.1, 1.1)),
    **dict.fromkeys(("jitter", "contrast"), (-0.1,)),
    **dict.fromkeys(("train", "test"), (0,)),
    "queue_size": (-1,),
    "drop": (-0.1, 1.0),
    "ridge": (-1, 1e-30),
}
"""Numbers outside of the range of all parameters of a name, where their words do not say it."""


def out_of_range():
    """Components, parameters and numbers just outside of the range that their words or names say."""
    for name, spec in BUILT_IN.items():
        words = arguments(documentation(spec.load()))
        for parameter in registry().schema(spec).parameters:
            found = re.match(r"(int|float|Scalar)\b", parameter.text)
            if found is None:
                continue
            text = " ".join(words.get(parameter.name, "").partition(":")[2].split())
            kind, near = (int, 1) if found[1] == "int" else (float, 1e-9)
            numbers = [*outside(text, near)] or OF_A_NAME.get(parameter.name, ())
            yield from ((name, parameter.name, kind(number)) for number in numbers)
            if numbers and kind is float:
                yield name, parameter.name, math.nan


@pytest.mark.parametrize(("name", "parameter", "number"), [*out_of_range()])
def test_a_number_out_of_range_is_refused_by_its_name_and_quoted(name, parameter, number):
    said = rf"\b{parameter}s?\b.* not .*{re.escape(str(number))}\b"
    with pytest.raises((ValueError, engine.InvalidParameter), match=said):
        called(name, **{parameter: number}).build()


def test_a_number_that_stands_first_in_a_transform_is_the_size_of_its_views():
    """MoCoV2Transform(32) cannot be 32 views where SimCLRTransform(32) is views of 32 pixels."""
    names = set()
    for spec in (spec for spec in BUILT_IN.values() if spec.kind == "transform"):
        first = next(iter(inspect.signature(spec.load()).parameters.values()))
        params = {**subject_of(f"transform/{spec.name}").params, first.name: 2}
        try:
            registry().choose("transform", spec.id, **params).build()
        except (ValueError, TypeError):
            continue
        if first.kind is not first.KEYWORD_ONLY:
            names.add(first.name)
    assert names == {"size"}
