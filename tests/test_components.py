"""What a built-in component means without a parameter, and what it says of one out of range."""

from __future__ import annotations

import contextlib
import json
import math
import re

import pytest
from support.builtin_examples import EXAMPLES
from support.components import RECORD, components

from ccl_plugins._engine import engine
from ccl_plugins.kinds import registry
from ccl_plugins.testing.subject import Subject

RECORDED = json.loads(RECORD.read_text("utf-8"))
RENEW = (
    "pipelines that leave it out change: say so in CHANGELOG.md and run"
    " PYTHONPATH=tests python -m support.components"
)


@pytest.fixture(scope="module")
def now():
    return components()


@pytest.mark.parametrize("name", RECORDED)
def test_defaults_examples_and_declarations_are_as_recorded(name, now):
    assert now.get(name) == RECORDED[name], RENEW


OUT_OF_RANGE = (-(10**9), 0, -0.5, math.nan)
LARGE = ("backbone/timm", "condition/encoder", "dataset/hf")
"""Components that take seconds to be built as often."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in RECORDED],
)
def test_a_number_out_of_range_is_refused_by_its_name(name):
    known = registry()
    kind, _, component = name.partition("/")
    spec = known.find(kind, component)
    chosen = Subject(spec, EXAMPLES.get(name)).choice
    for parameter in known.schema(spec).parameters:
        for value in OUT_OF_RANGE:
            with contextlib.suppress(engine.InvalidParameter):  # of another type
                changed = known.choose(kind, component, **{**chosen.params, parameter.name: value})
                refusal = refused(Subject(spec, chosen=changed))
                assert refusal is None or re.search(rf"\b{parameter.name}s?\b", refusal), refusal


def refused(subject):
    """What the constructor says of an example, if it raises."""
    try:
        subject.build()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
