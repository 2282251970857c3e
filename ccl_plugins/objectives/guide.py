"""A guide: it keeps a condition in the embeddings or suppresses it, by a head or an objective."""

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
    """The condition that is kept or suppressed, and the way.

    Args:
        on: The name of the condition.
        keep: Whether the embeddings shall hold the condition (True) or not (False).
        by: An objective that reads one condition: a head (such as ``classification``, ``regression``
            or ``prototypes``), ``hsic``, or a contrastive objective. Its ``on`` becomes the guide's.
        weight: Factor of the gradient that reaches the encoder, 0 or more.
        at: The vectors that are guided; None: ``"features"`` for heads and measures of dependence,
            ``"projection"`` for other objectives.
        suppress: The way to suppress; None: the first of a head's ``suppressions``, or the only way
            of an objective that hides its condition.
    """

    on: str
    keep: bool
    by: Objective
    weight: Scalar = 1.0
    at: At | None = None
    suppress: Literal["reversal", "least_squares", "uniform", "objective"] | None = None

    @property
    def way(self) -> str:
        """The name of the objective in ``by``, for messages."""
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
    """A guide from its table, after a check of the table's keys and types."""
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
                f"{place} takes on, keep and by, and optionally weight, at and suppress: {error}"
            ) from None
    if not isinstance(given.keep, bool):
        raise TypeError(f"{place}: keep must be true or false, not {given.keep!r}")
    if isinstance(given.by, str) or not callable(getattr(given.by, "terms", None)):
        raise TypeError(
            f"{place}: by must be an objective, such as Regression(), not {given.by!r}; names are "
            "for files and ccl.objective"
        )
    if given.at is not None:
        one_of(f"{place}: at", given.at, ("features", "projection"))
    read_scalar(f"{place}: weight", given.weight, non_negative)
    return given


def refuse_clashes(guides: Sequence[Guide]) -> None:
    """Refuse two guides on one condition that are alike, or that contradict each other."""
    for i, one in enumerate(guides):
        for two in guides[:i]:
            if one.on != two.on:
                continue
            same = one.at == two.at or one.guided_at == two.guided_at
            if one.way == two.way and one.keep == two.keep and same:
                raise ValueError(
                    f"there are two guides on {one.on!r} by {one.way}: take one of them, with more "
                    "weight"
                )
            if one.keep != two.keep and same:
                raise ValueError(
                    f"one guide keeps {one.on!r} and another suppresses it: take one of them"
                )


def names_of(guides: Sequence[Guide]) -> list[str]:
    """A name for each guide: its condition and, where several guides share the condition, a distinction."""
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
    """The objective that the guide minimizes: a copy that reads the guide's condition."""
    objective: Any = copy.deepcopy(guide.by)
    on = getattr(objective, "on", None)
    if not isinstance(objective, ContrastiveObjective) or on not in objective.conditions:
        raise ValueError(
            f"{guide} needs an objective that reads one condition, named by on, such as cl_infonce"
        )
    if on not in ("condition", guide.on):
        raise ValueError(f"{guide} reads {on!r}: leave its on out, which is the guide's")
    objective.on = guide.on
    return objective


def suppression_of(guide: Guide, objective: ContrastiveObjective) -> Suppress | None:
    """The way in which the guide suppresses; None: the guide keeps, or its loss is minimized to suppress.

    Raises:
        ValueError: For combinations without a meaning.
    """
    if guide.keep:
        if guide.suppress is not None:
            raise ValueError(
                f"{guide} keeps the condition: suppress = {guide.suppress!r} is for keep = false"
            )
        if objective.hides and not objective.measures_dependence:
            raise ValueError(f"{guide} would hide the condition: {guide.way} is for keep = false")
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
            raise ValueError(
                f"{guide} hides the condition when it is minimized: leave suppress out"
            )
        return None
    if guide.suppress == "reversal":
        return "reversal"
    if guide.suppress == "objective":
        return None
    raise ValueError(
        f"{guide} does not declare that it hides the condition: take suppress = 'reversal', which "
        "reverses its gradient, or 'objective' if it does hide it"
    )
