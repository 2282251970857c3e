"""``ccl info``: one component in full."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from ccl_plugins._engine import engine
from ccl_plugins.cli.commands import KIND_NAMES, Command, argument
from ccl_plugins.cli.docstrings import documentation
from ccl_plugins.kinds import protocol, registry


def _run(options: argparse.Namespace) -> int:
    """Show a component: parameters with defaults, documentation, file and plug-in."""
    print(describe(registry(), options.kind, options.name))
    return 0


COMMAND = Command(
    _run,
    "ccl info kernel rbf",
    argument("kind", metavar="KIND", help=f"one of: {KIND_NAMES}"),
    argument("name", metavar="NAME", help="its name, or PLUGIN/NAME"),
)


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

    def __str__(self) -> str:
        facts = [f"{self.kind} {self.name}   {self.plugin} {self.version}".rstrip(), self.file, ""]
        facts.append(self.signature)
        if self.supplied:
            facts.append(f"supplied by the pipeline: {', '.join(self.supplied)}")
        facts += [
            f"{name}: {value}{f', with {self.example}' if name in self.depends and self.example else ''}"
            for name, value in self.declares.items()
        ]
        if self.requires:
            facts.append(f"{self.plugin} requires: {', '.join(self.requires)}")
        return "\n".join([*facts, "", self.doc]).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape  # 10 ms that a terminal does not need

        return f"<pre>{escape(str(self))}</pre>"


def describe(registry: engine.Registry, kind: str, name: str) -> Description:
    """The description of a component; this imports it.

    Raises:
        RegistryError: If it is unknown, cannot be imported, or has unnamed parameters.
    """
    spec = registry.find(kind, name)
    schema = registry.schema(spec)
    target = spec.load()
    lines = [f"    {parameter}," for parameter in schema.parameters]
    named = target if hasattr(target, "__name__") else type(target)
    signature = "\n".join([f"{named.__name__}(", *lines, ")"]) if lines else f"{named.__name__}()"
    declares, depends = _declared(registry, spec, target)
    return Description(
        spec.kind,
        registry.short_name(spec),
        spec.plugin,
        spec.version,
        _place(named),
        signature,
        tuple(parameter.name for parameter in schema.supplied),
        declares,
        _required(registry, spec),
        documentation(target),
        ", ".join(f"{name}={value!r}" for name, value in _example(target).items()),
        depends,
    )


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


def _example(target: Any) -> Mapping[str, Any]:
    return getattr(target, "EXAMPLE", {})


def _declared(
    registry: engine.Registry, spec: engine.ComponentSpec, target: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The attributes of its kind's protocol with their values, and which of them depend on parameters.

    The latter, such as the conditions that an objective reads, are read from a built component.
    """
    wanted = protocol(spec.kind)
    names = [*inspect.get_annotations(wanted)]
    names += [n for n, v in vars(wanted).items() if isinstance(v, property)]
    found = {n: inspect.getattr_static(target, n, None) for n in names}
    depends = tuple(  # properties, and attributes that the constructor sets
        n for n, value in found.items() if isinstance(value, property) or not hasattr(target, n)
    )
    if depends:
        try:
            built = registry.create(spec.kind, spec.id, **_example(target))
            found |= {n: getattr(built, n, None) for n in depends}
        except (engine.RegistryError, OSError, TypeError, ValueError):
            pass  # it cannot be built from defaults, or reads a missing file
    plain = (bool, int, float, str, list, tuple, dict)
    return {n: value for n, value in found.items() if isinstance(value, plain)}, depends
