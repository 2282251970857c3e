"""A guide: what is kept or suppressed of a condition, and by what."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, cast

from ccl_plugins.arguments import non_negative, one_of
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.guide_heads import (
    At,
    Classification,
    GuideHead,
    Prototypes,
    Regression,
    Suppress,
)
from ccl_plugins.objectives.hsic import HSIC
from ccl_plugins.objectives.scalars import Scalar, read_scalar
from ccl_plugins.protocols import Objective

HEADS: Mapping[str, type[GuideHead]] = {
    "classification": Classification,
    "regression": Regression,
    "prototypes": Prototypes,
}


@dataclass(frozen=True)
class Guide:
    """What is kept or suppressed, and how.

    Args:
        on: The name of the condition.
        keep: Whether embeddings shall tell it (True), or not (False).
        by: ``"classification"``, ``"regression"``, ``"prototypes"``, ``"hsic"``, or an objective that reads
            one condition, whose ``on`` becomes the guide's.
        weight: Of what reaches the encoder, 0 or more.
        at: The vectors that are guided; None: ``"projection"`` for an objective, ``"features"`` for others.
        suppress: How; None: ``"least_squares"`` for a linear regression, ``"reversal"`` for other heads,
            and for ``"hsic"`` and objectives that hide the only way there is.
        hidden: Width of a hidden layer of a head; None: the head is linear.
        ridge: Of a least-squares head, in units of the mean variance of a feature; None: 0.1.
        classes: Number of classes of a head; None: as many as the condition's table has.
        temperature: Of prototypes, above 0; None: 0.1.
        momentum: Of prototypes, from 0 to below 1; None: 0.9.
    """

    on: str
    keep: bool
    by: Literal["classification", "regression", "prototypes", "hsic"] | Objective
    weight: Scalar = 1.0
    at: At | None = None
    suppress: Literal["reversal", "least_squares", "uniform", "objective"] | None = None
    hidden: int | None = None
    ridge: float | None = None
    classes: int | None = None
    temperature: Scalar | None = None
    momentum: float | None = None

    @property
    def way(self) -> str:
        """What it is guided by, for messages."""
        return self.by if isinstance(self.by, str) else type(self.by).__name__

    def __str__(self) -> str:
        return f"the guide on {self.on!r} by {self.way}"


def read_guide(given: Any, number: int) -> Guide:
    """A guide from its table, with its form checked."""
    place = f"guides[{number}]"
    if not isinstance(given, Guide):
        if not isinstance(given, Mapping):
            raise TypeError(
                f"{place} must be a table, as {{on = ..., keep = ..., by = ...}}, not {given!r}"
            )
        known = [field.name for field in fields(Guide)]
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, 1)
                meant = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
                raise ValueError(f"{place} has no key {key!r}: {meant}")
        needed = [field.name for field in fields(Guide) if field.default is MISSING]
        if lacking := [name for name in needed if name not in given]:
            raise ValueError(f"{place} needs {', '.join(map(repr, lacking))}")
        given = Guide(**given)
    if not isinstance(given.keep, bool):
        raise TypeError(f"{place}: keep must be true or false, not {given.keep!r}")
    if isinstance(given.by, str):
        one_of(f"{place}: by", given.by, (*HEADS, "hsic", "an objective"))
    elif not callable(getattr(given.by, "terms", None)):
        raise TypeError(f"{place}: by must be a word or an objective, not {given.by!r}")
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
            if one.way == two.way and one.keep == two.keep and one.at == two.at:
                raise ValueError(
                    f"there are two guides on {one.on!r} by {one.way}: take one, with more weight"
                )
            if one.keep != two.keep and one.at == two.at:
                raise ValueError(
                    f"one guide keeps {one.on!r} and another suppresses it: take one of them"
                )


def names_of(guides: Sequence[Guide]) -> list[str]:
    """A name for each guide: its condition, and what tells it from others on that condition."""
    names: list[str] = []
    for guide in guides:
        forms = (guide.on, f"{guide.on}/{guide.way}", f"{guide.on}/{guide.way}/{guide.at}")
        alone = [each.on for each in guides].count(guide.on) == 1
        # A module's name has no dots.
        fitting = [form.replace(".", "_") for form in (forms if alone else forms[1:])]
        taken = ("base", *names)
        names.append(next(form for form in fitting if form not in taken))
    return names


def objective_of(guide: Guide) -> tuple[Any, Suppress | None]:
    """What the guide minimizes, new, and how it suppresses; None: by being minimized."""
    if guide.keep and guide.suppress is not None:
        raise ValueError(f"{guide} keeps it: suppress = {guide.suppress!r} is for keep = false")
    options = {
        n: getattr(guide, n) for n in ("hidden", "ridge", "classes", "temperature", "momentum")
    }
    given = {name: value for name, value in options.items() if value is not None}
    head = HEADS.get(guide.by) if isinstance(guide.by, str) else None
    takes = {
        Classification: ("hidden", "ridge", "classes"),
        Regression: ("hidden", "ridge"),
        Prototypes: ("classes", "temperature", "momentum"),
    }.get(cast("Any", head), ())
    if unused := [name for name in given if name not in takes]:
        raise ValueError(
            f"{guide} takes no {unused[0]}; it takes {', '.join(takes) or 'none of these'}"
        )
    if head is not None:
        linear = head is Regression and guide.hidden is None
        how = None if guide.keep else guide.suppress or ("least_squares" if linear else "reversal")
        if how == "objective":
            raise ValueError(f"{guide} is no objective: take suppress = 'reversal'")
        if how == "uniform" and head is Regression:
            raise ValueError(
                f"{guide} has no uniform target: leave suppress out, or take by = 'classification' on class"
                " ids"
            )
        if how == "least_squares" and (head is Prototypes or guide.hidden is not None):
            raise ValueError(
                f"{guide} has no least-squares head, which is linear: take suppress = 'reversal'"
            )
        if guide.ridge is not None and how != "least_squares":
            raise ValueError(f"{guide} has no ridge without suppress = 'least_squares'")
        return head(guide.on, guide.at or "features", how, **given), how
    objective = HSIC() if guide.by == "hsic" else copy.deepcopy(cast("Any", guide.by))
    return _pointed(objective, guide), _way_of(objective, guide)


def _pointed(objective: Any, guide: Guide) -> Any:
    """An objective that reads the guide's condition."""
    on = getattr(objective, "on", None)
    if not isinstance(objective, ContrastiveObjective) or on not in objective.conditions:
        raise ValueError(
            f"{guide} needs an objective that reads one condition by its on, as cl_infonce"
        )
    if on not in ("condition", guide.on):
        raise ValueError(f"{guide} reads {on!r}: leave its on out, which is the guide's")
    objective.on = guide.on
    return objective


def _way_of(objective: Any, guide: Guide) -> Suppress | None:
    """How an objective suppresses; None: it is minimized."""
    if guide.keep:
        if objective.hides and not isinstance(objective, HSIC):
            raise ValueError(f"{guide} would hide it: {guide.way} is for keep = false")
        return None
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
