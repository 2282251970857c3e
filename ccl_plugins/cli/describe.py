"""What there is, and what one component is: the answers of ``list`` and ``info``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from ccl_plugins._engine import engine
from ccl_plugins.cli.docstrings import documentation
from ccl_plugins.cli.tables import Table
from ccl_plugins.kinds import protocol


def listing(registry: engine.Registry, kind: str | None = None) -> Table:
    """The components on offer, with plug-ins in trouble below; imports none of them."""
    rows = [
        {
            "kind": spec.kind,
            "name": spec.name,
            "plugin": spec.plugin,
            "version": spec.version,
            "summary": registry.summary(spec),
            "note": _note(registry, spec),
        }
        for spec in registry.specs(kind)
    ]
    notes = []
    for plugin in registry.plugins:
        if plugin.state == "failed":
            notes.append(f"{plugin.name} {plugin.version} failed: {plugin.reason}  (ccl doctor)")
        elif plugin.state == "disabled":
            notes.append(f"{plugin.name} {plugin.version} is disabled")
    return Table(rows, notes)


def rivals(registry: engine.Registry, spec: engine.ComponentSpec) -> list[str]:
    """The plug-ins whose component of that name keeps the bare name from meaning this one."""
    if registry.shown(spec) == spec.name:
        return []
    same = [s for s in registry.specs(spec.kind) if s.name == spec.name]
    return [s.plugin for s in same if s.plugin != spec.plugin]


def _note(registry: engine.Registry, spec: engine.ComponentSpec) -> str:
    others = rivals(registry, spec)
    say = f"say {spec.id}" if registry.host in others else f"ambiguous: say {spec.id}"
    gone = engine.missing(spec.target) if spec.plugin != engine.LOCAL else ""
    notes = [say if others else "", f"the module {gone} is not there" if gone else ""]
    return "; ".join(filter(None, notes))


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
    """The parameters that some of what is declared depends on, and is shown for."""
    depends: tuple[str, ...] = ()

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
        RegistryError: If it is not found, cannot be imported, or has unnamed parameters.
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
        registry.shown(spec),
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
    """What a stranger's plug-in requires, but for its extras; what we do is installed with us."""
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
    """What a class says of the attributes that its kind's protocol asks for.

    Some depend on parameters, as the conditions that an objective reads: those are a built one's, and
    are named beside.
    """
    asked = protocol(spec.kind)
    names = [*inspect.get_annotations(asked)]
    names += [n for n, v in vars(asked).items() if isinstance(v, property)]
    found = {n: inspect.getattr_static(target, n, None) for n in names}
    depends = tuple(n for n, value in found.items() if isinstance(value, property))
    if depends:
        try:
            built = registry.create(spec.kind, spec.id, **_example(target))
            found |= {n: getattr(built, n, None) for n in depends}
        except (engine.RegistryError, OSError, TypeError, ValueError):
            pass  # it cannot be built from defaults, or says so from a file that is not there
    plain = (bool, int, float, str, list, tuple, dict)
    return {n: value for n, value in found.items() if isinstance(value, plain)}, depends
