"""The checks of a distribution or a component: listed, run, or as parameters of a pytest test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import current_process
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal
from unittest import SkipTest

import ccl_registry as engine
from ccl_plugins.arguments import did_you_mean
from ccl_plugins.kinds import registry
from ccl_plugins.testing.causes import cause_of
from ccl_plugins.testing.subject import (
    CONDITION,
    Distribution,
    Example,
    Subject,
    Variants,
    kind_module,
    laws,
)

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Check:
    """One law applied to one component or distribution; call it to run it.

    A call raises `Broken`, an AssertionError, if the law is broken, and ``unittest.SkipTest`` if it cannot
    be examined, for example because a file does not exist.

    Args:
        subject: A component, or a distribution.
        law: A function ``check_<name>`` of the subject.
    """

    subject: Subject | Distribution
    law: Callable[[Any], None]

    @property
    def component(self) -> str:
        """``"kernel/ring"``, or ``"plugin"`` for a check of the distribution as a whole."""
        return str(self.subject)

    @property
    def name(self) -> str:
        """The law's name, such as ``"is_symmetric"``."""
        return self.law.__name__.removeprefix("check_")

    @property
    def expected(self) -> str | None:
        """The reason for which the component declares that it breaks the law, or None."""
        if not isinstance(self.subject, Subject):
            return None
        return self.subject.expected_failures.get(self.name)

    def __str__(self) -> str:
        return f"{self.component}-{self.name}"

    def _names_the_file_of(self, error: FileNotFoundError) -> bool:
        """Whether the component's EXAMPLE, or a default, names the missing file."""
        if not isinstance(self.subject, Subject) or self.subject.example is not None:
            return False
        example = getattr(self.subject.target, "EXAMPLE", {})
        if callable(example):
            return False
        if error.filename is None:
            return any(each in str(error) for each in _strings(example))
        parameters = inspect.signature(self.subject.target).parameters.values()
        named = _strings([example, [each.default for each in parameters]])
        return any(PurePath(error.filename).match(each) for each in named)

    def __call__(self) -> None:
        """Run the check."""
        try:
            self.law(self.subject)
        except (SkipTest, KeyboardInterrupt):
            raise
        except BaseException as error:  # whatever a plug-in raises breaks the law
            if isinstance(error, FileNotFoundError) and self._names_the_file_of(error):
                raise SkipTest(
                    f"its EXAMPLE names a file that does not exist ({error}): make it a static method that"
                    " writes files into a folder, or give"
                    f' examples={{"{self.subject}": function of a folder}}'
                ) from error
            law = on_one_line((inspect.getdoc(self.law) or self.name).replace("`", ""))
            cause = cause_of(error)
            if cause is None or not isinstance(self.subject, Subject):
                raise Broken(f"{law}\n  {cause or error}".rstrip()) from error
            first = self.subject.causes.setdefault(cause.key, self.name)
            if first != self.name:  # its traceback was shown
                raise Broken(f"{cause}\n  as in {first}", first) from None
            raise Broken(f"{law}\n  {cause}") from error


def _strings(value: Any) -> Iterator[str]:
    """The texts in a value, those inside lists and tables too."""
    if isinstance(value, str):
        yield from [value] if value else []
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(each)


class Broken(AssertionError):
    """A law is broken.

    Args:
        message: The law on the first line, and what broke it on the next lines.
        same_as: The law of the same component that the same cause broke before, or "".
    """

    def __init__(self, message: str, same_as: str = "") -> None:
        super().__init__(message)
        self.same_as = same_as


@dataclass(frozen=True)
class Outcome:
    """The result of a check."""

    check: Check
    state: Literal["passed", "failed", "skipped", "expected"]
    reason: str = ""
    """Why the check was skipped or may fail; of a broken law its text, and below it what broke it."""
    same_as: str = ""
    """The law of the same component that the same cause broke before."""


def checks(
    what: str | engine.Choice,
    examples: Mapping[str, Example] | None = None,
    variants: Mapping[str, Variants] | None = None,
) -> list[Check]:
    """The checks of all components of a distribution, or of one component.

    Args:
        what: The name of an installed distribution; or a choice, such as ``ccl.kernel("ring", radius=2)``
            or ``ccl.local("kernel", Ring)``.
        examples: Parameters in place of a class's ``EXAMPLE``, by ``"kernel/ring"``.  For a component
            that reads files, give a function that writes them into an empty folder and returns the
            parameters.
        variants: Further parameters with which a component must keep the laws too, by component and a
            name of yours, such as ``{"kernel/ring": {"wide": {"radius": 9}}}``. They are added to those of
            the example, or replace them; their checks are those of ``"kernel/ring, wide"``. A variant's
            ``"EXAMPLE_CONDITION"`` has condition values in place of those of the class.

    An objective that may take a kernel is checked with one as well, as ``"objective/ring, with a kernel"``.

    Raises:
        LookupError: For a distribution that is not installed or has no components, for an example or
            variants of an unknown component, and for a component that expects the failure of an unknown
            check.
    """
    from ccl_plugins.testing import distributions, every_kind

    all_checks = list[Check]()
    if isinstance(what, str):
        distribution = _distribution(what)
        all_checks += [Check(distribution, law) for law in laws(distributions)]
        subjects = [Subject(spec) for spec in distribution.specs]
    else:
        subjects = [Subject(what.spec, chosen=what)]
    known = [str(subject) for subject in subjects]
    for given, what_for in ((examples, "examples"), (variants, "variants")):
        unknown = [n for n in given or {} if n not in known or not isinstance(what, str)]
        if unknown:  # a choice has its parameters already
            raise LookupError(
                f"got {what_for} for {', '.join(unknown)}, but {what} offers {', '.join(known)}"
            )
    for name, example in (examples or {}).items():
        subjects[known.index(name)].example = example
    for name, its_variants in (variants or {}).items():
        plain = subjects[known.index(name)]
        subjects += [_variant(plain, each, params) for each, params in its_variants.items()]
    subjects += [variant for plain in subjects if (variant := _with_a_kernel(plain))]
    for subject in subjects:
        of_kind = laws(kind_module(subject.kind))
        its = [Check(subject, law) for law in (*laws(every_kind), *of_kind)]
        _check_expected(subject, [each.name for each in its])
        all_checks += its
    return all_checks


def _with_a_kernel(plain: Subject) -> Subject | None:
    """A variant of an objective that takes a kernel and has none by default; None for another component."""
    if plain.kind != "objective" or plain.chosen or plain.variant or plain.example:
        return None
    try:
        given = inspect.signature(plain.target).parameters.get("kernel")
    except engine.RegistryError:  # it cannot be imported, as its laws say
        return None
    if given is None or given.default is not None or "kernel" in plain.params:
        return None
    return _variant(plain, "with a kernel", {"kernel": "rbf"})


def _variant(plain: Subject, name: str, given: Mapping[str, Any]) -> Subject:
    """A component with further parameters, among which condition values may stand."""
    params = {key: value for key, value in given.items() if key != CONDITION}
    values = given.get(CONDITION)
    return replace(plain, variant=name, variant_params=params, condition_values=values)


def _check_expected(subject: Subject, names: list[str]) -> None:
    for name, reason in subject.expected_failures.items():
        if name not in names:
            near = did_you_mean(name, names)
            raise LookupError(
                f"{subject} has EXPECTED_FAILURES of the unknown check {name!r}.{near}"
            )
        if not isinstance(reason, str) or not reason.strip():
            raise LookupError(f"{subject} expects the failure of {name!r} for no reason: give one")


def run(each: Check) -> Outcome:
    """Run a check, outside pytest."""
    try:
        each()
    except SkipTest as skipped:
        return Outcome(each, "skipped", str(skipped))
    except Broken as broken:
        if each.expected is not None:
            return Outcome(each, "expected", each.expected)
        return Outcome(each, "failed", str(broken), broken.same_as)
    if each.expected is not None:
        left = f"it passes: remove it from EXPECTED_FAILURES, which says {each.expected!r}"
        return Outcome(each, "failed", left)
    return Outcome(each, "passed")


def by_cause(outcomes: Sequence[Outcome]) -> list[tuple[Outcome, list[str]]]:
    """The failures, each with the names of the other laws of its component that it broke too."""
    others: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        others.setdefault((outcome.check.component, outcome.same_as), []).append(outcome.check.name)
    return [
        (each, others.get((each.check.component, each.check.name), []))
        for each in outcomes
        if each.state == "failed" and not each.same_as
    ]


def check(
    what: str | engine.Choice,
    examples: Mapping[str, Example] | None = None,
    variants: Mapping[str, Variants] | None = None,
) -> None:
    """Run all checks of a distribution or of a component; for a notebook or a script.

    Some laws start processes, which import the script again; there, a call outside functions does nothing.

    Args:
        what: As in `checks`.
        examples: As in `checks`.
        variants: As in `checks`.

    Raises:
        AssertionError: If laws are broken: one error that lists them all by cause, each with its reason.
        LookupError: As in `checks`.
    """
    if getattr(current_process(), "_inheriting", False):  # as Python marks the import of a script
        return
    outcomes = [run(each) for each in checks(what, examples, variants)]
    broken = [f"{o.check}{and_others(others)}: {o.reason}" for o, others in by_cause(outcomes)]
    if broken:
        number = sum(outcome.state == "failed" for outcome in outcomes)
        lines = [f"{number} of {len(outcomes)} checks failed", *broken]
        raise AssertionError("\n\n".join(lines))


def on_one_line(text: str) -> str:
    """A text without line breaks, for a report."""
    return " ".join(text.split())


def and_others(names: Sequence[str]) -> str:
    """The laws that one cause broke beside the first, for a report."""
    return f" and {len(names)} more ({', '.join(names)})" if names else ""


def parametrize_with_checks(
    distribution: str,
    *,
    expected_failures: Mapping[tuple[str, str], str] | None = None,
    examples: Mapping[str, Example] | None = None,
    variants: Mapping[str, Variants] | None = None,
) -> pytest.MarkDecorator:
    """Parametrize a test with the checks of a distribution, such as ``kernel/ring-is_symmetric``.

    The test function takes one argument, ``check``, and calls it.

    Args:
        distribution: The name of an installed distribution.
        expected_failures: Reasons by component and check, such as ``("kernel/ring", "is_symmetric")``,
            beside those that the component declares in ``EXPECTED_FAILURES``. These tests are strict
            xfails: they fail once the check passes.
        examples: As in `checks`.
        variants: As in `checks`.

    Raises:
        LookupError: While tests are collected: as in `checks`, and for an expected failure of an unknown
            component or check.
    """
    import pytest

    all_checks = checks(distribution, examples, variants)
    expected = dict(expected_failures or {})
    known = {(each.component, each.name): None for each in all_checks}
    for key in expected:
        if key not in known:
            near = did_you_mean(key, known)
            raise LookupError(f"expected_failures has the unknown check {key!r}.{near}")
    parameters = []
    for each in all_checks:
        reason = expected.get((each.component, each.name), each.expected)
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
        parameters.append(pytest.param(each, id=str(each), marks=marks))
    return pytest.mark.parametrize("check", parameters)


def _distribution(name: str) -> Distribution:
    reg, wanted = registry(), engine.normalize(name)
    plugin = next((p for p in reg.plugins if p.name == wanted), None)
    specs = tuple(spec for spec in reg.specs() if spec.plugin == wanted)
    if plugin is None:
        groups = ", ".join(f"ccl_plugins.{kind}" for kind in reg.kinds)
        raise LookupError(
            f"{name} is not installed, or has no entry points for ccl-plugins: run pip install -e . in"
            f' its folder, and declare a table [project.entry-points."ccl_plugins.<kind>"] ({groups})'
        )
    if not specs:
        why = plugin.reason or "none of its entry points is a component"
        raise LookupError(f"{name} offers no component: {plugin.state}: {why}")
    return Distribution(wanted, specs)
