"""Check values against type hints, and convert them."""

from __future__ import annotations

import numbers
import os
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

from .errors import RegistryError
from .spec import with_article

SEQUENCES: dict[Any, type] = {list: list, tuple: tuple, Sequence: tuple}
MAPPINGS = (dict, Mapping)
NONE = type(None)
SCALARS = (None, NONE, bool, str, int, float, Path)


class Mismatch(Exception):
    """The value does not fit."""


class ChoiceReader(Protocol):
    """Turns names, tables and objects into choices."""

    def kind_of(self, hint: object) -> str | None:
        """The kind whose protocol a hint is or inherits from."""

    def read(self, kind: str, data: Any, where: str) -> Any:
        """The choice of this kind that a value stands for."""

    def read_unhinted(self, data: Any, where: str) -> Any:
        """The choice that a value names with its kind; any other value unchanged."""

    def read_fields(self, hint: type, data: Any, where: str) -> dict[str, Any]:
        """The fields of a dataclass, all of them, from a table or from an instance."""


def accept(value: Any, hint: Any, reader: ChoiceReader, where: str) -> Any:
    """The value converted for the component: 1 to 1.0 for a float, a name to a choice for a kernel.

    A hint that is a dataclass takes a table of its fields. An unknown hint accepts every value.

    Raises:
        Mismatch: If it does not fit.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _accept_any(value, arguments, reader, where)
    if origin is typing.Literal:
        return _need(any(type(value) is type(a) and value == a for a in arguments), value)
    if hint in SCALARS:
        return _accept_scalar(value, hint)
    if (origin or hint) in SEQUENCES:
        return _accept_sequence(value, origin or hint, arguments, reader, where)
    if (origin or hint) in MAPPINGS:
        return _accept_mapping(value, arguments, reader, where)
    kind = reader.kind_of(hint)
    if kind:
        plain = value is None or isinstance(value, numbers.Number | list | tuple | bytes)
        return reader.read(kind, _need(not plain, value), where)
    if isinstance(hint, type) and is_dataclass(hint):
        fits = isinstance(value, Mapping) or type(value) is hint
        return reader.read_fields(hint, _need(fits, value), where)
    return reader.read_unhinted(value, where)


def _need(fits: bool, value: Any) -> Any:
    if not fits:
        raise Mismatch
    return value


def _accept_scalar(value: Any, hint: Any) -> Any:
    number = isinstance(value, numbers.Number) and not isinstance(value, bool)
    if hint is int:  # numpy's integers become plain ones
        return int(_need(number and isinstance(value, numbers.Integral), value))
    if hint is float:
        try:
            return float(_need(number and isinstance(value, numbers.Real), value))
        except OverflowError:  # an integer beyond the largest float
            raise Mismatch from None
    if hint is Path:
        return Path(_need(isinstance(value, str | os.PathLike), value))
    return _need(isinstance(value, hint or NONE), value)


def _accept_any(value: Any, hints: Sequence[Any], reader: ChoiceReader, where: str) -> Any:
    def order(hint: Any) -> tuple[bool, bool]:
        # Words before names of components, as in `Kernel | Literal["median"]`; int before float,
        # so that 1 stays 1 in `float | int`; hints that accept every value last.
        plain = (*SCALARS, *SEQUENCES, *MAPPINGS, typing.Literal)
        late = hint is float or reader.kind_of(hint) is not None
        return not late and (typing.get_origin(hint) or hint) not in plain, late

    reason: Exception = Mismatch()
    for hint in sorted(hints, key=order):
        try:
            return accept(value, hint, reader, where)
        except Mismatch:
            continue
        except RegistryError as error:
            reason = error
    literals = [hint for hint in hints if typing.get_origin(hint) is typing.Literal]
    words = [word for hint in literals for word in typing.get_args(hint)]
    if words and isinstance(value, str) and isinstance(reason, RegistryError):
        # It may be a misspelled word as well as a misspelled name.
        raise type(reason)(f"{reason} Or it is one of {', '.join(map(repr, words))}.")
    raise reason


def _accept_sequence(
    value: Any, base: Any, arguments: tuple[Any, ...], reader: ChoiceReader, where: str
) -> Any:
    items = list(_need(isinstance(value, list | tuple), value))
    hints = [*arguments] or [Any]
    if base is not tuple or hints[-1] is Ellipsis:
        hints = hints[:1] * len(items)
    elif not arguments:
        hints *= len(items)
    _need(len(hints) == len(items), value)
    pairs = zip(items, hints, strict=True)
    return SEQUENCES[base](
        accept(item, hint, reader, f"{where}[{i}]") for i, (item, hint) in enumerate(pairs)
    )


def _accept_mapping(
    value: Any, arguments: tuple[Any, ...], reader: ChoiceReader, where: str
) -> Any:
    key, item = arguments or (Any, Any)
    return {
        accept(k, key, reader, where): accept(v, item, reader, f"{where}.{k}")
        for k, v in _need(isinstance(value, Mapping), value).items()
    }


def describe(hint: Any, reader: ChoiceReader | None = None) -> str:
    """A hint in the form of messages: ``float | None``, ``a kernel``."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    kind = reader.kind_of(hint) if reader else None
    if kind:
        return with_article(kind)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(describe(argument, reader) for argument in arguments)
    if hint is type(None):
        return "None"
    if isinstance(hint, type) and is_dataclass(hint):
        return f"a table of {', '.join(field.name for field in fields(hint))}"
    if hint is Ellipsis:
        return "..."
    if arguments and isinstance(origin, type):
        return f"{origin.__name__}[{', '.join(describe(a, reader) for a in arguments)}]"
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
