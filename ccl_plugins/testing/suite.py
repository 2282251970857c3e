"""All checks of a distribution, or of one component."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import SkipTest

from ccl_plugins._engine import engine
from ccl_plugins.kinds import registry
from ccl_plugins.testing.subject import Distribution, Example, Subject, laws


@dataclass(frozen=True)
class Check:
    """One law and what it is held against; calling it raises AssertionError where it is broken.

    ``unittest.SkipTest`` is raised where it cannot be examined, as without a file that is needed.

    Args:
        subject: A component, or a distribution.
        law: A function ``check_<name>`` of the subject.
    """

    subject: Subject | Distribution
    law: Callable[[Any], None]

    @property
    def component(self) -> str:
        """``"kernel/ring"``, or ``"plugin"`` for what concerns a distribution as a whole."""
        return str(self.subject)

    @property
    def name(self) -> str:
        """``"symmetric"``."""
        return self.law.__name__.removeprefix("check_")

    def __str__(self) -> str:
        return f"{self.component}-{self.name}"

    def __call__(self) -> None:
        """Examine it."""
        try:
            self.law(self.subject)
        except FileNotFoundError as error:
            if isinstance(self.subject, Distribution) or self.subject.example is not None:
                raise
            raise SkipTest(
                f"its EXAMPLE names a file that is not there ({error}): give"
                f' examples={{"{self.subject}": function of a folder}}'
            ) from error


def checks(what: str | engine.Choice, examples: Mapping[str, Example] | None = None) -> list[Check]:
    """The checks of all components of a distribution, or of one component.

    Args:
        what: The name of an installed distribution; or a choice, as ``ccl.kernel("ring", radius=2)``
            or ``ccl.local("kernel", Ring)``.
        examples: Parameters in place of a class's ``EXAMPLE``, by ``"kernel/ring"``; a function is
            given an empty folder and returns the parameters, for components that read files.

    Raises:
        LookupError: For a distribution that is not installed or offers nothing, and an example of a
            component that there is not.
    """
    from ccl_plugins.testing import every, plugin

    examples = dict(examples or {})
    subjects, found = [], list[Check]()
    if isinstance(what, str):
        offered = _distribution(what)
        found += [Check(offered, law) for law in plugin.CHECKS]
        subjects = [Subject(s, examples.pop(f"{s.kind}/{s.name}", None)) for s in offered.specs]
    else:
        subjects = [Subject(what.spec, choice=what)]
    if examples:
        raise LookupError(
            f"there are examples for {', '.join(examples)}, but {what} offers"
            f" {', '.join(map(str, subjects))}"
        )
    for subject in subjects:
        found += [Check(subject, law) for law in (*every.CHECKS, *laws(subject.kind).CHECKS)]
    return found


@dataclass(frozen=True)
class Outcome:
    """What came of a check.

    Args:
        check: Which.
        state: ``"passed"``, ``"failed"`` or ``"skipped"``.
        reason: Which law was broken and how, or why it could not be examined.
    """

    check: Check
    state: str
    reason: str = ""


def run(each: Check) -> Outcome:
    """Run a check, outside pytest."""
    try:
        each()
    except SkipTest as skipped:
        return Outcome(each, "skipped", str(skipped))
    except AssertionError as broken:
        return Outcome(each, "failed", str(broken))
    except Exception as error:  # whatever a stranger's component raises is its failure, not ours
        return Outcome(each, "failed", f"it raised {type(error).__name__}: {error}")
    return Outcome(each, "passed")


def check(what: str | engine.Choice, examples: Mapping[str, Example] | None = None) -> None:
    """Run all checks of a distribution or of a component; for a notebook.

    Args:
        what: As in `checks`.
        examples: As in `checks`.

    Raises:
        AssertionError: For laws that are broken, all in one, each with its reason.
        LookupError: As `checks`.
    """
    outcomes = [run(each) for each in checks(what, examples)]
    broken = [outcome for outcome in outcomes if outcome.state == "failed"]
    if broken:
        told = "\n\n".join(f"{outcome.check}: {outcome.reason}" for outcome in broken)
        raise AssertionError(f"{len(broken)} of {len(outcomes)} checks failed\n\n{told}")


def _distribution(name: str) -> Distribution:
    """The components of an installed distribution."""
    found, wanted = registry(), engine.normalize(name)
    plugin = next((p for p in found.plugins if p.name == wanted), None)
    specs = tuple(spec for spec in found.specs() if spec.plugin == wanted)
    if plugin is None:
        groups = ", ".join(f"ccl_plugins.{kind}" for kind in found.kinds)
        raise LookupError(
            f"{name} is not installed, or has no entry points of ours: pip install -e . in its folder,"
            f' and a table [project.entry-points."ccl_plugins.<kind>"] ({groups})'
        )
    if not specs:
        why = plugin.reason or "it has entry points of ours, and none of them is a component"
        raise LookupError(f"{name} offers no component: {plugin.state}: {why}")
    return Distribution(wanted, specs)
