"""Checks of what the parts of a pipeline require of each other; a ValueError says what would be right."""

from __future__ import annotations

import difflib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import ccl_registry as engine
from ccl_plugins.kinds import registry
from ccl_plugins.metadata.fitted import source_of
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.protocols import VALUE_TYPES, trait
from ccl_plugins.training.settings import COMPONENTS, FitSettings

if TYPE_CHECKING:
    from ccl_plugins.watching.settings import MonitorSettings


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


def check_views(objective: Any, transform: Any) -> None:
    """Check that an objective gets as many views as it compares."""
    if transform.count < objective.min_views:
        raise ValueError(
            f"{type(objective).__name__} needs at least {objective.min_views} views, and this transform"
            f" gives {transform.count}: use transform multi with count={objective.min_views}"
        )


def check_masked(objective: Any, method: Any, backbone: Any, transform: Any) -> None:
    """Check that a method that masks patches has some to mask, and an objective that reads them.

    Args:
        objective: The built objective.
        method: The choice.
        backbone: The choice.
        transform: The built transform.
    """
    name = method.spec.name
    views = trait(method.spec.load(), "masked_views")(method.params)
    if not views:
        if trait(objective, "reads_patches"):
            raise ValueError(
                f"{type(objective).__name__} reads masked patches, and the method {name} masks none: use"
                " method ibot"
            )
        return
    if views > transform.count:
        raise ValueError(
            f"the method {name} masks patches of the first {views} views, and this transform gives"
            f" {transform.count}: give it key_views = {transform.count}"
        )
    sizes = [*trait(transform, "sizes")][:views]
    if len({*sizes}) > 1:
        raise ValueError(
            f"the method {name} masks patches of the first {views} views, which must be of one size, and"
            f" they are of {', '.join(map(str, sizes))} pixels: give it key_views ="
            f" {sizes.count(sizes[0])}"
        )
    cls = backbone.spec.load()
    if isinstance(cls, type):
        check = trait(cls, "check_masked")
        if check is None:
            raise ValueError(
                f"the method {name} masks patches, and the backbone {backbone.spec.name} has none: take a"
                " vision transformer, as timm's 'vit_small_patch16_224', or the method dino"
            )
        check(backbone.params)
    if not trait(objective, "reads_patches"):
        warnings.warn(
            f"nothing in this pipeline reads the patches that {name} masks: add the objective ibot in a"
            " mixture, or use method dino",
            stacklevel=5,
        )


def check_read(reader: Any, conditions: Mapping[str, Any]) -> set[str]:
    """Check that an objective or a method gets the conditions that it reads; return their names."""
    name = type(reader).__name__
    declared = _declared(reader, "conditions", reader.conditions)
    for wanted, value_types in declared.items():
        if wanted not in conditions:
            raise ValueError(_missing(reader, wanted, value_types, conditions))
        condition = conditions[wanted]
        trait(reader, "check_read")(wanted, condition)
        value_type, kind = condition.value_type, _kind(condition)
        if value_type not in value_types:
            raise ValueError(
                f"{name} needs a {' or '.join(value_types)} condition, and {wanted!r}, {kind}, is"
                f" {value_type}{_way_out(value_type, value_types)}"
            )
        if trait(condition, "missing") == "ignore":
            _check_ignores(reader, wanted)
        if trait(condition, "hierarchy") and not trait(reader, "hierarchies"):
            raise ValueError(
                f"{name} reads one class id per sample, and {wanted!r}, {kind}, is a hierarchy of several:"
                " give it one level (wordnet(level=...)) or one k (clusters(k=...)), or make a condition"
                " of each"
            )
    return set(declared)


def check_keys(conditions: Mapping[str, Any], method: Any) -> None:
    """Check that the chosen method has the momentum encoder that conditions read."""
    for name, condition in conditions.items():
        if trait(condition, "reads_embeddings") == "key" and not _has_keys(method):
            raise ValueError(
                f"the condition {name!r}, {_kind(condition)}, reads keys of a momentum encoder, and"
                f" {method.spec.name} has none: use method moco_v2 or moco_v3, or clusters(of='embedding')"
            )


def read_by_method(
    method: Any, build: Callable[[], Any], conditions: Mapping[str, Any]
) -> set[str]:
    """Check that a method gets the conditions that it reads; return their names.

    Args:
        method: The choice.
        build: Builds it; called only if its class says that it reads conditions.
        conditions: The built conditions of the pipeline, by name.
    """
    return check_read(build(), conditions) if trait(method.spec.load(), "conditions") else set()


def warn_of_unread_queue(objective: Any, method: Any) -> None:
    """Warn if an objective does not compare with the queue of the chosen method."""
    if has_queue(method) and not trait(objective, "reads_queue"):
        name = type(objective).__name__
        warnings.warn(
            f"{name} compares with no queue, so {method.spec.name}'s has no effect: use a method"
            " without a queue, as simclr or moco_v3",
            stacklevel=5,
        )


def has_queue(method: Any) -> bool:
    """Whether a chosen method has a queue."""
    cls = method.spec.load()
    return bool(trait(cls, "read_conditions") and trait(cls, "has_queue")(method.params))


def _has_keys(method: Any) -> bool:
    """Whether a chosen method has a momentum encoder; one without the queue that it is for has none."""
    cls = method.spec.load()
    return bool(trait(cls, "project_key") and trait(cls, "has_queue")(method.params))


def _declared(reader: Any, member: str, reads: Any) -> Mapping[str, Any]:
    """A declaration of what is read, once its form is checked."""
    well_formed = isinstance(reads, Mapping) and all(
        isinstance(types, tuple | list | set | frozenset)
        and types
        and all(value_type in VALUE_TYPES for value_type in types)
        for types in reads.values()
    )
    if not well_formed:
        raise ValueError(
            f"{type(reader).__name__}.{member} must have value types ({', '.join(VALUE_TYPES)}) by name, as"
            f" {{'color': ('continuous',)}}, not {reads!r}"
        )
    return reads  # type: ignore[no-any-return]


def _check_ignores(reader: Any, wanted: str) -> None:
    for each in reader.modules():
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


def check_columns(
    evaluators: Iterable[Any], dataset: Any, conditions: Mapping[str, Any] | None = None
) -> None:
    """Check that the data set has the columns that built evaluators read, with the right value types.

    With ``conditions``, values of these may be read by their names too.
    """
    declared = [
        (type(each).__name__, _declared(each, "columns", columns))
        for each in evaluators
        if (columns := trait(each, "columns"))
    ]
    schema = dict(dataset.schema()) if declared else {}
    schema |= {name: each.value_type for name, each in (conditions or {}).items()}
    for name, columns in declared:
        for column, accepted in columns.items():
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


def check_monitors(evaluators: Iterable[Any], dataset: Any, conditions: Mapping[str, Any]) -> None:
    """Check that built evaluators can measure what a run computes while it trains."""
    check_columns(evaluators, dataset, conditions)
    for each in evaluators:
        if trait(each, "reads_towers"):
            raise ValueError(
                f"monitor.evaluate: the evaluator {type(each).__name__} compares images with texts, which"
                " is possible after training alone: move it to evaluate"
            )


def check_method(method: Any, queued: bool, batch_size: int, conditions: Mapping[str, Any]) -> None:
    """Check that a built method can take batches of this size and compare by these conditions."""
    trait(method, "check_batch")(batch_size)
    if trait(method, "conditions"):
        check_read(method, conditions)
    for name, condition in conditions.items():
        if queued and trait(condition, "within_batch"):
            raise ValueError(
                f"the condition {name!r}, {_kind(condition)}, compares samples of one batch alone,"
                f" so {type(method).__name__} cannot compare a queue of earlier"
                " batches by it: use a method without a queue, as simclr or moco_v3"
            )


def _kind(condition: Any) -> str:
    return type(source_of(condition)).__name__


def _nearest(wanted: str, present: Sequence[str]) -> str:
    """The name that was probably meant: a variable of that name, one spelled like it, or the first."""
    variables = [name for name in present if name.endswith(f"/{wanted}")]
    return (variables or difflib.get_close_matches(wanted, present, 1) or present)[0]


def _missing(reader: Any, wanted: str, value_types: Any, present: Mapping[str, Any]) -> str:
    message = (
        f"{type(reader).__name__} reads the condition {wanted!r} ({' or '.join(value_types)}), and the"
        f" pipeline has {', '.join(map(repr, present)) or 'none'}"
    )
    suitable = [name for name, each in present.items() if each.value_type in value_types]
    if suitable and getattr(reader, "on", None) == wanted:
        return f"{message}: give it on={_nearest(wanted, suitable)!r}"
    if present or wanted != "condition":
        wanted_all = ", ".join(f"{name!r}: ..." for name in reader.conditions)
        return f"{message}: give the pipeline conditions={{{wanted_all}}}"
    return f"{message}: give the pipeline condition=..."


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
            + (
                f"{present}: give the sampler on={_nearest(on, list(conditions))!r}"
                if present
                else "none"
            )
        )
    condition = conditions[on]
    if condition.refresh == "batch":
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, {_kind(condition)}, which is computed"
            " from embedded batches: batches are drawn by conditions with refresh 'never' or 'epoch'"
        )
    if trait(condition, "missing") == "ignore":
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, whose missing='ignore' keeps samples without a"
            " value in training: draw batches by a condition with missing='own' or 'drop'"
        )
    value_types = trait(sampler.spec.load(), "value_types")
    accepted = value_types(sampler.params) if value_types else VALUE_TYPES
    if condition.value_type not in accepted:
        raise ValueError(
            f"the sampler {sampler!r} needs a {' or '.join(accepted)} condition, and {on!r},"
            f" {_kind(condition)}, is {condition.value_type}"
            f"{_way_out(condition.value_type, accepted)}"
        )
    return on


def read_all(kind: str, given: Iterable[Any], where: str) -> list[engine.Choice]:
    """The choices in a list of a configuration."""
    return [registry().read(kind, each, where=f"{where}[{i}]") for i, each in enumerate(given)]


def default_evaluators(dataset: Any) -> list[Any]:
    """Probes of the label where it is class ids, and a regression of each continuous column."""
    schema = dataset.schema()
    probes = ["linear", "knn"] if schema.get("label") == "categorical" else []
    continuous = [name for name, value_type in schema.items() if value_type == "continuous"]
    return [*probes, *({"use": "regression", "column": name} for name in continuous)]


def monitor_settings(given: Any) -> MonitorSettings | None:
    """The ``[monitor]`` table, checked and complete; None if nothing is measured."""
    from ccl_plugins.watching.settings import MonitorSettings

    if given is False or given == "off":
        return None
    if given is not None and not isinstance(given, Mapping):
        raise engine.InvalidConfig(
            f'monitor must be a table, as {{every_epochs = 1}}, or "off", not'
            f" {engine.short_repr(given)}"
        )
    settings = dict(given or {})
    engine.check_keys(settings, [field.name for field in fields(MonitorSettings)], "monitor")
    chosen = settings.get("evaluate")
    if chosen is not None:
        if isinstance(chosen, str | Mapping) or not isinstance(chosen, Iterable):
            raise engine.InvalidConfig(
                f'monitor.evaluate must be a list, as ["linear", "knn"], not {engine.short_repr(chosen)}'
            )
        settings["evaluate"] = read_all("evaluator", chosen, "monitor.evaluate")
    return MonitorSettings(**settings)


def fit_settings(
    given: Mapping[str, Any], built: Mapping[str, Any] = {}
) -> tuple[FitSettings, dict[str, engine.Choice]]:
    """The ``[fit]`` table, checked and complete, and the choices of optimizer and schedule in it.

    A table of one of these without ``use`` has options of the default one.

    Args:
        given: The table.
        built: What its choices were built to before, by kind.
    """
    engine.check_keys(given, [field.name for field in fields(FitSettings)], "fit")
    choices = {}
    for kind, name in COMPONENTS.items():
        table = given.get(kind, name)
        table = {"use": name, **table} if isinstance(table, Mapping) else table
        choices[kind] = registry().read(kind, table, where=f"fit.{kind}")
    new = {k: c.build(where=f"fit.{k}") for k, c in choices.items() if k not in built}
    return FitSettings(**{**given, **built, **new}), choices


def chosen_loggers(given: Any) -> dict[str, engine.Choice]:
    """The ``loggers`` of a configuration by name."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise engine.InvalidConfig(
            f'loggers must be a list, as ["tensorboard", "csv"], not {engine.short_repr(given)}'
        )
    chosen: dict[str, engine.Choice] = {}
    for number, each in enumerate(given):
        choice = registry().read("logger", each, where=f"loggers[{number}]")
        if choice.spec.name in chosen:
            raise engine.InvalidConfig(f"loggers[{number}]: {choice.spec.name} is given twice")
        chosen[choice.spec.name] = choice
    return chosen


def installed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The monitor, loggers and options of plug-ins in a record, less what is of a plug-in that is gone.

    They watched the run, and nothing that is read back depends on them.
    """

    def offered(kind: str, component: Any) -> bool:
        try:
            return bool(registry().read(kind, component))
        except engine.RegistryError:
            return False

    here = {plugin.name for plugin in registry().plugins}
    monitor = record.get("monitor", "off")
    if isinstance(monitor, Mapping) and monitor.get("evaluate") is not None:
        kept = [each for each in monitor["evaluate"] if offered("evaluator", each)]
        monitor = {**monitor, "evaluate": kept}
    return {
        "monitor": monitor,
        "loggers": [
            each for each in record.get("loggers", ("tensorboard",)) if offered("logger", each)
        ],
        "plugins": {n: table for n, table in record.get("plugins", {}).items() if n in here},
    }


def hook_options(given: Any) -> dict[str, dict[str, Any]]:
    """The ``[plugins]`` of a configuration: the options of each plug-in's hooks, as plain data."""
    tables = registry().read_options(given or {}, "plugins")
    try:
        return {name: json.loads(json.dumps(t, allow_nan=False)) for name, t in tables.items()}
    except (TypeError, ValueError) as error:
        raise engine.InvalidConfig(f"plugins: options must be plain data: {error}") from None
