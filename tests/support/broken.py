"""Finds the laws that a component breaks."""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType

from ccl_plugins.kinds import registry
from ccl_plugins.testing.subject import Subject, kind_module, laws
from ccl_plugins.testing.suite import Check, run


def broken_laws(kind: str, target: type, but: Collection[str] = ()) -> set[str]:
    """The names of the checks that fail, of those for every kind and for this one but some."""
    from ccl_plugins.testing import every_kind

    subject = Subject(registry().define(kind, target))
    todo = [Check(subject, law) for law in (*laws(every_kind), *laws(kind_module(kind)))]
    return {each.name for each in todo if each.name not in but and run(each).state == "failed"}


def law_names(module: ModuleType) -> set[str]:
    """The names of the checks in a module."""
    return {law.__name__.removeprefix("check_") for law in laws(module)}


def names(kind: str) -> set[str]:
    """The names of a kind's checks."""
    return law_names(kind_module(kind))
