"""Projects, kinds, component specifications and the rules for names: plain data."""

from __future__ import annotations

import importlib
import inspect
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from .errors import InvalidSpec, errors_as_failure
from .quoting import short_repr

LOCAL = "local"
"""The plugin name of components that are defined in the running session."""

_Hook = TypeVar("_Hook", bound=Callable[..., Any])

REJECTING = "may_reject"
"""The mark of hook specifications whose implementations reject by raising."""


def may_reject(specification: _Hook) -> _Hook:
    """Mark a hook specification: an implementation's error is raised, with the name of its plugin.

    For other hooks, an implementation's error is recorded, and its result is left out.
    """
    setattr(specification, REJECTING, True)
    return specification


def fold(name: str) -> str:
    """A component name for look-up: lower case, dashes as underscores."""
    return name.strip().lower().replace("-", "_")


def normalize(distribution: str) -> str:
    """A distribution name, normalized like in packaging tools."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()


def with_article(noun: str) -> str:
    """``"a kernel"``, ``"an objective"``."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def import_target(target: str) -> Any:
    """Import ``"module:Class"`` and return the class."""
    module, path = target.split(":")
    return operator.attrgetter(path)(importlib.import_module(module))


@dataclass(frozen=True)
class Kind:
    """A kind of component.

    Args:
        name: Its name in entry-point groups, configs and code.
        doc: One sentence.
        protocol: ``"module:Class"`` of the protocol that its components satisfy; a parameter with
            this type hint takes a component.
        supplied: Constructor parameters that the pipeline supplies, outside schema and record.
        check: ``"module:function"`` that takes the kind's name and a built component, and returns
            the faults of its optional members, a phrase each that begins with the member's name.
    """

    name: str
    doc: str
    protocol: str
    supplied: tuple[str, ...] = ()
    check: str = ""

    def members(self) -> list[str]:
        """The members that its protocol declares; this imports the protocol."""
        protocol = import_target(self.protocol)
        declared = {n for n in vars(protocol) if not n.startswith("_")}
        declared |= {n for n in ("__call__", "__len__") if n in vars(protocol)}
        return sorted(declared | {*inspect.get_annotations(protocol)})

    def missing_members(self, built: object) -> list[str]:
        """The members of the protocol that an object lacks."""
        # Looked up in the classes first: reading a property could open a file.
        classes = type(built).__mro__
        missing = [name for name in self.members() if not any(name in vars(c) for c in classes)]
        return [name for name in missing if not hasattr(built, name)]

    def to_declare(self, names: Iterable[str]) -> str:
        """The way to declare the protocol's members that are True or False, for a message; or ""."""
        lines = []
        for name in names:
            member = getattr(vars(import_target(self.protocol)).get(name), "fget", None)
            if getattr(member, "__annotations__", {}).get("return") in (bool, "bool"):
                why = (inspect.getdoc(member) or "").rstrip(".")
                lines.append(f"{name} = True or {name} = False ({why[:1].lower()}{why[1:]})")
        return f": declare {' and '.join(lines)}" if lines else ""

    def wrong_members(self, built: object) -> list[str]:
        """The faults of the optional members of an object, found by ``check``."""
        wrong: list[str] = import_target(self.check)(self.name, built) if self.check else []
        return wrong


@dataclass(frozen=True)
class Project:
    """A project with plugins.

    Args:
        name: Name of its hook markers, and prefix of its entry-point groups, ``<name>.<kind>`` and
            ``<name>.hooks``.
        prefix: Prefix of its hooks, such as ``<prefix>_components``, and in upper case of its environment
            variables, ``<PREFIX>_DISABLE`` and ``<PREFIX>_STRICT``.
        kinds: Its kinds of component.
        hooks: A class or module with its hook specifications, ``<prefix>_components`` among them.
        host: The normalized name of the distribution whose components win over others of their name.
    """

    name: str
    prefix: str
    kinds: tuple[Kind, ...]
    hooks: type | ModuleType
    host: str


@dataclass(frozen=True)
class ComponentSpec:
    """An available component.

    Args:
        kind: Name of its kind.
        name: ``[a-z][a-z0-9_]*``.
        target: ``"module:Class"``, imported by `load`.
        plugin: The distribution that offers it; filled in by discovery.
        version: The version of that distribution; filled in by discovery.
        old_names: Old names under which it is still found; filled in by discovery.

    Raises:
        InvalidSpec: If the name or the target does not have that form.
    """

    kind: str
    name: str
    target: str
    plugin: str = ""
    version: str = ""
    old_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.name, *self.old_names):
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                wanted = re.sub(r"\W+", "_", fold(name)).strip("_")
                raise InvalidSpec(
                    f"{self.kind} name {short_repr(name)} is not valid: it must be lower-case letters,"
                    f" digits and underscores, starting with a letter, as in {wanted!r}"
                )
        if not re.fullmatch(r"[\w.]+:[\w.]+", self.target):
            raise InvalidSpec(
                f"{self.kind} {self.name!r} points to {short_repr(self.target)}; it must be 'module:Class'"
            )

    @property
    def id(self) -> str:
        """``"plugin/name"``."""
        return f"{self.plugin}/{self.name}"

    @property
    def use(self) -> str:
        """``"kind:plugin/name"``, as in records."""
        return f"{self.kind}:{self.id}"

    @property
    def label(self) -> str:
        """``"kind plugin/name version"``, with which messages about it begin."""
        return f"{self.kind} {self.id} {self.version}".rstrip()

    def load(self) -> Any:
        """Import the target.

        Raises:
            PluginFailed: If that fails; the cause is chained.
        """
        # A module may call the registry while it is imported, so errors of that do not pass.
        with errors_as_failure(
            f"{self.label}: cannot import {self.target}", passing=(), plugin=self.plugin
        ):
            return import_target(self.target)


@dataclass(frozen=True)
class LocalSpec(ComponentSpec):
    """A class or object of the running session, held in place of a target to import."""

    value: Any = None

    @classmethod
    def of(cls, kind: str, value: Any) -> LocalSpec:
        """The specification of a class or object, named after the class or function."""
        named = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
        name = re.sub(r"[^a-z0-9_]", "", fold(named.__name__)).strip("_") or "object"
        return cls(kind, name, f"{named.__module__}:{named.__qualname__}", LOCAL, value=value)

    def __post_init__(self) -> None:
        """Check nothing: `of` makes the name, and the target is never imported."""

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
