"""Checks of what the parts of a pipeline require of each other; a ValueError says what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine
from ccl_plugins.protocols import (
    VALUE_TYPES,
    SupportsBatchCheck,
    SupportsColumn,
    SupportsHierarchies,
    SupportsHierarchy,
    SupportsImageSize,
    SupportsMissing,
    SupportsReadConditions,
    SupportsValueTypes,
    SupportsWithinBatch,
)

if TYPE_CHECKING:
    from ccl_plugins.training.settings import FitSettings


def check_conditions(conditions: Mapping[str, Any]) -> None:
    """Check that each condition has the method that its ``refresh`` calls for."""
    methods = {"never": "fit", "epoch": "fit", "batch": "__call__"}
    for name, condition in conditions.items():
        refresh, kind = condition.refresh, type(condition).__name__
        if refresh not in methods:
            raise ValueError(
                f"the condition {name!r}, {kind}, has refresh {refresh!r};"
                f" it must be {', '.join(map(repr, methods))}"
            )
        if not callable(getattr(condition, methods[refresh], None)):
            raise ValueError(
                f"the condition {name!r}, {kind}, has refresh {refresh!r}, for which it needs a method"
                f" {methods[refresh]}"
            )


def check(objective: Any, views: Any, conditions: Mapping[str, Any]) -> list[str]:
    """Check that an objective gets what it needs; return the names of conditions it does not read."""
    name = type(objective).__name__
    if views.count < objective.min_views:
        raise ValueError(
            f"{name} needs at least {objective.min_views} views, and these views give {views.count}:"
            f" use views multi with count={objective.min_views}"
        )
    for wanted, value_types in objective.conditions.items():
        if wanted not in conditions:
            raise ValueError(_missing(name, wanted, value_types, list(conditions)))
        condition = conditions[wanted]
        value_type, kind = condition.value_type, type(condition).__name__
        if value_type not in value_types:
            raise ValueError(
                f"{name} needs a {' or '.join(value_types)} condition, and {wanted!r}, {kind}, is"
                f" {value_type}{_way_out(value_type, value_types)}"
            )
        if isinstance(condition, SupportsMissing) and condition.missing == "ignore":
            _check_ignores(objective, wanted)
        several = isinstance(condition, SupportsHierarchy) and condition.hierarchy
        if several and not (isinstance(objective, SupportsHierarchies) and objective.hierarchies):
            raise ValueError(
                f"{name} reads one class id per sample, and {wanted!r}, {kind}, is a hierarchy of several:"
                " give it one level (wordnet(level=...)) or one k (clusters(k=...)), or make a condition"
                " of each"
            )
    return [each for each in conditions if each not in objective.conditions]


def _check_ignores(objective: Any, wanted: str) -> None:
    from ccl_plugins.objectives.base import ContrastiveObjective

    for each in objective.modules():
        reads = hasattr(each, "terms") and wanted in each.conditions
        if reads and not isinstance(each, ContrastiveObjective):
            raise ValueError(
                f"the condition {wanted!r} has missing='ignore', and {type(each).__name__} is no subclass"
                " of ContrastiveObjective, which leaves such samples out: derive it from there, or give"
                " the condition missing='own' or 'drop'"
            )


def check_tables(conditions: Any, evaluate: Any, fit: Any) -> None:
    """Check that these entries of a configuration are tables and lists where they must be."""
    for name, given, example in (
        ("conditions", conditions, '{color = "..."}; a single one is called condition'),
        ("fit", fit, "{epochs = 100}"),
    ):
        if given is not None and not isinstance(given, Mapping):
            raise engine.InvalidConfig(f"{name} must be a table, as {example}, not {given!r}")
    if isinstance(evaluate, str | Mapping) or not isinstance(evaluate, Iterable | None):
        raise engine.InvalidConfig(
            f'evaluate must be a list of evaluators, as ["linear"] or [[evaluate]] tables, not {evaluate!r}'
        )


def check_columns(evaluators: Iterable[Any], dataset: Any) -> None:
    """Check that the data set has the columns that built evaluators read, with the right value types."""
    reading = [e for e in evaluators if isinstance(e, SupportsColumn) and e.column is not None]
    schema = dataset.schema() if reading else {}
    for each in reading:
        name, column = type(each).__name__, each.column
        accepted = each.value_types if isinstance(each, SupportsValueTypes) else VALUE_TYPES
        if column not in schema:
            raise ValueError(
                f"the evaluator {name} reads the column {column!r}, and the data set has"
                f" {', '.join(schema)}"
            )
        if schema[column] not in accepted:
            raise ValueError(
                f"the evaluator {name} needs a {' or '.join(accepted)} column, and {column!r} is"
                f" {schema[column]}"
            )


def check_image_size(backbone: Any, views: Any) -> None:
    """Check that a backbone takes images of the size that the views make; ``backbone`` is the choice."""
    cls, size = backbone.spec.load(), getattr(views, "size", None)
    if isinstance(cls, type) and isinstance(cls, SupportsImageSize) and isinstance(size, int):
        cls.check_image_size(backbone.params, size)


def check_method(method: Any, batch_size: int, conditions: Mapping[str, Any]) -> None:
    """Check that a built method can take batches of this size and compare by these conditions."""
    if isinstance(method, SupportsBatchCheck):
        method.check_batch(batch_size)
    has_queue = isinstance(method, SupportsReadConditions)
    for name, condition in conditions.items():
        if has_queue and isinstance(condition, SupportsWithinBatch) and condition.within_batch:
            raise ValueError(
                f"the condition {name!r}, {type(condition).__name__}, compares samples of one batch alone,"
                f" so {type(method).__name__} cannot compare a queue of earlier"
                " batches by it: use a method without a queue, as simclr or moco_v3"
            )


def _missing(name: str, wanted: str, value_types: Any, present: list[str]) -> str:
    message = (
        f"{name} reads the condition {wanted!r} ({' or '.join(value_types)}), and the pipeline has"
    )
    if not present:
        return f"{message} none: give it condition=..."
    return f"{message} {', '.join(map(repr, present))}: give the objective on={present[0]!r}"


def _way_out(value_type: str, value_types: Any) -> str:
    if value_type != "categorical" and "categorical" in value_types:
        return ": make class ids of it with clusters(of=..., k=...)"
    return ""


def read_by_sampler(sampler: Any, conditions: Mapping[str, Any]) -> str | None:
    """The name of the condition that a sampler reads, or None.

    Args:
        sampler: The choice.  If its class takes ``condition``, it reads the condition that its parameter
            ``on`` names; without one, the only condition, or the one called ``"condition"``.  Its static
            method ``value_types(parameters)`` gives the value types that it accepts.
        conditions: The built conditions of the pipeline, by name.
    """
    if "condition" not in sampler.supplied:
        return None
    name = sampler.spec.name
    on: str = sampler.params.get("on") or (
        next(iter(conditions)) if len(conditions) == 1 else "condition"
    )
    if on not in conditions:
        present = ", ".join(map(repr, conditions))
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, and the pipeline has "
            + (f"{present}: give the sampler on={next(iter(conditions))!r}" if present else "none")
        )
    condition = conditions[on]
    if condition.refresh == "batch":
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, {type(condition).__name__}, which is computed"
            " from embedded batches: batches are drawn by conditions with refresh 'never' or 'epoch'"
        )
    if isinstance(condition, SupportsMissing) and condition.missing == "ignore":
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, whose missing='ignore' keeps samples without a"
            " value in training: draw batches by a condition with missing='own' or 'drop'"
        )
    value_types = getattr(sampler.spec.load(), "value_types", None)
    accepted = None if value_types is None else value_types(sampler.params)
    if accepted is not None and condition.value_type not in accepted:
        raise ValueError(
            f"the sampler {sampler!r} needs a {' or '.join(accepted)} condition, and {on!r},"
            f" {type(condition).__name__}, is {condition.value_type}"
            f"{_way_out(condition.value_type, accepted)}"
        )
    return on


def default_evaluators(dataset: Any) -> list[Any]:
    """Probes of the label where it is class ids, and a regression of each continuous column."""
    schema = dataset.schema()
    probes = ["linear", "knn"] if schema.get("label") == "categorical" else []
    continuous = [name for name, value_type in schema.items() if value_type == "continuous"]
    return [*probes, *({"use": "regression", "column": name} for name in continuous)]


def fit_settings(settings: Mapping[str, Any]) -> FitSettings:
    """The ``[fit]`` table, checked and complete."""
    from dataclasses import fields

    from ccl_plugins.training.settings import FitSettings

    engine.known_keys(settings, [field.name for field in fields(FitSettings)], "fit")
    return FitSettings(**settings)
