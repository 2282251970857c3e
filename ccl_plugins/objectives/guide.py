"""A guide: what is kept or suppressed of a condition, and by what."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ccl_plugins.arguments import non_negative, one_of
from ccl_plugins.networks.module_names import is_module_name
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.guide_head import At, GuideHead, Suppress
from ccl_plugins.objectives.scalars import Scalar, read_scalar
from ccl_plugins.protocols import Objective, trait


@dataclass(frozen=True)
class Guide:
    """What is kept or suppressed, and how.

    Args:
        on: The name of the condition.
        keep: Whether embeddings shall tell it (True), or not (False).
        by: An objective that reads one condition, whose ``on`` becomes the guide's: a head, as
            ``classification``, ``regression`` or ``prototypes``; ``hsic``; or one that contrasts.
        weight: Of what reaches the encoder, 0 or more.
        at: The vectors that are guided; None: ``"features"`` for heads and measures of dependence,
            ``"projection"`` for other objectives.
        suppress: How; None: the first of a head's ``suppressions``, and for objectives that hide the only
            way there is.
    """

    on: str
    keep: bool
    by: Objective
    weight: Scalar = 1.0
    at: At | None = None
    suppress: Literal["reversal", "least_squares", "uniform", "objective"] | None = None

    @property
    def way(self) -> str:
        """What it is guided by, for messages."""
        return type(self.by).__name__

    @property
    def guided_at(self) -> At:
        """The vectors that are guided: ``at``, or the usual ones."""
        measures = trait(self.by, "measures_dependence")
        usual: At = "features" if isinstance(self.by, GuideHead) or measures else "projection"
        return self.at or usual

    def __str__(self) -> str:
        return f"the guide on {self.on!r} by {self.way}"


def read_guide(given: Any, number: int) -> Guide:
    """A guide from its table, with its form checked."""
    place = f"guides[{number}]"
    if not isinstance(given, Guide):
        if not isinstance(given, Mapping):
            raise TypeError(
                f"{place} must be a table, such as {{on = ..., keep = ..., by = ...}}, not {given!r}"
            )
        try:
            given = Guide(**given)
        except TypeError as error:
            raise TypeError(
                f"{place} takes on, keep, by, and weight, at, suppress if they are not the usual: {error}"
            ) from None
    if not isinstance(given.keep, bool):
        raise TypeError(f"{place}: keep must be true or false, not {given.keep!r}")
    if isinstance(given.by, str) or not callable(getattr(given.by, "terms", None)):
        raise TypeError(
            f"{place}: by must be an objective, as Regression(), not {given.by!r}; names are for files and"
            " ccl.objective"
        )
    if given.at is not None:
        one_of(f"{place}: at", given.at, ("features", "projection"))
    read_scalar(f"{place}: weight", given.weight, non_negative)
    return given


def refuse_clashes(guides: Sequence[Guide]) -> None:
    """Refuse guides on one condition that are alike, or of which one keeps what the other suppresses."""
    for i, one in enumerate(guides):
        for two in guides[:i]:
            if one.on != two.on:
                continue
            same = one.at == two.at or one.guided_at == two.guided_at
            if one.way == two.way and one.keep == two.keep and same:
                raise ValueError(
                    f"there are two guides on {one.on!r} by {one.way}: take one, with more weight"
                )
            if one.keep != two.keep and same:
                raise ValueError(
                    f"one guide keeps {one.on!r} and another suppresses it: take one of them"
                )


def names_of(guides: Sequence[Guide]) -> list[str]:
    """A name for each guide: its condition, and what tells it from others on that condition."""
    names: list[str] = []
    for guide in guides:
        forms = (guide.on, f"{guide.on}/{guide.way}", f"{guide.on}/{guide.way}/{guide.at}")
        alone = [other.on for other in guides].count(guide.on) == 1
        # A module's name has no dots.
        fitting = [form.replace(".", "_") for form in (forms if alone else forms[1:])]
        taken = ("base", *names)
        names.append(next(f for f in fitting if f not in taken and is_module_name(f)))
    return names


def objective_of(guide: Guide) -> ContrastiveObjective:
    """What the guide minimizes, a copy that reads the guide's condition."""
    objective: Any = copy.deepcopy(guide.by)
    on = getattr(objective, "on", None)
    if not isinstance(objective, ContrastiveObjective) or on not in objective.conditions:
        raise ValueError(
            f"{guide} needs an objective that reads one condition by its on, as cl_infonce"
        )
    if on not in ("condition", guide.on):
        raise ValueError(f"{guide} reads {on!r}: leave its on out, which is the guide's")
    objective.on = guide.on
    return objective


def suppression_of(guide: Guide, objective: ContrastiveObjective) -> Suppress | None:
    """How the guide suppresses; None: it keeps, or suppresses by being minimized.

    Raises:
        ValueError: For combinations without a meaning.
    """
    if guide.keep:
        if guide.suppress is not None:
            raise ValueError(f"{guide} keeps it: suppress = {guide.suppress!r} is for keep = false")
        if objective.hides and not objective.measures_dependence:
            raise ValueError(f"{guide} would hide it: {guide.way} is for keep = false")
        return None
    if isinstance(objective, GuideHead):
        ways = objective.suppressions
        for way in ways:
            if guide.suppress in (None, way):
                return way
        raise ValueError(
            f"{guide} takes suppress = {' or '.join(map(repr, ways))}, not {guide.suppress!r}"
        )
    if objective.hides:
        if guide.suppress not in (None, "objective"):
            raise ValueError(f"{guide} hides it by being minimized: leave suppress out")
        return None
    if guide.suppress == "reversal":
        return "reversal"
    if guide.suppress == "objective":
        return None
    raise ValueError(
        f"{guide} does not hide it by itself: take suppress = 'reversal', which reverses its gradient, or"
        " 'objective' if it does"
    )
