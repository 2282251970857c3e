"""A choice: a component and all its parameters, not built yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from .errors import InvalidConfig, InvalidParameter
from .params import Schema
from .spec import ComponentSpec


class Choice:
    """A component chosen with all its parameters; compare, print, record or build it.

    Args:
        spec: The component.
        params: Every parameter, nested choices in place.
        target: The class or function, or None where `spec` holds an object that is built already.
        schema: What the target takes.
        shown: The name by which it is found.
    """

    def __init__(
        self,
        spec: ComponentSpec,
        params: Mapping[str, Any],
        target: Callable[..., Any] | None,
        schema: Schema,
        shown: str,
    ) -> None:
        self.spec = spec
        self.params = dict(params)
        self.supplied = tuple(parameter.name for parameter in schema.supplied)
        self._needed = tuple(p.name for p in schema.supplied if p.required)
        self._target = target
        self._shown = shown

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.spec.kind

    def build(
        self, supplied: Mapping[str, Any] | None = None, cache: dict[Any, Any] | None = None
    ) -> Any:
        """The object, and the components it is made of.

        Args:
            supplied: What a pipeline supplies, by name; each component takes what its constructor
                names and its kind allows.
            cache: Filled with what is built; components with equal records are then built once.

        Raises:
            InvalidParameter: If something that the pipeline supplies is missing.
        """
        if self._target is None:
            return self.spec.load()
        supplied = supplied or {}
        missing = [name for name in self._needed if name not in supplied]
        if missing:
            raise InvalidParameter(
                f"{self.kind} {self._shown} cannot be built without {', '.join(missing)}, "
                "which a pipeline supplies"
            )
        arguments = {name: _built(value, supplied, cache) for name, value in self.params.items()}
        arguments |= {name: supplied[name] for name in self.supplied if name in supplied}
        key = (self.spec, _key(arguments))
        if cache is not None and key in cache:
            return cache[key][0]
        try:
            built = self._target(**arguments)
        except Exception as error:
            error.add_note(f"while building {self!r}")
            raise
        if cache is not None:
            cache[key] = built, arguments  # keeps alive what the key knows by its id
        return built

    def record(self) -> dict[str, Any]:
        """Plain data from which the same choice can be read again.

        Raises:
            InvalidConfig: If a parameter is not plain data; the message names its path.
        """
        return {"use": self.spec.use, **{k: _plain(v, k) for k, v in self.params.items()}}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and _key(self) == _key(other)

    def __hash__(self) -> int:
        return hash(_key(self))

    def __repr__(self) -> str:
        return f"{self._shown}({', '.join(f'{k}={v!r}' for k, v in self.params.items())})"


def _built(value: Any, supplied: Mapping[str, Any], cache: dict[Any, Any] | None) -> Any:
    if isinstance(value, Choice):
        return value.build(supplied, cache)
    if type(value) in (list, tuple):
        return type(value)(_built(item, supplied, cache) for item in value)
    if type(value) is dict:
        return {key: _built(item, supplied, cache) for key, item in value.items()}
    return value


def _plain(value: Any, where: str) -> Any:
    """A value as JSON has it: paths as strings, tuples as lists, choices as their records."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, Choice):
        return {"use": value.spec.use, **_plain(value.params, where)}
    raise InvalidConfig(
        f"{where}: a {type(value).__name__} cannot be written to a config; in Python, give the built"
        " component in place of a choice"
    )


def _key(value: Any) -> Any:
    """What two values with equal records have in common; an object is equal to itself alone."""
    if isinstance(value, Choice):
        return value.spec, _key(value.params)
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if isinstance(value, Mapping):
        return frozenset((name, _key(item)) for name, item in value.items())
    if isinstance(value, os.PathLike):
        return str, os.fspath(value)
    if value is None or isinstance(value, bool | int | float | str):
        return type(value), value  # True, 1 and 1.0 are three values
    return id(value)
