"""A mixture: the weighted sum of several objectives on the same pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import non_negative
from ccl_plugins.networks.module_names import is_module_name
from ccl_plugins.numerics.gram import Statistic
from ccl_plugins.objectives.base import ContrastiveObjective, own_terms, reads_projections
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute, changing, progress
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import (
    Condition,
    Objective,
    ValueType,
    trait,
)

COMBINED: Mapping[str, Callable[[list[Any]], Any]] = {
    "embedding": lambda declared: "raw" if "raw" in declared else "sphere",
    "distributed": lambda declared: "replicated" if "replicated" in declared else "mean",
    "min_views": max,
    "within_view": any,
    "hierarchies": any,
    "reads_queue": any,
    "reads_features": any,
    "reads_patches": any,
    "adversarial": any,
    "stops_gradient": any,
    "compiles": all,
    "in_parts": all,
}
"""How a mixture's declarations follow from those of its objectives."""


def _calling_all(name: str) -> Callable[..., None]:
    """A method of a mixture that calls the trait with this name on all its objectives."""

    def call(self: Mixture, *args: Any) -> None:
        for declared in self._declared(name):
            declared(*args)

    return call


class Mixture(ContrastiveObjective):
    r"""Weighted sum of several objectives on the same pairs.

    ``Σ_k w_k loss_k``. Positives, negatives and their weights are those of each objective. Each
    objective reads the condition that its ``on`` names: for example, a fair one reads a sensitive
    column and a supervised one reads labels. Inner products are computed once for all objectives
    without ``exclude``. If some objectives need raw embeddings, such as ``lightly``, the others get
    normalized ones.

    Equation:
        \sum_k w_k \mathcal{L}_k

    Args:
        objectives: One or more, in order or by name.
        weights: One weight for each objective, 0 or more, in the same order or by the same names;
            None: all 1.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes; the
            objectives' own settings are not read.

    Raises:
        ValueError: If no objectives are given, for weights that do not fit, and for objectives that
            need different value types of one condition.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"objectives": ["infonce", "ucl"], "weights": [1, 0.5]}
    parts: Any
    """A ModuleDict of `Part`."""
    setup = _calling_all("setup")
    after_step = _calling_all("after_step")

    def __init__(
        self,
        objectives: Mapping[str, Objective] | Sequence[Objective],
        weights: Mapping[str, Scalar] | Sequence[Scalar] | None = None,
        *,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        members = _by_name(objectives)
        if not members:
            raise ValueError(f"objectives must be one or more, not {objectives!r}")
        for name in members:
            if not is_module_name(name):
                raise ValueError(
                    f"an objective of a mixture cannot be called {name!r}: a name must have no "
                    "dots, and must not be an attribute of torch.nn.ModuleDict"
                )
        given = dict.fromkeys(members, 1.0) if weights is None else _by_name(weights)
        if given.keys() != members.keys():
            raise ValueError(
                f"weights must hold one number for each of {', '.join(members)}, not {weights!r}"
            )
        self._hold({name: Part(members[name], given[name]) for name in members})

    def _hold(self, parts: Mapping[str, Part]) -> None:
        """Take the parts, and declare what follows from their objectives."""
        self.parts = nn.ModuleDict(parts)
        members = {name: part.objective for name, part in parts.items()}
        for name, combined in COMBINED.items():
            setattr(self, name, combined(self._declared(name)))
        self.reads_projections = any(map(reads_projections, members.values()))
        self._both_kinds = len({member.embedding for member in members.values()}) > 1
        self._conditions = _common_value_types(members)
        self.set_place("")

    def reads(self) -> Mapping[str, Sequence[ValueType]]:
        """The conditions of all objectives, with the value types that all readers of each accept."""
        return self._conditions

    def check_read(self, name: str, condition: Condition) -> None:
        """Let the objectives check a condition of a pipeline."""
        for part in self.parts.values():
            if name in part.objective.conditions:
                trait(part.objective, "check_read")(name, condition)

    def set_place(self, place: str) -> None:
        """Name the objectives by their path from the outermost mixture."""
        self.place = place
        for name, part in self.parts.items():
            if isinstance(part.objective, ContrastiveObjective):
                part.objective.set_place(f"{place}/{name}" if place else name)

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Let the objectives check the condition values of a call."""
        for part in self.parts.values():
            if isinstance(part.objective, ContrastiveObjective):
                part.objective.check_condition(condition)

    def statistics(self) -> dict[str, Statistic]:
        """The statistics that the objectives ask a queue to keep."""
        return {k: v for declared in self._declared("statistics") for k, v in declared().items()}

    def progress(self, step: int, total: int) -> None:
        """Set the scheduled numbers of weights and objectives to their values at a step."""
        for part in self.parts.values():
            progress(part, step, total)
        for set_numbers in self._declared("progress"):
            set_numbers(step, total)

    def scalars(self) -> dict[str, Tensor]:
        """The current values of the numbers that change, as ``"<objective>/<number>"``."""
        numbers: dict[str, Tensor] = {}
        for name, part in self.parts.items():
            scalars = {key: number().detach() for key, number in changing(part).items()}
            scalars |= trait(part.objective, "scalars")()
            numbers |= {f"{name}/{key}": value for key, value in scalars.items()}
        return numbers

    def loss(self, pairs: Pairs) -> Tensor:
        """The weighted sum of the objectives' losses."""
        return self._sum(pairs, lambda objective, given: objective.loss(given))

    def defined_loss(self, pairs: Pairs) -> Tensor:
        """Compute ``loss`` with each objective's check, which waits for the device."""
        return self._sum(
            pairs,
            lambda objective, given: (
                objective.defined_loss(given)
                if isinstance(objective, ContrastiveObjective)
                else objective.loss(given)
            ),
        )

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """All objectives' rows; on one process their weighted mean is the loss."""
        rows, shares = [], []
        for factor, (part, given) in zip(
            self._term_factors(pairs), self._with_pairs(pairs), strict=True
        ):
            values, weights = own_terms(part.objective, given)
            total = weights.detach().sum()
            shares.append(weights / total.clamp_min(torch.finfo(total.dtype).tiny))
            rows.append(factor * values)
            if (learned := part.learning(given)) is not None:
                rows[-1] = rows[-1] + (learned - learned.detach())
        counted = sum(share.detach().sum().round() for share in shares)
        return torch.cat(rows) * counted, torch.cat(shares)

    def _counted(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        # Each objective prepares the pairs, and takes some anchors at a time, for itself.
        return self._shaped(self.terms(pairs), pairs.anchors.shape[1])

    def _declared(self, name: str) -> list[Any]:
        """The value of a trait for each objective."""
        return [trait(part.objective, name) for part in self.parts.values()]

    def _with_pairs(self, pairs: Pairs) -> Iterator[tuple[Part, Pairs]]:
        """Each objective with the pairs that it needs, raw or normalized."""
        sphere = pairs.normalized() if self._both_kinds else pairs
        for part in self.parts.values():
            yield part, pairs if part.objective.embedding == "raw" else sphere

    def _term_factors(self, pairs: Pairs) -> Sequence[Any]:
        """The factor of each objective's terms."""
        return [part.weight for part in self.parts.values()]

    def _sum(self, pairs: Pairs, loss: Callable[[Any, Pairs], Tensor]) -> Tensor:
        return torch.stack(
            [part.weight * loss(part.objective, given) for part, given in self._with_pairs(pairs)]
        ).sum(0)


class Part(nn.Module):
    """An objective and its weight in a mixture."""

    objective: Any
    weight = ScalarAttribute(non_negative)

    def __init__(self, objective: Any, weight: Scalar) -> None:
        super().__init__()
        self.objective = objective
        self.weight = weight

    def learning(self, pairs: Pairs) -> Tensor | None:
        """A further loss of which only the gradient counts; None: there is none."""
        return None


def _by_name(given: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """By the given names, or by number."""
    return dict(given if isinstance(given, Mapping) else {str(i): x for i, x in enumerate(given)})


def _common_value_types(members: Mapping[str, Objective]) -> dict[str, tuple[ValueType, ...]]:
    """The value types of each condition that all of its readers accept."""
    accepted: dict[str, tuple[ValueType, ...]] = {}
    for member in members.values():
        for name, value_types in member.conditions.items():
            before = accepted.get(name, value_types)
            accepted[name] = tuple(x for x in before if x in value_types)
    for name, value_types in accepted.items():
        if not value_types:
            wanted = {k: m.conditions[name] for k, m in members.items() if name in m.conditions}
            raise ValueError(
                f"objectives must accept one value type of the condition {name!r}, not {wanted}:"
                " give each a condition of its own, on=..."
            )
    return accepted
