"""The parameters of a component, read from its constructor's signature and type hints."""

from __future__ import annotations

import inspect
import sys
import typing
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from .errors import InvalidParameter, InvalidSpec, did_you_mean, one_line
from .hints import ChoiceReader, Mismatch, accept, describe
from .quoting import short_repr

REQUIRED = inspect.Parameter.empty

OLD_PARAMETERS = "OLD_PARAMETERS"
"""The attribute in which a component declares old names of its parameters."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: its hint as a type (``Any`` without one) and as written (`text`)."""

    name: str
    hint: Any
    text: str
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is REQUIRED

    def __str__(self) -> str:
        hint = f": {self.text}" if self.text else ""
        return f"{self.name}{hint}" + ("" if self.required else f" = {short_repr(self.default)}")


@dataclass(frozen=True)
class Schema:
    """The `parameters` of a component, those `supplied` when it is built, and new names by old names."""

    parameters: tuple[Parameter, ...]
    supplied: tuple[Parameter, ...] = ()
    old_names: Mapping[str, str] = field(default_factory=dict)

    def renamed(self, given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        """The given values by the parameters' names, with a warning for each old one.

        Raises:
            InvalidParameter: If a value is given by both.
        """
        values = dict(given)
        for old, name in self.old_names.items():
            if old in given:
                if name in values:
                    raise InvalidParameter(
                        f"{prefix}: {old!r} is an old name of {name!r}; give only {name!r}"
                    )
                warnings.warn(f"{prefix}: {old!r} is called {name!r} now", FutureWarning, 2)
                values[name] = values.pop(old)
        return values


def schema(target: Callable[..., Any], supplied: Collection[str] = ()) -> Schema:
    """The schema of a class or function; a pipeline supplies the parameters named in ``supplied``.

    Raises:
        InvalidSpec: If it takes ``*args`` or ``**kwargs``, whose names cannot be checked, if a hint
            cannot be resolved, or if its ``OLD_PARAMETERS`` is not a mapping of names.
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError) as error:
        raise InvalidSpec(f"it has no signature to read: {error}") from error
    taken = list(signature.parameters.values())
    variadic = [p for p in taken if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if variadic == taken and isinstance(target, type) and "__init__" not in vars(target):
        taken = variadic = []  # inherited from nn.Module or Protocol, which accept nothing either
    if variadic:
        stars = "*" if variadic[0].kind is inspect.Parameter.VAR_POSITIONAL else "**"
        raise InvalidSpec(
            f"the constructor of {target.__name__} takes '{stars}{variadic[0].name}'; "
            "every parameter must be named, for names and types to be checked"
        )
    parameters = [_parameter(p, target) for p in taken]
    return Schema(
        tuple(p for p in parameters if p.name not in supplied),
        tuple(p for p in parameters if p.name in supplied),
        _old_names(target, [p.name for p in parameters]),
    )


def _old_names(target: Callable[..., Any], names: Collection[str]) -> Mapping[str, str]:
    """Its ``OLD_PARAMETERS``, new names by old names, for parameters that only have the new name."""
    old = inspect.getattr_static(target, OLD_PARAMETERS, {})
    if not isinstance(old, Mapping) or not all(isinstance(x, str) for y in old.items() for x in y):
        raise InvalidSpec(
            f"{OLD_PARAMETERS} must map old names of parameters to their names, not {short_repr(old)}"
        )
    return {old: name for old, name in old.items() if name in names and old not in names}


def _parameter(declared: inspect.Parameter, target: Callable[..., Any]) -> Parameter:
    written = declared.annotation
    if written is REQUIRED:
        return Parameter(declared.name, Any, "", declared.default)
    text = written if isinstance(written, str) else describe(written)
    return Parameter(declared.name, _type_of(declared, target), text, declared.default)


def _type_of(declared: inspect.Parameter, target: Callable[..., Any]) -> Any:
    """The type that a hint stands for in the module where it is written."""
    name, written = declared.name, declared.annotation
    names = _written_in(target, name)
    try:
        # With locals of its own: typing remembers what the same text meant in another module.
        holder = SimpleNamespace(__annotations__={name: written})
        return typing.get_type_hints(holder, globalns=names, localns={})[name]
    except Exception as error:  # evaluating a hint can raise anything
        module = names.get("__name__", "its module")
        missing = getattr(error, "name", None)
        right = (
            f"import {missing} at the top of {module}, not only for type checkers"
            if isinstance(error, NameError) and missing
            else f"write it so that it means a type in {module}"
        )
        raise InvalidSpec(
            f"the hint of {name}, {short_repr(written)}, cannot be resolved ({one_line(error)}): {right}"
        ) from error


def _written_in(target: Callable[..., Any], parameter: str) -> dict[str, Any]:
    """The globals of the module in which the hint of a parameter is written."""
    if isinstance(target, type):
        # The fields of a dataclass may be those of a base in another module.
        for base in target.__mro__:
            if "__dataclass_fields__" in vars(base) and parameter in inspect.get_annotations(base):
                return vars(sys.modules[base.__module__])
        made_by = inspect.getattr_static(target, "__init__")
        target = target.__new__ if made_by is object.__init__ else made_by
    return getattr(inspect.unwrap(target), "__globals__", {})


def fill(
    schema: Schema, given: Mapping[str, Any], reader: ChoiceReader, label: str, where: str = ""
) -> dict[str, Any]:
    """Every parameter with its value, checked; parameters that are not given have their defaults.

    Messages begin with ``where``, the place in a config, and ``label``, the component's name.

    Raises:
        InvalidParameter: For an unknown name, a missing value, or a value of the wrong type.
    """
    prefix = f"{where}: {label}" if where else label
    given = schema.renamed(given, prefix)
    names = [parameter.name for parameter in schema.parameters]
    supplied = [parameter.name for parameter in schema.supplied]
    for name in given:
        if name in supplied:
            raise InvalidParameter(f"{prefix}: {name!r} is supplied when it is built, not chosen")
        if name not in names:
            near = did_you_mean(name, names, "It takes")
            raise InvalidParameter(f"{prefix} has no parameter {name!r}.{near}")
    missing = [p.name for p in schema.parameters if p.required and p.name not in given]
    if missing:
        raise InvalidParameter(f"{prefix} needs {', '.join(map(repr, missing))}")
    values = {}
    for parameter in schema.parameters:
        value = given.get(parameter.name, parameter.default)
        place = f"{where}.{parameter.name}" if where else parameter.name
        try:
            values[parameter.name] = accept(value, parameter.hint, reader, place)
        except Mismatch:
            if not _is_default(value, parameter):
                wanted = describe(parameter.hint, reader)
                raise InvalidParameter(
                    f"{prefix}: {parameter.name} must be {wanted}, not {short_repr(value)}"
                ) from None
            values[parameter.name] = value
    return values


def _is_default(value: Any, parameter: Parameter) -> bool:
    """Equal to the default: accepted even against the hint, as in `scale: float = None`."""
    default = parameter.default
    same = type(value) is type(default) and isinstance(value, str | int | float)
    return value is default or (same and bool(value == default))
