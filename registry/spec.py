"""Kinds, component specifications and the rules for names: plain data, nothing imported."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .errors import InvalidSpec, PluginFailed, RegistryError
from .watching import Watch

LOCAL = "local"
"""The plugin name of what was defined in the running session."""


def fold(name: str) -> str:
    """A component name as it is looked up: lower case, dashes as underscores."""
    return name.strip().lower().replace("-", "_")


def normalize(distribution: str) -> str:
    """A distribution name as packaging tools compare it."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``" Did you mean 'x'?"`` for the nearest known word; empty where none is near."""
    from difflib import get_close_matches  # only an error needs it

    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def with_article(noun: str) -> str:
    """``"a kernel"``, ``"an objective"``."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def kind_of_group(group: str, prefix: str, kinds: Iterable[str]) -> str:
    """The kind in an entry-point group's name, ``<prefix>.<kind>``.

    Raises:
        InvalidSpec: If there is no such kind; the message lists the groups that are valid.
    """
    groups = {f"{prefix}.{kind}": kind for kind in kinds}
    if group not in groups:
        valid = [*groups, f"{prefix}.hooks"]
        near = did_you_mean(group, valid)
        raise InvalidSpec(f"unknown entry-point group {group!r}.{near} Valid: {', '.join(valid)}")
    return groups[group]


def spoken(error: BaseException) -> str:
    """An error in one line: the message of ours, type and message of others'."""
    return str(error) if isinstance(error, RegistryError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Kind:
    """A kind of component.

    Args:
        name: What it is called in groups, configs and code.
        doc: One sentence.
        protocol: ``"module:Class"`` of the protocol; a parameter hinted with it takes a component.
        supplied: Constructor parameters that the pipeline supplies, outside schema and record.
    """

    name: str
    doc: str
    protocol: str
    supplied: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComponentSpec:
    """One component on offer.

    Args:
        kind: Name of its kind.
        name: ``[a-z][a-z0-9_]*``.
        target: ``"module:Class"``, imported by `load`.
        plugin: The distribution that offers it; filled in by discovery.
        version: The version of that distribution; filled in by discovery.

    Raises:
        InvalidSpec: If the name or the target is not of that form.
    """

    kind: str
    name: str
    target: str
    plugin: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            wanted = re.sub(r"\W+", "_", fold(self.name)).strip("_")
            raise InvalidSpec(
                f"{self.kind} name {self.name!r} is not valid: it must be lower-case letters, "
                f"digits and underscores, starting with a letter, as in {wanted!r}"
            )
        if not re.fullmatch(r"[\w.]+:[\w.]+", self.target):
            raise InvalidSpec(
                f"{self.kind} {self.name!r} points to {self.target!r}; it must be 'module:Class'"
            )

    @property
    def id(self) -> str:
        """``"plugin/name"``."""
        return f"{self.plugin}/{self.name}"

    @property
    def use(self) -> str:
        """``"kind:plugin/name"``, as records have it."""
        return f"{self.kind}:{self.id}"

    def load(self) -> Any:
        """Import the target.

        Raises:
            PluginFailed: If that fails; the cause is chained.
        """
        module, _, path = self.target.partition(":")
        try:
            with Watch().watching():
                target: Any = importlib.import_module(module)
            for part in path.split("."):
                target = getattr(target, part)
        except (Exception, SystemExit) as error:
            raise PluginFailed(
                f"{self.kind} {self.id} {self.version}: cannot import {self.target} "
                f"({spoken(error)})"
            ) from error
        return target


@dataclass(frozen=True, eq=False)
class LocalSpec(ComponentSpec):
    """A class or object of the running session; it holds what others import."""

    value: Any = None

    def __post_init__(self) -> None:
        """Nothing to check: its name is made here, and its target is never imported."""

    # Two objects of one class are two components.
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LocalSpec) and self.value is other.value and self.kind == other.kind
        )

    def __hash__(self) -> int:
        return hash((self.kind, id(self.value)))

    def load(self) -> Any:
        """The class or object itself."""
        return self.value
