"""Values in place of those in a configuration: ``objective.kernel.scale=0.2``."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import ccl_registry as engine


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
"""The tables of settings, whose words name no component."""

COMPONENTS = (("fit", "optimizer"), ("fit", "schedule"))
"""The components in them."""


class InvalidOverride(engine.InvalidConfig):
    """A value that cannot be put into a configuration."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(
            f"{text!r}: {why}; a value is written as TOML, as objective.kernel.scale=0.2 or"
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
        TOMLDecodeError: For text that is no dotted key of TOML.
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
    tables: Mapping[str, Any], changes: Iterable[tuple[Sequence[str], Any]], known: Iterable[str]
) -> dict[str, Any]:
    """A copy of the tables of a configuration with other values, one change after the other.

    A component that is named alone becomes a table: ``objective = "infonce"`` and the change
    ``objective.temperature`` give ``{use = "infonce", temperature = ...}``.

    Args:
        tables: The configuration.
        changes: Keys and value of each change.
        known: The tables that a configuration may have.

    Raises:
        InvalidConfig: For an unknown table, and for a key below a value that has none; the message has
            the near keys.
    """
    changed = copy.deepcopy(dict(tables))
    for keys, value in changes:
        if keys[0] not in known and (near := _near(changed, keys[-1])):
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
            keys[0] not in SETTINGS or keys[: depth + 1] in COMPONENTS
        ):
            at[index] = {"use": at[index]}
        at = at[index]


def _near(tables: Mapping[str, Any], key: str) -> list[str]:
    """The dotted keys of a configuration, and of its settings of training, that end in a key."""
    from ccl_plugins.training.settings import FitSettings
    from ccl_plugins.watching.settings import MonitorSettings

    settings = [f"fit.{field.name}" for field in fields(FitSettings)]
    settings += [f"monitor.{field.name}" for field in fields(MonitorSettings)]
    places = [path for path in (*_paths(tables), *settings) if path.rpartition(".")[2] == key]
    return list(dict.fromkeys(places))


def _paths(tables: Any, place: str = "") -> Iterator[str]:
    if isinstance(tables, Mapping):
        for key, value in tables.items():
            yield f"{place}{key}"
            yield from _paths(value, f"{place}{key}.")
