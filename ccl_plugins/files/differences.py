"""The places in which plain data differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """A place in which plain data differ, such as ``"evaluate.0.k"``, and the values; None if missing."""

    place: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.place}: {' -> '.join(map(json.dumps, self.values))}"


def differences(*values: Any, place: str = "", deep: bool = False) -> Iterator[Difference]:
    """The places in which two or more plain data differ, from the outermost; None counts as missing.

    Args:
        values: The data.
        place: The place of the data.
        deep: Whether a table that others lack counts as one difference for each of its values.
    """
    if all(each == values[0] for each in values):
        return
    tables = [{} if deep and each is None else _table(each) for each in values]
    keys = [*dict.fromkeys(key for table in tables for key in table or ())]
    if None in tables or not keys:
        yield Difference(place, values)
        return
    for key in keys:
        inner = [(table or {}).get(key) for table in tables]
        yield from differences(*inner, place=f"{place}.{key}".lstrip("."), deep=deep)


def _table(value: Any) -> Mapping[Any, Any] | None:
    """The items of a table by key, or of a list of tables by number; None for other values."""
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        return dict(enumerate(value))
    return value if isinstance(value, Mapping) else None
