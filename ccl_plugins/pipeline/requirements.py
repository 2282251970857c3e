"""What the parts of a pipeline ask of each other, checked when it is composed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine

if TYPE_CHECKING:
    from ccl_plugins.training.settings import FitSettings


def check(objective: Any, views: Any, conditions: Mapping[str, Any]) -> list[str]:
    """Whether an objective gets the views and the conditions that it needs.

    Returns:
        The names of the conditions that the objective does not read.

    Raises:
        ValueError: For too few views, and for a condition that is missing, of another value type or, where
            one class id is read, of several.
    """
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
        if getattr(condition, "hierarchy", False) and not getattr(objective, "hierarchies", False):
            raise ValueError(
                f"{name} reads one class id per sample, and {wanted!r}, {kind}, is a hierarchy of several:"
                " give it one level (wordnet(level=...)) or one k (clusters(k=...)), or make a condition"
                " of each"
            )
    return [each for each in conditions if each not in objective.conditions]


def check_tables(conditions: Any, evaluate: Any, fit: Any) -> None:
    """Whether what a configuration has under these names is of the right form.

    Raises:
        InvalidConfig: For a table that is none, or a list that is none.
    """
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
    """Whether the data set has the columns that evaluators read, before a run is trained for them.

    Args:
        evaluators: Those that say in an attribute ``column`` what they read, and in ``value_types`` of
            which value types it can be, are looked at.
        dataset: The data set.

    Raises:
        ValueError: For a column that is not there, and one of another value type.
    """
    reading = [each for each in evaluators if getattr(each, "column", None) is not None]
    schema = dataset.schema() if reading else {}
    for each in reading:
        name, column, accepted = (
            type(each).__name__,
            each.column,
            getattr(each, "value_types", None),
        )
        if column not in schema:
            there = ", ".join(schema)
            raise ValueError(
                f"the evaluator {name} reads the column {column!r}, and the data set has {there}"
            )
        if accepted is not None and schema[column] not in accepted:
            raise ValueError(
                f"the evaluator {name} needs a {' or '.join(accepted)} column, and {column!r} is"
                f" {schema[column]}"
            )


def check_method(method: Any, batch_size: int, conditions: Mapping[str, Any]) -> None:
    """Whether a built method can take these batches and compare by these conditions.

    Raises:
        ValueError: For a batch that does not fit into its queue, and, where it has one, for a condition
            that means something within one batch only.
    """
    if hasattr(method, "check_batch"):
        method.check_batch(batch_size)
    for name, condition in conditions.items():
        if hasattr(method, "read_conditions") and getattr(condition, "within_batch", False):
            raise ValueError(
                f"the condition {name!r}, {type(condition).__name__}, tells samples of one batch apart and"
                f" means nothing in the next, so {type(method).__name__} cannot compare a queue of earlier"
                " batches by it: use a method without a queue, as simclr or moco_v3"
            )


def _missing(name: str, wanted: str, value_types: Any, there: list[str]) -> str:
    message = f"{name} reads the condition {wanted!r} ({' or '.join(value_types)}), and "
    if not there:
        return message + "the pipeline has none: give it condition=..."
    return (
        message
        + f"the pipeline has {', '.join(map(repr, there))}: give the objective on={there[0]!r}"
    )


def _way_out(value_type: str, value_types: Any) -> str:
    if value_type != "categorical" and "categorical" in value_types:
        return ": make class ids of it with clusters(of=..., k=...)"
    return ""


def read_by_sampler(sampler: Any, conditions: Mapping[str, Any]) -> str | None:
    """The name of the condition that a sampler reads, or None.

    Args:
        sampler: The choice.  One whose class asks for ``condition`` reads that called ``on``, if it
            has such a parameter; its static method ``value_types(parameters)`` says what it takes.
        conditions: The built conditions of the pipeline, by name.

    Raises:
        ValueError: For a condition that is missing, that has no table, or of another value type.
    """
    if "condition" not in sampler.supplied:
        return None
    name = sampler.spec.name
    on: str = sampler.params.get("on") or (
        next(iter(conditions)) if len(conditions) == 1 else "condition"
    )
    if on not in conditions:
        there = ", ".join(map(repr, conditions))
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, and the pipeline has "
            + (f"{there}: give the sampler on={next(iter(conditions))!r}" if there else "none")
        )
    condition = conditions[on]
    if condition.refresh == "batch":
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, {type(condition).__name__}, which is known"
            " of embedded batches only: batches are made of static and refreshed ones"
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
    """The ``[fit]`` table, checked and complete.

    Raises:
        InvalidConfig: For a setting that there is not.
        TypeError: For a value of another type.
        ValueError: For a value out of range.
    """
    from dataclasses import fields

    from ccl_plugins.training.settings import FitSettings

    engine.known_keys(settings, [field.name for field in fields(FitSettings)], "fit")
    return FitSettings(**settings)
