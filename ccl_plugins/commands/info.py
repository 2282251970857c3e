"""``ccl info``: one component in full, or the contract of a kind."""

from __future__ import annotations

import argparse
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import ccl_registry as engine
from ccl_plugins.commands.base import KIND_NAMES
from ccl_plugins.commands.contracts import contract
from ccl_plugins.commands.docstrings import documentation
from ccl_plugins.kinds import protocol, registry


class Info:
    """Show a component: parameters with defaults, documentation, file and plug-in; or a kind's contract."""

    example = "ccl info kernel rbf"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("kind", metavar="KIND", help=f"one of: {KIND_NAMES}")
        parser.add_argument(
            "name",
            metavar="NAME",
            nargs="?",
            help="its name, or PLUGIN/NAME; without a name, the traits and the laws of the kind",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        if arguments.name is None:
            print(contract(arguments.kind))
            return 0
        description = describe(registry(), arguments.kind, arguments.name)
        print(description)
        return 1 if description.failures else 0


@dataclass(frozen=True)
class Description:
    """A component in full; it prints as text."""

    kind: str
    name: str
    plugin: str
    version: str
    file: str
    signature: str
    supplied: tuple[str, ...]
    declares: dict[str, Any]
    requires: tuple[str, ...]
    doc: str
    example: str = ""
    """The parameters for which the attributes in `depends` are shown."""
    depends: tuple[str, ...] = ()
    """The declared attributes that depend on parameters."""
    old_names: tuple[str, ...] = ()
    """Further names of the component."""
    old_parameters: Mapping[str, str] = field(default_factory=dict)
    """The component's parameters by their old names."""
    failures: tuple[str, ...] = ()
    """The parts that could not be read."""

    def __str__(self) -> str:
        facts = [f"{self.kind} {self.name}   {self.plugin} {self.version}".rstrip(), self.file, ""]
        facts.append(self.signature)
        if self.supplied:
            facts.append(f"supplied by the pipeline: {', '.join(self.supplied)}")
        if self.old_names:
            facts.append(f"old names: {', '.join(self.old_names)}")
        facts += [f"{old}: old name of {name}" for old, name in self.old_parameters.items()]
        facts += [
            f"{name}: {value if isinstance(value, str) else engine.short_repr(value, 500)}"
            f"{f', with {self.example}' if name in self.depends and self.example else ''}"
            for name, value in self.declares.items()
        ]
        if self.requires:
            facts.append(f"{self.plugin} requires: {', '.join(self.requires)}")
        facts = [line for fact in facts for line in engine.escaped_lines(fact).split("\n")]
        facts += ["", engine.escaped_lines(self.doc)]
        if self.failures:
            facts += ["", *(engine.escaped(failure, 2000) for failure in self.failures)]
        return "\n".join(facts).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape  # 10 ms that a terminal does not need

        return f"<pre>{escape(str(self))}</pre>"


def describe(registry: engine.Registry, kind: str, name: str) -> Description:
    """The description of a component, which is imported.

    Raises:
        RegistryError: If it is unknown, cannot be imported, or has unnamed parameters.
    """
    spec = registry.find(kind, name)
    schema = registry.schema(spec)
    target = spec.load()
    failed: list[engine.PluginFailed] = []

    def read(what: str, function: Callable[[], Any], otherwise: Any) -> Any:
        """A component's own answer; ``otherwise``, with a note of the error, if it raises."""
        try:
            with engine.errors_as_failure(f"{spec.label}: its {what} cannot be read"):
                return function()
        except engine.PluginFailed as error:
            failed.append(error)
            return otherwise

    lines = [f"    {parameter}," for parameter in schema.parameters]
    title = _named(target).__name__
    signature = "\n".join([f"{title}(", *lines, ")"]) if lines else f"{title}()"
    example = read("EXAMPLE", lambda: _example(target), {})
    declares, depends = _declared(registry, spec, target, example, read)
    return Description(
        spec.kind,
        registry.short_name(spec),
        spec.plugin,
        spec.version,
        _place(_named(target)),
        signature,
        tuple(parameter.name for parameter in schema.supplied),
        declares,
        _required(registry, spec),
        documentation(target),
        ", ".join(f"{name}={engine.short_repr(value)}" for name, value in example.items()),
        depends,
        spec.old_names,
        schema.old_names,
        tuple(map(str, failed)),
    )


def _named(target: Any) -> Any:
    """The class or function, or the class of an object."""
    return target if hasattr(target, "__name__") else type(target)


def _required(registry: engine.Registry, spec: engine.ComponentSpec) -> tuple[str, ...]:
    """The requirements of another author's plug-in, without those of its extras."""
    if spec.plugin in (registry.host, engine.LOCAL):
        return ()
    lines = metadata.requires(spec.plugin) or ()
    return tuple(line for line in lines if not re.search(r";.*\bextra\b", line))


def _place(target: Any) -> str:
    try:
        file = inspect.getsourcefile(target) or ""
        return f"{file}:{inspect.getsourcelines(target)[1]}"
    except (OSError, TypeError):  # defined in a notebook, or not in Python
        return ""


def _example(target: Any) -> dict[str, Any]:
    """The parameters of an example; none of one that writes files first."""
    given = getattr(target, "EXAMPLE", {})
    return {} if callable(given) else dict(given)


def _declared(
    registry: engine.Registry,
    spec: engine.ComponentSpec,
    target: Any,
    example: Mapping[str, Any],
    read: Callable[[str, Callable[[], Any], Any], Any],
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The attributes of its kind's protocol with their values, and which of them depend on parameters.

    Attributes that depend on parameters, such as the conditions that an objective reads, are read
    from a built component. Traits with another value than the default follow those of the protocol.
    """
    wanted = protocol(spec.kind)
    names = [*inspect.get_annotations(wanted)]
    names += [n for n, v in vars(wanted).items() if isinstance(v, property)]
    defaults = _traits(spec.kind)
    names += [n for n in defaults if n not in names and hasattr(target, n)]
    values = {n: inspect.getattr_static(target, n, None) for n in names}
    depends = tuple(  # properties, and attributes that the constructor sets
        n for n, value in values.items() if isinstance(value, property) or not hasattr(target, n)
    )
    built = read("constructor", lambda: _built(registry, spec, example), None) if depends else None
    if built is not None:
        values |= {n: read(n, functools.partial(getattr, built, n, None), None) for n in depends}
    plain = (bool, int, float, str, list, tuple, dict)
    shown = {n: value for n, value in values.items() if isinstance(value, plain)}
    return {n: v for n, v in shown.items() if n not in defaults or v != defaults[n]}, depends


def _traits(kind: str) -> dict[str, Any]:
    """The traits of a kind that are attributes, with their defaults; this imports torch."""
    from ccl_plugins.protocols.traits import DEFAULTS, TRAITS

    return {n: DEFAULTS[n] for n in inspect.get_annotations(TRAITS.get(kind, object))}


def _built(
    registry: engine.Registry, spec: engine.ComponentSpec, example: Mapping[str, Any]
) -> Any:
    """The component with its example's parameters; None if these do not suffice."""
    try:
        return registry.create(spec.kind, spec.id, **example)
    except (engine.PluginFailed, engine.InvalidSpec):
        raise
    except (OSError, TypeError, ValueError):
        return None  # it cannot be built from defaults, or reads a missing file
