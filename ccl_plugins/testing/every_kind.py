"""The laws of components of every kind."""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
import re
import warnings
from unittest import SkipTest

from torch import nn
from torch.nn.utils.parametrize import is_parametrized

import ccl_registry as engine
from ccl_plugins.kinds import protocol, registry
from ccl_plugins.testing.assertions import require, require_equal
from ccl_plugins.testing.subject import Subject


def check_has_a_summary(subject: Subject) -> None:
    """The docstring must begin with one sentence on one line, which ``ccl list`` shows."""
    summary = registry().summary(subject.spec)
    require(len(summary) > 1 and summary.endswith("."), f"it begins with {summary!r}")


def check_is_built_from_its_example(subject: Subject) -> None:
    """The constructor must need only defaults and the parameters in a class attribute ``EXAMPLE``.

    A class that reads files has a static method ``EXAMPLE(folder)``, which writes them into an empty folder
    and returns the parameters.

    It must take no ``*args`` or ``**kwargs``.
    """
    subject.build()


def check_hints_its_parameters(subject: Subject) -> None:
    """Every parameter must have a type hint that can be resolved, against which its values are checked.

    What it names is imported at the top of the module, and not under ``if TYPE_CHECKING:`` alone.
    """
    try:
        parameters = registry().schema(subject.spec).parameters
    except engine.InvalidSpec as error:
        raise AssertionError(str(error)) from error
    bare = [p.name for p in parameters if not p.text]
    require(not bare, f"no type hint for {', '.join(bare)}")


def check_refuses_unknown_parameters(subject: Subject) -> None:
    """A misspelled parameter must be an error when the component is chosen."""
    params = {**subject.choice.params, "no_such_one": 1}
    try:
        registry().choose(subject.kind, subject.spec.id, **params)
    except engine.InvalidParameter:
        return
    raise AssertionError("it accepted a parameter no_such_one")


OUT_OF_RANGE = (-(10**9), 0, -0.5, math.nan, math.inf)


def check_names_a_number_that_it_refuses(subject: Subject) -> None:
    """A number out of range must raise a ValueError or TypeError of one line that names the parameter.

    The constructor may take any number; what it refuses, it must not leave to a library's message.
    """
    subject.build()
    for parameter in registry().schema(subject.spec).parameters:
        if re.search(r"\b(int|float|Scalar)\b", parameter.text):
            for value in OUT_OF_RANGE:
                require_named(subject, parameter.name, value)


def require_named(subject: Subject, name: str, value: object) -> None:
    """Require that a component takes a value of a parameter, or refuses it by the parameter's name."""
    params = {**subject.choice.params, name: value}
    try:
        changed = registry().choose(subject.kind, subject.spec.id, **params)
    except engine.InvalidParameter:  # the value has a wrong type
        return
    require_built_or_named(subject.chosen_as(changed), name)


def require_built_or_named(subject: Subject, name: str) -> None:
    """Require that a component can be built, or refuses one of its parameters by its name."""
    try:
        subject.build()
    except Exception as error:
        said, right = str(error), isinstance(error, ValueError | TypeError)
        brief = len(said.splitlines()) == 1 and len(said) < 500
        require(
            right and brief and bool(re.search(rf"\b{name}s?\b", said)),
            f"{name}={subject.choice.params[name]!r} raised {type(error).__name__}: {said}",
        )


def check_is_found_by_its_old_names(subject: Subject) -> None:
    """Old names of the component and of its parameters must lead to it and to parameters that it has.

    Old names of parameters are declared in a class attribute ``OLD_PARAMETERS``; none may be in use.
    """
    spec, params = subject.spec, subject.choice.params
    for old in spec.old_names:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            same = registry().find(spec.kind, f"{spec.plugin}/{old}")
        require(same == spec, f"its old name {old} is that of {same.id}")
    declared = inspect.getattr_static(spec.load(), "OLD_PARAMETERS", {})
    lost = {*declared} - {*registry().schema(spec).old_names}
    report = f"OLD_PARAMETERS has {', '.join(sorted(lost))}: in use, or for an unknown parameter"
    require(not lost, report)
    for old, name in declared.items():
        given = {k: v for k, v in params.items() if k != name} | {old: params[name]}
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            choice = registry().choose(subject.kind, spec.id, **given)
        require(choice == subject.choice, f"{old} makes {choice}, and {name} {subject.choice}")


def check_satisfies_its_protocol(subject: Subject) -> None:
    """The object must have every member of its kind's protocol in ``ccl_plugins.protocols``."""
    built = subject.build()
    members = registry().kind(subject.kind).members()
    missing = [name for name in members if not hasattr(built, name)]
    name = protocol(subject.kind).__name__
    require(not missing, f"{type(built).__name__} lacks {', '.join(missing)} of {name}")


def check_is_rebuilt_from_its_record(subject: Subject) -> None:
    """The record that a run saves must build an equal object.

    A constructor that draws random numbers must draw them from a generator that runs seed, such as torch's.
    """
    try:
        record = json.loads(json.dumps(subject.choice.record()))
    except engine.InvalidConfig as error:
        raise SkipTest(f"its example cannot be written to a record: {error}") from error
    read = registry().read(subject.kind, record)
    require(read.record() == record, f"{record} became {read.record()}")
    again = subject.chosen_as(read)
    require_equal(again.observe(again.build()), subject.observe(subject.build()))


def check_copies_do_the_same(subject: Subject) -> None:
    """A deep copy must give the same results; weight averaging makes such copies."""
    built = subject.build()
    copied = copy.deepcopy(built)
    require_equal(subject.observe(copied), subject.observe(built))


def check_pickles(subject: Subject) -> None:
    """A pickled copy must give the same results: hold no lambdas or open files.

    Processes that load data receive such copies.
    """
    built = subject.build()
    if isinstance(built, nn.Module) and any(map(is_parametrized, built.modules())):
        raise SkipTest("torch pickles no module with parametrizations, such as spectral_norm")
    stored = pickle.dumps(built)
    require_equal(subject.observe(pickle.loads(stored)), subject.observe(built))


def check_keeps_its_state_in_its_weights(subject: Subject) -> None:
    """Learned state must be in parameters and persistent buffers, which ``load_state_dict`` restores."""
    built, other = subject.build(), subject.build(drawn=1)
    if isinstance(built, nn.Module):
        other.load_state_dict(built.state_dict())
        require_equal(subject.observe(other), subject.observe(built))
