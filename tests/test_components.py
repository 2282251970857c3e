"""What built-in components say of a parameter out of range."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import re

import pytest
from support.builtin_examples import EXAMPLES

import ccl_registry as engine
from ccl_plugins.kinds import registry
from ccl_plugins.testing.subject import Subject

NAMES = [f"{s.kind}/{s.name}" for s in registry().specs() if s.plugin == registry().host]


OUT_OF_RANGE = (-(10**9), 0, -0.5, math.nan)
ABSURD = (2**40, 10**30, 10**400, 1e14, 1e30, math.inf, -math.inf, True, "3", [])
"""Slips of the pen, any of which might ask for all memory, for a year, or for something else."""
LARGE = ("backbone/timm", "condition/encoder", "dataset/hf")
"""Components that take seconds to be built as often."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in NAMES],
)
def test_a_number_out_of_range_is_refused_by_its_name(name):
    known = registry()
    kind, _, component = name.partition("/")
    spec = known.find(kind, component)
    chosen = Subject(spec, EXAMPLES.get(name)).choice
    for parameter in known.schema(spec).parameters:
        numbers = re.search(r"\b(int|float|Scalar)\b", parameter.text)
        for value in OUT_OF_RANGE + (ABSURD if numbers else ()):
            with contextlib.suppress(engine.InvalidParameter):  # of another type
                changed = known.choose(kind, component, **{**chosen.params, parameter.name: value})
                refuse_or_name(Subject(spec, chosen=changed), parameter.name)
            if re.search(r"\bint\b", parameter.text):  # as if the class were called
                changed = copy.copy(chosen)
                changed.params = {**chosen.params, parameter.name: value}
                refuse_or_name(Subject(spec, chosen=changed), parameter.name)


def refuse_or_name(subject, parameter):
    """Build an example, which takes the value or refuses it in a line with the parameter's name."""
    if refusal := refused(subject):
        assert re.search(rf"\b{parameter}s?\b", refusal), refusal
        assert refusal.startswith(("ValueError: ", "TypeError: ")), refusal
        assert len(refusal.splitlines()) == 1, refusal
        assert len(refusal) < 500, refusal


def refused(subject):
    """What the constructor says of an example, if it raises."""
    try:
        subject.build()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def test_a_number_that_stands_first_in_a_transform_is_the_size_of_its_views():
    """MoCoV2Transform(32) cannot be 32 views where SimCLRTransform(32) is views of 32 pixels."""
    known, names = registry(), set()
    for spec in (spec for spec in known.specs("transform") if spec.plugin == known.host):
        first = next(iter(inspect.signature(spec.load()).parameters.values()))
        subject = Subject(spec, EXAMPLES.get(f"transform/{spec.name}"))
        with contextlib.suppress(engine.RegistryError):  # of another type
            changed = known.choose("transform", spec.id, **{**subject.params, first.name: 2})
            if (
                first.kind is not first.KEYWORD_ONLY
                and refused(Subject(spec, chosen=changed)) is None
            ):
                names.add(first.name)
    assert names == {"size"}
