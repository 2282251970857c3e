"""Conditions that give several variables in one pass, each read by a name of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.protocols import (
    VALUE_TYPES,
    Embed,
    Embedded,
    ReadsEmbeddings,
    Refresh,
    Table,
    ValueType,
    trait,
)
from ccl_plugins.protocols.traits import DEFAULTS


def _of_variable(name: str) -> Any:
    """A trait that a condition declares as one value for all its variables, or a mapping of their names."""

    def read(variable: Variable) -> Any:
        declared = trait(variable.source, name)
        if isinstance(declared, Mapping):
            return declared.get(variable.key, DEFAULTS[name])
        return declared

    return property(read)


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable of a condition whose ``value_type`` is a mapping; itself a condition.

    Args:
        source: The condition.
        key: The variable's name in it.
        place: The condition's name in the pipeline.

    It has the condition's traits, of which those that may differ from variable to variable are its own.
    """

    source: Any
    key: str
    place: str

    column = _of_variable("column")
    hierarchy = _of_variable("hierarchy")
    missing = _of_variable("missing")
    within_batch = _of_variable("within_batch")

    @property
    def refresh(self) -> Refresh:
        """The condition's."""
        refresh: Refresh = self.source.refresh
        return refresh

    @property
    def value_type(self) -> ValueType:
        """The variable's."""
        value_type: ValueType = self.source.value_type[self.key]
        return value_type

    @property
    def reads_embeddings(self) -> ReadsEmbeddings:
        """Whether the condition's ``fit`` calls ``embed()``, and what that gives."""
        reads: ReadsEmbeddings = trait(self.source, "reads_embeddings")
        return reads

    def fit(self, split: Any, embed: Embed, previous: Table | None) -> Tensor | Table:
        """This variable alone; the engine fits all variables of a condition at once."""
        before = None if previous is None else {self.key: previous}
        return by_name([self], self.source.fit(split, embed, before))[self.key]

    def __call__(self, embedded: Embedded) -> Tensor:
        """This variable alone of a condition with refresh ``"batch"``."""
        return by_name([self], self.source(embedded))[self.key]


def variables(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions by the names under which they are read.

    A condition ``clip`` that gives the variables ``scene`` and ``people`` is read as ``clip/scene`` and
    ``clip/people``; all others keep their names.

    Raises:
        ValueError: For a ``value_type`` that is neither a value type nor a mapping of names to these, and
            for two variables of one name.
    """
    named: dict[str, Any] = {}
    for name, condition in conditions.items():
        given = condition.value_type
        if not isinstance(given, Mapping):
            one_of(f"the value_type of condition {name!r}", given, VALUE_TYPES)
            parts = {name: condition}
        elif not given or not all(isinstance(key, str) and key for key in given):
            raise ValueError(
                f"the value_type of condition {name!r} must be a value type, or value types by the names"
                f" of its variables, not {given!r}"
            )
        else:
            for key, each in given.items():
                one_of(f"the value_type of {key!r} in condition {name!r}", each, VALUE_TYPES)
            parts = {f"{name}/{key}": Variable(condition, key, name) for key in given}
        if twice := named.keys() & parts.keys():
            raise ValueError(f"two conditions are called {min(twice)!r}: rename one")
        named |= parts
    return named


def together(conditions: Mapping[str, Any]) -> list[list[str]]:
    """Their names, in lists of those that one pass computes."""
    groups: dict[str, list[str]] = {}
    for name, condition in conditions.items():
        groups.setdefault(place_of(name, condition), []).append(name)
    return list(groups.values())


def place_of(name: str, condition: Any) -> str:
    """The name of the condition that a variable belongs to; of another condition, its own."""
    return condition.place if isinstance(condition, Variable) else name


def source_of(condition: Any) -> Any:
    """The condition that computes a variable; of another condition, itself."""
    return condition.source if isinstance(condition, Variable) else condition


def one_of_each(group: Sequence[Any], computed: Any) -> list[Any]:
    """What one pass computed for a group of `together`, one for each; of one condition, ``computed``.

    Raises:
        TypeError: See `by_name`.
        ValueError: See `by_name`.
    """
    single = not isinstance(group[0], Variable)
    return [computed] if single else [*by_name(group, computed).values()]


def by_name(wanted: Sequence[Variable], computed: Any) -> dict[str, Any]:
    """What a condition of several variables computed, by variable.

    Raises:
        TypeError: If it is no mapping.
        ValueError: For other names than those in ``value_type``.
    """
    source = wanted[0].source
    kind, declared = type(source).__name__, list(source.value_type)
    if not isinstance(computed, Mapping):
        raise TypeError(
            f"{kind} declares the variables {', '.join(map(repr, declared))} and must return a mapping of"
            f" these names, not {type(computed).__name__}"
        )
    if set(computed) != set(declared):
        raise ValueError(
            f"{kind} declares the variables {', '.join(map(repr, declared))} in value_type, and returned"
            f" {', '.join(map(repr, computed)) or 'none'}"
        )
    return {each.key: computed[each.key] for each in wanted}
