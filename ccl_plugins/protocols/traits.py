"""Traits: the optional members of a component.

The traits of a kind are a class next to its protocol, such as `ObjectiveTraits`, with the default
of each trait. A component need not inherit from it: it declares a trait as an attribute, a property
or a method of that name; None counts as not declared. `ccl info KIND` and the site list these
classes. When a pipeline builds a component, it checks the types of the traits that the class
declares or the constructor sets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Traits = TypeVar("Traits", bound=type)

TRAITS: dict[str, type] = {}
"""The class of each kind's traits."""

DEFAULTS: dict[str, Any] = {}
"""The default of each trait; a name has one default in all kinds."""


class absent_by_default:
    """An optional method, which is read as None if a component lacks it."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.__func__ = getattr(method, "__func__", method)

    def __get__(self, component: object, owner: type) -> Any:
        return None


def traits_of(kind: str) -> Callable[[Traits], Traits]:
    """A decorator of the class that has the traits of a kind."""

    def collect(traits: Traits) -> Traits:
        TRAITS[kind] = traits
        DEFAULTS.update({name: getattr(traits(), name) for name in names(traits)})
        return traits

    return collect


def names(traits: type) -> list[str]:
    """The traits in a class of these."""
    return [name for name in vars(traits) if not name.startswith("_")]


def usage(traits: type, name: str) -> str:
    """A trait's name; of a method, with its parameters."""
    member = vars(traits)[name]
    method = getattr(member, "__func__", member)
    if not isinstance(method, FunctionType):
        return name
    parameters = [each for each in inspect.signature(method).parameters if each != "self"]
    return f"{name}({', '.join(parameters)})"


def trait(component: Any, name: str) -> Any:
    """The value that a component declares, or the trait's default.

    ``trait(objective, "reads_queue")``, ``trait(objective, "after_step")()``.

    Args:
        component: A component; or its class, for traits that are read before it is built.
        name: The name of a trait in one of the classes in ``TRAITS``.
    """
    declared = getattr(component, name, None)
    return DEFAULTS[name] if declared is None else declared


def wrong_traits(kind: str, component: object) -> list[str]:
    """A line for each trait of a built component that has a wrong type."""
    if kind not in TRAITS:
        return []
    traits, wrong = TRAITS[kind], []
    hints = get_type_hints(traits)
    for name in names(traits):
        # Found without running a property, which might open a file.
        value = inspect.getattr_static(component, name, None)
        is_method = isinstance(value, FunctionType | staticmethod | classmethod)
        if value is None or (hasattr(type(value), "__get__") and not is_method):
            continue
        if name not in hints:
            if not (is_method or callable(value)):
                wrong.append(f"{name} must be a method {usage(traits, name)}")
            continue
        several = kind == "condition" and isinstance(value, Mapping)
        for declared in value.values() if several else [value]:
            if not _fits(declared, hints[name]):
                *most, last = _words(hints[name])
                wanted = f"{', '.join(most)} or {last}" if most else last
                wrong.append(f"{name} must be {wanted}, not {declared!r:.80}")
                break
    return wrong


def _alternatives(hint: Any) -> list[Any]:
    """The types that a hint allows besides None, without parameters, and the values of literals."""
    if hint is NoneType:
        return []
    if hint is bool:
        return [True, False]
    origin = get_origin(hint)
    if origin is Literal:
        return [*get_args(hint)]
    if isinstance(origin, type) and origin.__module__ == "collections.abc":
        return [origin]
    return [hint] if origin is None else [x for each in get_args(hint) for x in _alternatives(each)]


def _fits(value: Any, hint: Any) -> bool:
    """Whether a declared value has the type of a trait's hint; the contents are not checked."""
    for wanted in _alternatives(hint):
        if wanted is float:
            fits = isinstance(value, float | int) and not isinstance(value, bool)
        elif isinstance(wanted, type):
            fits = isinstance(value, wanted) and (wanted is str or not isinstance(value, str))
        else:
            fits = type(value) is type(wanted) and value == wanted
        if fits:
            return True
    return False


def _words(hint: Any) -> list[str]:
    """The types that a trait may have, in words."""
    words = {str: "a string", Mapping: "a mapping", float: "a number"}
    return [
        words.get(each, "a list or a tuple") if isinstance(each, type) else repr(each)
        for each in _alternatives(hint)
    ]
