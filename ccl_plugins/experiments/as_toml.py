"""A record as a TOML file, which `ccl train` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ccl_plugins.experiments.composition import TABLES


def as_toml(record: Mapping[str, Any]) -> str:
    """A pipeline's record as the text of a TOML file with every parameter.

    TOML has no None: parameters that are None are left out, which is their default in almost every
    component.
    """
    lines: list[str] = []
    tables: list[tuple[str, Mapping[str, Any]]] = []
    for key in (key for key in TABLES if record.get(key) not in (None, {}, "")):
        value = record[key]
        if key == "evaluate" and value:
            tables += [("[[evaluate]]", each) for each in value]
        elif key == "conditions":
            tables += [(f"[conditions.{_key(name)}]", each) for name, each in value.items()]
        elif isinstance(value, Mapping):
            tables.append((f"[{key}]", value))
        else:
            lines.append(f"{key} = {inline(value)}")
    for head, table in tables:
        lines += ["", head] if lines else [head]
        lines += [f"{_key(k)} = {inline(v)}" for k, v in table.items() if v is not None]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _text(name)


def inline(value: Any) -> str:
    """A value of a record as TOML on one line; what is None is left out of tables."""
    if isinstance(value, Mapping):
        items = (f"{_key(k)} = {inline(v)}" for k, v in value.items() if v is not None)
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return repr(value)  # "inf" and "nan" are TOML's words too
    return json.dumps(value)


def _text(text: str) -> str:
    # A basic string of TOML is one of JSON, but for DEL and lone surrogates.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
