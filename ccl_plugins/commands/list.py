"""``ccl list``: the available components."""

from __future__ import annotations

import argparse

import ccl_registry as engine
from ccl_plugins.commands.base import KIND_NAMES, add_json, show
from ccl_plugins.commands.tables import TextTable
from ccl_plugins.kinds import registry


class List:
    """List the available components."""

    example = "ccl list kernel"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("kind", nargs="?", metavar="KIND", help=f"one of: {KIND_NAMES}")
        add_json(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        show(arguments, lambda: listing(registry(), arguments.kind))
        return 0


def listing(registry: engine.Registry, kind: str | None = None) -> TextTable:
    """The available components, with failed and disabled plug-ins below; no component is imported."""
    sources = engine.Sources()
    rows = [
        {
            "kind": spec.kind,
            "name": spec.name,
            "plugin": spec.plugin,
            "version": spec.version,
            "summary": registry.summary(spec, sources),
            "note": _note(registry, spec, sources),
        }
        for spec in registry.specs(kind)
    ]
    notes = []
    for plugin in registry.plugins:
        if plugin.state == "failed":
            reason = engine.escaped(plugin.reason, 500)
            notes.append(f"{plugin.name} {plugin.version} failed: {reason}  (ccl doctor)")
        elif plugin.state == "disabled":
            notes.append(f"{plugin.name} {plugin.version} is disabled")
    for remnant in registry.remnants:
        notes.append(f"{remnant.folder} is not a plug-in: {remnant.reason} (ccl doctor)")
    return TextTable(rows, notes)


def rivals(registry: engine.Registry, spec: engine.ComponentSpec) -> list[str]:
    """The other plug-ins with a component of this name, if the bare name is ambiguous."""
    if registry.short_name(spec) == spec.name:
        return []
    same = registry.named(spec.name, spec.kind)
    return [s.plugin for s in same if s.plugin != spec.plugin]


def _note(registry: engine.Registry, spec: engine.ComponentSpec, sources: engine.Sources) -> str:
    others = rivals(registry, spec)
    advice = f"say {spec.id}" if registry.host in others else f"ambiguous: say {spec.id}"
    missing = sources.missing_module(spec.target) if spec.plugin != engine.LOCAL else ""
    return "; ".join(filter(None, [advice if others else "", missing]))
