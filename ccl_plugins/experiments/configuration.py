"""The tables of a configuration: each is read, checked and completed, and values may be replaced."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import ccl_registry as engine
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import trait
from ccl_plugins.training.settings import COMPONENTS, FitSettings
from ccl_plugins.transforms.lightly import IMAGENET_MEAN, IMAGENET_STD, LightlyTransform
from ccl_plugins.transforms.modalities import IMAGE, Modalities
from ccl_plugins.watching.settings import MonitorSettings

SINGLE = ("dataset", "transform", "backbone", "method", "objective", "sampler")
"""The kinds of which a pipeline has exactly one."""

TABLES = (*SINGLE, "condition", "conditions", "evaluate", "fit", "monitor", "loggers", "plugins")
"""The tables of a configuration."""

SCHEMA = 1
"""The version of the record's layout."""


def check_tables(conditions: Any, evaluate: Any, fit: Any) -> None:
    """Check that these entries of a configuration are tables and lists where they must be."""
    for name, given, example in (
        ("conditions", conditions, '{color = "..."}; a single one is called condition'),
        ("fit", fit, "{epochs = 100}"),
    ):
        if given is not None and not isinstance(given, Mapping):
            raise engine.InvalidConfig(f"{name} must be a table, such as {example}, not {given!r}")
    if isinstance(evaluate, str | Mapping) or not isinstance(evaluate, Iterable | None):
        raise engine.InvalidConfig(
            'evaluate must be a list of evaluators, such as ["linear"] or [[evaluate]] tables, not'
            f" {evaluate!r}"
        )


def check_schema(data: Mapping[str, Any], where: str) -> None:
    """Refuse a record of another schema, by an InvalidConfig."""
    if data.get("schema", SCHEMA) != SCHEMA:
        raise engine.InvalidConfig(
            f"{where}: unknown schema {engine.short_repr(data['schema'])};"
            f" this version reads and writes {SCHEMA}"
        )


def condition_place(name: str, conditions: Mapping[str, Any]) -> str:
    """The place of a condition in a configuration with these conditions."""
    return "condition" if list(conditions) == ["condition"] else f"conditions.{name}"


def read_evaluators(given: Iterable[Any], where: str) -> list[engine.Choice]:
    """The choices in a list of evaluators."""
    return [registry().read("evaluator", e, where=f"{where}[{i}]") for i, e in enumerate(given)]


def long_form(transform: Any) -> Any:
    """A transform as a table with ``use``: ``{image = ..., text = ...}`` is short for ``modalities``."""
    short = isinstance(transform, Mapping) and "use" not in transform and transform
    return {"use": "modalities", "of": dict(transform)} if short else transform


def with_statistics(transform: Any, backbone: Any) -> Any:
    """The choice of a transform with mean and std as numbers, so that the record has them.

    Numbers that are not given are those of the backbone's weights, else ImageNet's. A transform of
    another author does not change.

    Args:
        transform: The choice.
        backbone: The choice.
    """
    cls, params = transform.spec.load(), transform.params
    changes: dict[str, Any] = {}
    if cls is Modalities and hasattr(image := params["of"].get(IMAGE), "params"):
        changes["of"] = {**params["of"], IMAGE: with_statistics(image, backbone)}
    elif isinstance(cls, type) and issubclass(cls, LightlyTransform):
        mean, std = statistics_of(backbone) or (IMAGENET_MEAN, IMAGENET_STD)
        defaults = {"mean": tuple(mean), "std": tuple(std)}
        given = {len(params[name]) for name in defaults if params.get(name) is not None}
        changes = {
            name: value
            for name, value in defaults.items()
            if params.get(name, 0) is None and given <= {len(value)}
        }
    if not changes:
        return transform
    changed = copy.copy(transform)  # which may be part of another pipeline
    changed.params = {**params, **changes}
    return changed


def statistics_of(backbone: Any) -> tuple[Sequence[float], Sequence[float]] | None:
    """Mean and standard deviation of the images that a backbone's weights were trained on, if known."""
    cls = backbone.spec.load()
    if not isinstance(cls, type):
        return None
    statistics: tuple[Sequence[float], Sequence[float]] | None
    statistics = trait(cls, "image_statistics")(backbone.params)
    return statistics


def default_evaluators(dataset: Any) -> list[Any]:
    """Probes of the label if it holds class ids, and a regression of each continuous column."""
    schema = dataset.schema()
    probes = ["linear", "knn"] if schema.get("label") == "categorical" else []
    continuous = [name for name, value_type in schema.items() if value_type == "continuous"]
    return [*probes, *({"use": "regression", "column": name} for name in continuous)]


def fit_settings(
    given: Mapping[str, Any], built: Mapping[str, Any] = {}
) -> tuple[FitSettings, dict[str, engine.Choice]]:
    """The ``[fit]`` table, checked and complete, and the choices of optimizer and schedule in it.

    A table of one of these without ``use`` has options of the default one.

    Args:
        given: The table.
        built: The components that its choices were built to before, by kind.
    """
    engine.check_keys(given, [field.name for field in fields(FitSettings)], "fit")
    choices = {}
    for kind, name in COMPONENTS.items():
        table = given.get(kind, name)
        table = {"use": name, **table} if isinstance(table, Mapping) else table
        choices[kind] = registry().read(kind, table, where=f"fit.{kind}")
    new = {k: c.build(where=f"fit.{k}") for k, c in choices.items() if k not in built}
    return FitSettings(**{**given, **built, **new}), choices


def monitor_settings(given: Any) -> MonitorSettings | None:
    """The ``[monitor]`` table, checked and complete; None if nothing is measured."""
    if given is False or given == "off":
        return None
    if given is not None and not isinstance(given, Mapping):
        raise engine.InvalidConfig(
            f'monitor must be a table, such as {{every_epochs = 1}}, or "off", not'
            f" {engine.short_repr(given)}"
        )
    settings = dict(given or {})
    engine.check_keys(settings, [field.name for field in fields(MonitorSettings)], "monitor")
    chosen = settings.get("evaluate")
    if chosen is not None:
        if isinstance(chosen, str | Mapping) or not isinstance(chosen, Iterable):
            raise engine.InvalidConfig(
                'monitor.evaluate must be a list, such as ["linear", "knn"], not'
                f" {engine.short_repr(chosen)}"
            )
        settings["evaluate"] = read_evaluators(chosen, "monitor.evaluate")
    return MonitorSettings(**settings)


def chosen_loggers(given: Any) -> dict[str, engine.Choice]:
    """The ``loggers`` of a configuration by name."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise engine.InvalidConfig(
            f'loggers must be a list, such as ["tensorboard", "csv"], not {engine.short_repr(given)}'
        )
    chosen: dict[str, engine.Choice] = {}
    for number, each in enumerate(given):
        choice = registry().read("logger", each, where=f"loggers[{number}]")
        if choice.spec.name in chosen:
            raise engine.InvalidConfig(f"loggers[{number}]: {choice.spec.name} is given twice")
        chosen[choice.spec.name] = choice
    return chosen


def hook_options(given: Any) -> dict[str, dict[str, Any]]:
    """The ``[plugins]`` of a configuration: the options of each plug-in's hooks, as plain data."""
    tables = registry().read_options(given or {}, "plugins")
    try:
        return {name: json.loads(json.dumps(t, allow_nan=False)) for name, t in tables.items()}
    except (TypeError, ValueError) as error:
        raise engine.InvalidConfig(f"plugins: options must be plain data: {error}") from None


def installed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The monitor, loggers and plug-in options of a record, without those of missing plug-ins.

    They only watched the run, and nothing that is read back depends on them.
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


# Values in place of those in a configuration, such as ``objective.kernel.scale=0.2``.


def parse(text: str) -> tuple[tuple[str, ...], Any]:
    """The keys and the value of ``KEY=VALUE``; the value is TOML, or a word without quotes.

    Raises:
        InvalidConfig: For another form.
    """
    key, equals, value = text.partition("=")
    try:
        read = _value(value.strip()) if equals else None
        keys = dotted(key)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOverride(text, str(error)) from None
    if not equals:
        raise InvalidOverride(text, "there is no '='")
    return keys, read


SETTINGS = ("fit", "monitor")
"""The tables of settings, whose words are not names of components."""


class InvalidOverride(engine.InvalidConfig):
    """A value that cannot be put into a configuration."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(
            f"{text!r}: {why}; a value is written as TOML, such as objective.kernel.scale=0.2 or"
            " 'fit.schedule={use = \"constant\"}'"
        )


def _value(text: str) -> Any:
    if re.fullmatch(r"[A-Za-z_][\w./:-]*", text) and text not in ("true", "false", "inf", "nan"):
        return text  # a name: a shell would take the quotes away
    tables = tomllib.loads(f"value = {text}")
    if tables.keys() != {"value"}:
        raise tomllib.TOMLDecodeError("there is more than one value")
    return tables["value"]


def dotted(text: str) -> tuple[str, ...]:
    """The keys of ``objective.kernel.scale``.

    Raises:
        TOMLDecodeError: For text that is not a dotted key of TOML.
    """
    table: Any = tomllib.loads(f"{text} = 0") if "\n" not in text else {}
    keys = []
    while isinstance(table, dict) and len(table) == 1:
        ((key, table),) = table.items()
        keys.append(key)
    if table != 0:
        raise tomllib.TOMLDecodeError("the key is not dotted words")
    return tuple(keys)


def override(
    tables: Mapping[str, Any], changes: Iterable[tuple[Sequence[str], Any]]
) -> dict[str, Any]:
    """A copy of the tables of a configuration with changed values.

    A component that is only named becomes a table: ``objective = "infonce"`` and the change
    ``objective.temperature`` give ``{use = "infonce", temperature = ...}``.

    Args:
        tables: The configuration.
        changes: Keys and value of each change.

    Raises:
        InvalidConfig: For an unknown table, and for a key below a value without keys; the message
            names similar keys.
    """
    changed = copy.deepcopy(dict(tables))
    for keys, value in changes:
        if keys[0] not in TABLES and (near := _near(changed, keys[-1])):
            raise engine.InvalidConfig(
                f"unknown key {'.'.join(keys)!r}. Did you mean {' or '.join(near)}?"
            )
        # A later change may go into this value, which is the caller's.
        _put(changed, tuple(keys), copy.deepcopy(value))
    return changed


def _put(tables: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    at: Any = tables
    for depth, key in enumerate(keys):
        place = ".".join(keys[:depth])
        index: Any = key
        if isinstance(at, list):
            if not key.isdecimal() or int(key) >= len(at):
                places = ", ".join(f"{place}.{i}" for i in range(len(at)))
                raise engine.InvalidConfig(f"there is no {place}.{key}; there are {places}")
            index = int(key)
        elif not isinstance(at, dict):
            raise engine.InvalidConfig(f"{place} is {engine.short_repr(at)}, which has no {key!r}")
        if depth == len(keys) - 1:
            at[index] = value
            return
        if isinstance(at, dict):
            at.setdefault(key, {})
        if isinstance(at[index], str) and (
            keys[0] not in SETTINGS or keys[: depth + 1] in [("fit", kind) for kind in COMPONENTS]
        ):
            at[index] = {"use": at[index]}
        at = at[index]


def _near(tables: Mapping[str, Any], key: str) -> list[str]:
    """The dotted keys of a configuration, and of its settings of training, that end in a key."""
    settings = [f"fit.{field.name}" for field in fields(FitSettings)]
    settings += [f"monitor.{field.name}" for field in fields(MonitorSettings)]
    places = [path for path in (*_paths(tables), *settings) if path.rpartition(".")[2] == key]
    return list(dict.fromkeys(places))


def _paths(tables: Any, place: str = "") -> Iterator[str]:
    if isinstance(tables, Mapping):
        for key, value in tables.items():
            yield f"{place}{key}"
            yield from _paths(value, f"{place}{key}.")
