"""Read TOML and JSON, write JSON, and check the keys of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .errors import InvalidConfig, did_you_mean
from .quoting import escaped, short_repr

DEEPEST = 40
"""The most levels of tables and lists in a file, because readers recurse once for each level."""


def to_json(record: Mapping[str, Any]) -> str:
    """A record as indented JSON."""
    import json

    return json.dumps(record, indent=2) + "\n"


def from_json(text: str, where: str) -> dict[str, Any]:
    """The record in a JSON text.

    Raises:
        InvalidConfig: If it is not a JSON object; the message begins with ``where``.
    """
    import json

    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"{where}: {escaped(error)}") from error
    if not isinstance(data, dict):
        raise InvalidConfig(f"{where}: must hold a JSON object, not {short_repr(text[:40])}")
    _not_too_deep(data, where)
    return data


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        InvalidConfig: If it cannot be read; the message quotes file, line and text.
    """
    import re
    import tomllib

    text = ""
    try:
        # With a byte-order mark or not.
        text = Path(path).expanduser().read_text(encoding="utf-8-sig")
        data = tomllib.loads(text)
    except RecursionError:
        raise InvalidConfig(
            f"{path}: tables and lists are more than {DEEPEST} levels deep"
        ) from None
    # A value that Python cannot hold, such as a number of 5,000 digits, is a ValueError too.
    except (OSError, ValueError, RuntimeError) as error:
        line = re.search(r"at line (\d+)", str(error))
        lines = text.splitlines()
        if isinstance(error, UnicodeError):
            raise InvalidConfig(
                f"{path}: {escaped(error)}; a configuration is text in UTF-8"
            ) from error
        quoted = f": {short_repr(lines[int(line[1]) - 1].strip())}" if line and lines else ""
        raise InvalidConfig(f"{path}: {escaped(error)}{quoted}") from error
    _not_too_deep(data, str(path))
    return data


def _not_too_deep(data: object, where: str) -> None:
    values = [data]
    for _ in range(DEEPEST + 1):
        tables = [list(value.values()) for value in values if isinstance(value, dict)]
        lists = [value for value in values if isinstance(value, list)]
        values = [item for items in (*tables, *lists) for item in items]
    if values:
        raise InvalidConfig(f"{where}: tables and lists are more than {DEEPEST} levels deep")


def check_keys(data: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Refuse unknown keys.

    Raises:
        InvalidConfig: For such a key, with its place and the nearest known key.
    """
    keys = [*allowed]
    for key in data:
        if key not in keys:
            near = did_you_mean(key, keys, "Known:")
            raise InvalidConfig(f"{where}: unknown key {key!r}.{near}")
