"""The conditions of a pipeline on the information plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ccl_plugins.experiments.composition import Composition
from ccl_plugins.information.plane import Point, points
from ccl_plugins.kinds import registry
from ccl_plugins.metadata.columns import class_ids
from ccl_plugins.training.tables import Tables


def plane(composition: Composition, against: str = "label") -> tuple[list[Point], list[str]]:
    """The categorical conditions with refresh ``"never"``, fitted on the training set: `Pipeline.plane`."""
    split, target = _train(composition, against)
    placed: list[Point] = []
    left_out = []
    for name, condition in composition.built_conditions.items():
        if condition.value_type != "categorical":
            left_out.append(
                f"{name} is {condition.value_type}: clusters(of=...) makes class ids of it"
            )
        elif condition.refresh != "never":
            left_out.append(
                f"{name} has refresh {condition.refresh!r}: it depends on what the model has learned"
            )
        else:
            placed += points(name, _fit(name, condition, split), target)
    if not placed:
        why = "".join(f"; {line}" for line in left_out) or "; it has no condition"
        raise ValueError(f"the pipeline has no categorical condition that is fitted once{why}")
    return placed, left_out


def sweep(
    composition: Composition,
    parameter: str,
    values: Sequence[Any],
    against: str = "label",
    on: str | None = None,
) -> list[Point]:
    """One condition of the pipeline, fitted once for each value of one of its parameters.

    Args:
        composition: The pipeline.
        parameter: For example ``k`` of ``attributes`` or ``level`` of ``wordnet``.
        values: The values of the parameter, in order.
        against: The metadata column T.
        on: The condition; None: the only condition with such a parameter.

    Raises:
        ValueError: If no condition or several have the parameter, or the condition is not static and
            categorical or has several columns.
    """
    on = _with_parameter(composition, parameter) if on is None else on
    if on not in composition.conditions:
        present = ", ".join(map(repr, composition.conditions)) or "none"
        raise ValueError(f"the pipeline has no condition {on!r}; it has {present}")
    split, target = _train(composition, against)
    choice = composition.conditions[on]
    swept: list[Point] = []
    for value in values:
        changed = registry().choose(
            "condition", choice.spec.id, **{**choice.params, parameter: value}
        )
        condition = changed.build({"dataset": composition.dataset})
        if condition.value_type != "categorical" or condition.refresh != "never":
            raise ValueError(
                f"{changed!r} is {condition.value_type} with refresh {condition.refresh!r}"
            )
        table = _fit(on, condition, split)
        if table.ndim > 1:
            raise ValueError(f"{changed!r} has {table.shape[1]} columns; a sweep needs one")
        swept += points(str(value), table, target)
    return swept


def _train(composition: Composition, against: str) -> tuple[Any, Tensor]:
    """The training split, and the target's class ids."""
    split = composition.dataset("train")
    return split, class_ids(split.metadata, against)


def _fit(name: str, condition: Any, split: Any) -> Tensor:
    """The class ids of a condition, (N,) or (N, L)."""

    def refuse() -> Tensor:
        raise ValueError(
            f"condition {name!r} needs embeddings, which only a trained model can give"
        )

    tables = Tables({name: condition}, len(split))
    tables.refresh(0, split, refuse)
    return tables[name].values


def _with_parameter(composition: Composition, parameter: str) -> str:
    having = [name for name, choice in composition.conditions.items() if parameter in choice.params]
    if len(having) == 1:
        return having[0]
    if not having:
        present = ", ".join(map(repr, composition.conditions.values())) or "none"
        raise ValueError(f"no condition of the pipeline has a parameter {parameter!r}: {present}")
    raise ValueError(f"{', '.join(having)} have a parameter {parameter!r}: say which with on=")
