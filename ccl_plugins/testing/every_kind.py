"""The laws of components of every kind."""

from __future__ import annotations

import copy
import json
import pickle
from unittest import SkipTest

from torch import nn

from ccl_plugins._engine import engine
from ccl_plugins.kinds import protocol, registry
from ccl_plugins.testing.assertions import require, require_equal, require_no_error
from ccl_plugins.testing.subject import Subject


def check_has_a_summary(subject: Subject) -> None:
    """The docstring begins with one sentence on one line, which `ccl list` shows."""
    summary = registry().summary(subject.spec)
    require(
        "the docstring must begin with one sentence on one line, which ccl list shows",
        len(summary) > 1 and summary.endswith("."),
        f"it begins with {summary!r}",
    )


def check_is_built_from_its_example(subject: Subject) -> None:
    """The constructor needs only defaults and the parameters in ``EXAMPLE``."""
    with require_no_error(
        "a component must be built from its defaults and the parameters in a class attribute"
        " EXAMPLE, and take no *args or **kwargs"
    ):
        subject.build()


def check_hints_its_parameters(subject: Subject) -> None:
    """Every parameter has a type hint, against which its values are checked."""
    bare = [p.name for p in registry().schema(subject.spec).parameters if not p.text]
    law = "every parameter must have a type hint, against which its values are checked"
    require(law, not bare, f"there is none for {', '.join(bare)}")


def check_refuses_unknown_parameters(subject: Subject) -> None:
    """A misspelled parameter is an error."""
    params = {**subject.choice.params, "no_such_one": 1}
    try:
        registry().choose(subject.kind, subject.spec.id, **params)
    except engine.InvalidParameter:
        return
    raise AssertionError("an unknown parameter must be an error when the component is chosen")


def check_satisfies_its_protocol(subject: Subject) -> None:
    """The object has every member of its kind's protocol."""
    built = subject.build()
    members = registry().kind(subject.kind).members()
    missing = [name for name in members if not hasattr(built, name)]
    name = protocol(subject.kind).__name__
    require(
        f"every {subject.kind} must have all members of ccl_plugins.protocols.{name}",
        not missing,
        f"{type(built).__name__} has no {', '.join(missing)}",
    )


def check_is_rebuilt_from_its_record(subject: Subject) -> None:
    """The record that a run saves builds an equal object."""
    try:
        record = json.loads(json.dumps(subject.choice.record()))
    except engine.InvalidConfig as error:
        raise SkipTest(f"its example cannot be written to a record: {error}") from error
    read = registry().read(subject.kind, record)
    law = "the record as JSON must give the same choice"
    require(law, read.record() == record, f"{record} became {read.record()}")
    again = Subject(subject.spec, choice=read)
    require_equal(
        "two objects built from one record must give the same results; take random numbers from"
        " torch's generator",
        again.observe(again.build()),
        subject.observe(subject.build()),
    )


def check_copies_do_the_same(subject: Subject) -> None:
    """A deep copy gives the same results; weight averaging makes such copies."""
    built = subject.build()
    with require_no_error("copy.deepcopy must copy it"):
        copied = copy.deepcopy(built)
    law = "a deep copy must give the same results"
    require_equal(law, subject.observe(copied), subject.observe(built))


def check_pickles(subject: Subject) -> None:
    """A pickled copy gives the same results; processes that load data receive such copies."""
    built = subject.build()
    with require_no_error(
        "pickle must copy it, to reach processes that load data: no lambdas, no open files"
    ):
        stored = pickle.dumps(built)
        loaded = pickle.loads(stored)
    law = "a pickled copy must give the same results"
    require_equal(law, subject.observe(loaded), subject.observe(built))


def check_keeps_its_state_in_its_weights(subject: Subject) -> None:
    """A module with other weights gives the same results after ``load_state_dict``."""
    built, other = subject.build(), subject.build(drawn=1)
    if not isinstance(built, nn.Module):
        return
    with require_no_error("its state_dict must load into another object of the same parameters"):
        other.load_state_dict(built.state_dict())
    require_equal(
        "learned state must be in parameters and persistent buffers, which a checkpoint holds",
        subject.observe(other),
        subject.observe(built),
    )
