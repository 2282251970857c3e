"""Read TOML and JSON, write JSON, and check the keys of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .errors import InvalidConfig
from .spec import did_you_mean


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
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidConfig(f"{where}: {error}") from error
    if not isinstance(data, dict):
        raise InvalidConfig(f"{where}: must hold a JSON object, not {text[:40]!r}")
    return data


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        InvalidConfig: If it cannot be read; the message quotes file, line and text.
    """
    import re
    import tomllib

    try:
        text = Path(path).read_text(encoding="utf-8")
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        lines = text.splitlines()
        quoted = f": {lines[int(line[1]) - 1].strip()!r}" if line and lines else ""
        raise InvalidConfig(f"{path}: {error}{quoted}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: {error}") from error


def known_keys(data: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse unknown keys.

    Raises:
        InvalidConfig: With the key, its place and the nearest known key.
    """
    known = [*known]
    for key in data:
        if key not in known:
            near = did_you_mean(key, known, "Known:")
            raise InvalidConfig(f"{where}: unknown key {key!r}.{near}")
