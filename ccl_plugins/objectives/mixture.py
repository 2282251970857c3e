"""A mixture: several objectives at once, each reading its own condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import non_negative
from ccl_plugins.objectives.base import ContrastiveObjective, own_terms
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute, changing, progress
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Objective, ValueType


class Mixture(ContrastiveObjective):
    """Weighted sum of objectives on the same pairs.

    ``Σ_k w_k loss_k``.  Positives, negatives and their weights are those of each objective.  Each reads
    the condition that its own ``on`` names: a fair one a sensitive column and a supervised one labels,
    say.  Inner products are computed once for all that have no ``exclude``.

    Args:
        objectives: One or more, in order or by name.
        weights: One for each, 0 or more, in the same order or by the same names; None: all 1.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes;
            this counts, and not what the objectives have.

    Raises:
        ValueError: For no objectives, for weights that do not fit, and for objectives that want
            unit-norm and raw embeddings, or different value types of one condition.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"objectives": ["infonce", "ucl"], "weights": [1, 0.5]}
    parts: Any
    """A ModuleDict of `Part`."""

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
        given = dict.fromkeys(members, 1.0) if weights is None else _by_name(weights)
        if given.keys() != members.keys():
            raise ValueError(
                f"weights must hold one number for each of {', '.join(members)}, not {weights!r}"
            )
        self.parts = nn.ModuleDict({name: Part(members[name], given[name]) for name in members})
        embeddings = {name: member.embedding for name, member in members.items()}
        if len(set(embeddings.values())) > 1:
            raise ValueError(f"objectives must want embeddings of one kind, not {embeddings}")
        self.embedding = next(iter(embeddings.values()))
        self.min_views = max(member.min_views for member in members.values())
        self.within_view = any(member.within_view for member in members.values())
        means = [member.distributed == "mean" for member in members.values()]
        self.distributed = "mean" if all(means) else "replicated"
        self.hierarchies = any(getattr(each, "hierarchies", False) for each in members.values())
        self._conditions = _read_by_all(members)

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """The conditions of all objectives, with the value types that all readers of each accept."""
        return self._conditions

    def setup(self, tables: Mapping[str, Any]) -> None:
        """Let the objectives make parameters of their own."""
        self._tell("setup", tables)

    def after_step(self) -> None:
        """Tell the objectives of an optimizer step."""
        self._tell("after_step")

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Let the objectives refuse values of a call."""
        self._tell("check_condition", condition)

    def statistics(self) -> dict[str, Any]:
        """What the objectives want to be kept of a queue."""
        found: dict[str, Any] = {}
        for part in self.parts.values():
            if hasattr(part.objective, "statistics"):
                found |= part.objective.statistics()
        return found

    def progress(self, step: int, total: int) -> None:
        """Bring the scheduled numbers, of weights too, to where training is."""
        for part in self.parts.values():
            progress(part, step, total)
        self._tell("progress", step, total)

    def _tell(self, what: str, *args: Any) -> None:
        for part in self.parts.values():
            if hasattr(part.objective, what):
                getattr(part.objective, what)(*args)

    def scalars(self) -> dict[str, Tensor]:
        """The current values of the numbers that change, as ``"<objective>/<number>"``."""
        found: dict[str, Tensor] = {}
        for name, part in self.parts.items():
            own = {key: number().detach() for key, number in changing(part).items()}
            if hasattr(part.objective, "scalars"):
                own |= part.objective.scalars()
            found |= {f"{name}/{key}": value for key, value in own.items()}
        return found

    def _seen(self, pairs: Pairs) -> Pairs:
        return pairs  # each objective looks for itself

    def loss(self, pairs: Pairs) -> Tensor:
        """The weighted sum of the objectives' losses."""
        return self._sum(lambda objective: objective.loss(pairs))

    def defined_loss(self, pairs: Pairs) -> Tensor:
        """As ``loss``, and an error where one of the objectives is undefined."""
        return self._sum(lambda each: getattr(each, "defined_loss", each.loss)(pairs))

    def _sum(self, loss: Callable[[Any], Tensor]) -> Tensor:
        return torch.stack(
            [part.weight * loss(part.objective) for part in self.parts.values()]
        ).sum(0)

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """All objectives' rows; on one process their weighted mean is the loss."""
        rows, shares = [], []
        for part in self.parts.values():
            values, weights = own_terms(part.objective, pairs)
            rows.append(part.weight * values)
            total = weights.detach().sum()
            shares.append(weights / total.clamp_min(torch.finfo(total.dtype).tiny))
        counted = sum(share.detach().sum().round() for share in shares)
        return torch.cat(rows) * counted, torch.cat(shares)


class Part(nn.Module):
    """An objective and its weight in a mixture."""

    objective: Any
    weight = ScalarAttribute(non_negative)

    def __init__(self, objective: Any, weight: Scalar) -> None:
        super().__init__()
        self.objective = objective
        self.weight = weight


def _by_name(given: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """By the names given, or by number."""
    return dict(given if isinstance(given, Mapping) else {str(i): x for i, x in enumerate(given)})


def _read_by_all(members: Mapping[str, Objective]) -> dict[str, tuple[ValueType, ...]]:
    accepted: dict[str, tuple[ValueType, ...]] = {}
    for member in members.values():
        for name, value_types in member.conditions.items():
            accepted[name] = tuple(m for m in accepted.get(name, value_types) if m in value_types)
    for name, value_types in accepted.items():
        if not value_types:
            wanted = {k: m.conditions[name] for k, m in members.items() if name in m.conditions}
            raise ValueError(
                f"objectives must accept one value type of the condition {name!r}, not {wanted}:"
                " give each its own, on=..."
            )
    return accepted
