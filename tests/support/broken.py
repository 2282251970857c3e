"""Which laws a component breaks."""

from __future__ import annotations

from ccl_plugins.kinds import registry
from ccl_plugins.testing.subject import Subject, laws
from ccl_plugins.testing.suite import Check, run


def broken_laws(kind: str, target: type) -> set[str]:
    """The names of the checks that fail, of those for every kind and of those for this one."""
    from ccl_plugins.testing import every

    subject = Subject(registry().define(kind, target))
    todo = [Check(subject, law) for law in (*every.CHECKS, *laws(kind).CHECKS)]
    return {each.name for each in todo if run(each).state == "failed"}


def names(kind: str) -> set[str]:
    """The names of a kind's checks."""
    return {law.__name__.removeprefix("check_") for law in laws(kind).CHECKS}
