"""Finds the laws that a component breaks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import ModuleType

import pytest

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


def law_tests(
    kind: str, broken: Mapping[type, set[str]], found: Callable[[str, type], set[str]] = broken_laws
) -> tuple[Callable[..., None], Callable[[], None]]:
    """Two tests: each component breaks the laws that are named, and each law of a kind is broken.

    Args:
        kind: The kind.
        broken: The names of laws, by the component that breaks them and no others.
        found: The names of the laws that a component of the kind breaks.
    """

    @pytest.mark.parametrize("component", broken)
    def test_the_law_that_is_broken_is_named(component: type) -> None:
        assert found(kind, component) == broken[component]

    def test_every_law_is_broken_once() -> None:
        assert set().union(*broken.values()) == names(kind)

    return test_the_law_that_is_broken_is_named, test_every_law_is_broken_once
