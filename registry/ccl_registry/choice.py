"""A choice: a component with all its parameters, not built yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from .errors import InvalidConfig, InvalidParameter, errors_as_failure
from .params import Schema
from .quoting import short_repr
from .spec import ComponentSpec, Kind


class Choice:
    """A component chosen with all its parameters; compare, print, record or build it.

    Args:
        spec: The component.
        kind: Its kind.
        params: Every parameter, with nested choices in place.
        target: The class or function, or None if `spec` holds an object that is already built.
        schema: The parameters that the target takes.
        name: The shortest name that finds the component.
    """

    def __init__(
        self,
        spec: ComponentSpec,
        kind: Kind,
        params: Mapping[str, Any],
        target: Callable[..., Any] | None,
        schema: Schema,
        name: str,
    ) -> None:
        self.spec = spec
        self.params = dict(params)
        self.supplied = tuple(parameter.name for parameter in schema.supplied)
        self._required = tuple(p.name for p in schema.supplied if p.required)
        self._kind = kind
        self._target = target
        self._name = name

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.spec.kind

    def build(
        self,
        supplied: Mapping[str, Any] | None = None,
        cache: dict[Any, Any] | None = None,
        where: str = "",
    ) -> Any:
        """Build the component and those nested in it.

        Args:
            supplied: Values that a pipeline supplies, by name; each component takes those that its
                constructor names and its kind allows.
            cache: Filled with built components; those with equal records are then built once.
            where: The place in a config, for messages; by default the kind.

        Raises:
            InvalidParameter: If a supplied value is missing, or a built component lacks members that
                the protocol of its kind declares, or has optional members of a wrong type.
        """
        where = where or self.kind
        if self._target is None:
            return self._checked(self.spec.load(), where)
        supplied = supplied or {}
        missing = [name for name in self._required if name not in supplied]
        if missing:
            raise InvalidParameter(
                f"{self.kind} {self._name} cannot be built without {', '.join(missing)}, "
                "which a pipeline supplies"
            )
        arguments = _built(self.params, supplied, cache, where)
        arguments |= {name: supplied[name] for name in self.supplied if name in supplied}
        key = (self.spec, _key(arguments))
        if cache is not None and key in cache:
            return cache[key][0]
        with errors_as_failure(
            f"{where}: {self.spec.label}", passing=Exception, plugin=self.spec.plugin
        ):
            try:
                built = self._target(**arguments)
            except Exception as error:
                error.add_note(f"while building {self!r}")
                raise
        self._checked(built, where)
        if cache is not None:
            cache[key] = built, arguments  # keeps the objects alive whose ids are in the key
        return built

    def _checked(self, built: Any, where: str) -> Any:
        with errors_as_failure(
            f"{where}: the members of {self.spec.label} cannot be read", plugin=self.spec.plugin
        ):
            missing = self._kind.missing_members(built)
            wrong = self._kind.wrong_members(built)
        if missing:
            raise InvalidParameter(
                f"{where}: {type(built).__name__} has no {', '.join(missing)}, which "
                f"{self._kind.protocol.replace(':', '.')} asks for{self._kind.to_declare(missing)}"
            )
        if wrong:
            raise InvalidParameter(
                f"{where}: {'; '.join(f'{type(built).__name__}.{w}' for w in wrong)}"
            )
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
        return f"{self._name}({', '.join(f'{k}={short_repr(v, 2000)}' for k, v in self.params.items())})"


def _built(
    value: Any, supplied: Mapping[str, Any], cache: dict[Any, Any] | None, where: str
) -> Any:
    if isinstance(value, Choice):
        return value.build(supplied, cache, where)
    if type(value) in (list, tuple):
        items = enumerate(value)
        return type(value)(_built(item, supplied, cache, f"{where}[{i}]") for i, item in items)
    if type(value) is dict:
        return {k: _built(item, supplied, cache, f"{where}.{k}") for k, item in value.items()}
    return value


def _plain(value: Any, where: str) -> Any:
    """A value as JSON holds it: paths as strings, tuples as lists, choices as their records."""
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
    """A key that is equal for values with equal records; an object equals only itself."""
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
