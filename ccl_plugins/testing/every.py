"""What must hold for components of every kind."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any
from unittest import SkipTest

from torch import nn

from ccl_plugins._engine import engine
from ccl_plugins.kinds import protocol, registry
from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.subject import Subject


def check_has_a_summary(subject: Subject) -> None:
    """`ccl list` shows the first line of the docstring."""
    summary = registry().summary(subject.spec)
    hold(
        "the docstring must open with one sentence on one line, which ccl list shows",
        len(summary) > 1 and summary.endswith("."),
        f"it opens with {summary!r}",
    )


def check_is_built_from_its_example(subject: Subject) -> None:
    """Defaults and ``EXAMPLE`` are all it takes."""
    with may_not(
        "a component must be built from its defaults, or from the parameters in a class attribute"
        " EXAMPLE, and take no *args or **kwargs"
    ):
        subject.build()


def check_hints_its_parameters(subject: Subject) -> None:
    """A hint is what a value is checked by."""
    bare = [p.name for p in registry().schema(subject.spec).parameters if not p.text]
    hold("every parameter needs a type hint, by which configs are checked", not bare, str(bare))


def check_refuses_unknown_parameters(subject: Subject) -> None:
    """A misspelled name is an error."""
    law = "a parameter that there is not must be refused when the component is chosen"
    try:
        registry().choose(
            subject.kind, subject.spec.id, **{**subject.choice.params, "no_such_one": 1}
        )
    except engine.InvalidParameter:
        return
    raise AssertionError(law)


def check_satisfies_its_protocol(subject: Subject) -> None:
    """All that the kind's protocol asks for is there."""
    built = subject.build()
    members = registry().kind(subject.kind).members()
    missing = [name for name in members if not hasattr(built, name)]
    hold(
        f"every {subject.kind} must have all of ccl_plugins.protocols.{protocol(subject.kind).__name__}",
        not missing,
        f"{type(built).__name__} has no {', '.join(missing)}",
    )


def check_is_rebuilt_from_its_record(subject: Subject) -> None:
    """What a run writes down is enough to build the same again."""
    try:
        record = json.loads(json.dumps(subject.choice.record()))
    except engine.InvalidConfig as error:
        raise SkipTest(f"its example cannot be written to a record: {error}") from error
    read = registry().read(subject.kind, record)
    law = "the record as JSON must give the same choice"
    hold(law, read.record() == record, f"{record} became {read.record()}")
    again = Subject(subject.spec, choice=read)
    law = (
        "two that are built from one record must do the same; what is drawn, from torch's generator"
    )
    agree(law, again.observe(again.build()), subject.observe(subject.build()))


def check_copies_do_the_same(subject: Subject) -> None:
    """A deep copy, as averaging weights and searching parameters make it."""
    built = subject.build()
    with may_not("it must survive copy.deepcopy"):
        copied = copy.deepcopy(built)
    agree("a deep copy must do the same", subject.observe(copied), subject.observe(built))


def check_pickles(subject: Subject) -> None:
    """A process that loads data gets a pickled copy."""
    built = subject.build()
    with may_not(
        "it must survive pickle, as processes that load data need it: no lambdas, no open files"
    ):
        stored = pickle.dumps(built)
        loaded = pickle.loads(stored)
    agree("a pickled copy must do the same", subject.observe(loaded), subject.observe(built))


def check_keeps_its_state_in_its_weights(subject: Subject) -> None:
    """A module of other weights does the same after ``load_state_dict``."""
    built, other = subject.build(), subject.build(drawn=1)
    if not isinstance(built, nn.Module):
        return
    with may_not("its state_dict must load into another of the same parameters"):
        other.load_state_dict(built.state_dict())
    agree(
        "what is learned must be in parameters and persistent buffers, for a checkpoint to hold it",
        subject.observe(other),
        subject.observe(built),
    )


CHECKS: list[Callable[[Subject], Any]] = [
    check_has_a_summary,
    check_is_built_from_its_example,
    check_hints_its_parameters,
    check_refuses_unknown_parameters,
    check_satisfies_its_protocol,
    check_is_rebuilt_from_its_record,
    check_copies_do_the_same,
    check_pickles,
    check_keeps_its_state_in_its_weights,
]
