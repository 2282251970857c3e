"""``ccl doctor``: the plug-ins, their failures, and the versions of libraries."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import ccl_registry as engine
from ccl_plugins.commands.base import add_json, show
from ccl_plugins.commands.list import rivals
from ccl_plugins.commands.tables import TextTable
from ccl_plugins.files.requirements import unmet, version_of
from ccl_plugins.kinds import HEAVY, registry

LIBRARIES = ("torch", "torchvision", "lightly", "pytorch-lightning", "timm", "pluggy")
SLOW = 0.2
"""Seconds; a hooks module that takes longer to import is reported."""


class Doctor:
    """Show plug-ins, what failed and why, and library versions; exit with 1 if something failed."""

    example = "ccl doctor --load"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--load", action="store_true", help="import every component too")
        add_json(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        return 0 if show(arguments, lambda: examine(registry(), load=arguments.load)).healthy else 1


TOLD = ["name", "version", "state", "reason", "seconds", "printed", "modules", "changes", "copies"]
"""The facts shown for each plug-in."""


@dataclass(frozen=True)
class Note:
    """A problem or a remark about a plug-in."""

    plugin: str
    text: str

    def __str__(self) -> str:
        return engine.escaped(f"{self.plugin}: {self.text}", 2000)


@dataclass(frozen=True)
class Report:
    """A report; it prints as text.

    Args:
        plugins: Every plug-in with its state.
        failures: Failed imports, with tracebacks.
        problems: Missing modules and unmet requirements, found without importing.
        remarks: Notes on harmless findings.
        libraries: The versions of libraries.
    """

    plugins: tuple[engine.Plugin, ...]
    failures: tuple[engine.Failure, ...]
    problems: tuple[Note, ...]
    remarks: tuple[Note, ...]
    libraries: dict[str, str]

    @property
    def healthy(self) -> bool:
        """Whether everything works."""
        return not self.failures and not self.problems

    def json(self) -> str:
        """The report as a JSON object."""
        plugins = [{key: getattr(plugin, key) for key in TOLD} for plugin in self.plugins]
        return json.dumps({"healthy": self.healthy, **asdict(self), "plugins": plugins}, indent=2)

    def __str__(self) -> str:
        plugins = [{"plugin": p.name, "version": p.version, "state": p.state} for p in self.plugins]
        libraries = [{"library": k, "version": v} for k, v in self.libraries.items()]
        parts = [str(TextTable(plugins)), str(TextTable(libraries))]
        for failure in self.failures:
            heading = f"{failure.plugin} {failure.version} failed: {failure.reason}"
            parts.append(f"{engine.escaped(heading, 2000)}\n\n{failure.traceback.rstrip()}")
        for heading, findings in (("problems", self.problems), ("remarks", self.remarks)):
            if findings:
                parts.append("\n".join([f"{heading}:", *(f"  {finding}" for finding in findings)]))
        return "\n\n".join(parts)


def examine(registry: engine.Registry, *, load: bool = False) -> Report:
    """Examine every plug-in; versions and requirements are read from metadata without importing.

    Args:
        registry: The registry.
        load: Import every component too.
    """
    failures = [*registry.failures]
    for spec in registry.specs() if load else ():
        try:
            registry.schema(spec)
        except engine.RegistryError as error:
            failures.append(engine.Failure.of(spec.plugin, spec.version, error))
    return Report(
        registry.plugins,
        tuple(failures),
        (*_incomplete(registry), *_unmet(registry)),
        (*_names(registry), *_side_effects(registry)),
        {name: engine.escaped(version_of(name)) or "not installed" for name in LIBRARIES},
    )


def _incomplete(registry: engine.Registry) -> Iterator[Note]:
    """Components whose module is missing, and metadata that belongs to no plug-in."""
    sources = engine.Sources()
    for spec in registry.specs():
        missing = "" if spec.plugin == engine.LOCAL else sources.missing_module(spec.target)
        if missing:
            again = engine.pip_install(spec.plugin, options="--force-reinstall")
            yield Note(spec.plugin, f"{spec.kind} {spec.name} is offered, but {missing}: {again}")
    for remnant in registry.remnants:
        name = remnant.name or "a plug-in without a name"
        yield Note(name, f"{remnant.reason}: remove or reinstall {remnant.folder}")


def _unmet(registry: engine.Registry) -> Iterator[Note]:
    """Unmet requirements of plug-ins and libraries."""
    enabled = {plugin.name for plugin in registry.plugins if plugin.state != "disabled"}
    for name in sorted({*enabled, *LIBRARIES}):
        yield from (Note(name, f"it {text}") for text in unmet(name))


def _names(registry: engine.Registry) -> Iterator[Note]:
    """Components that need a qualified name."""
    for spec in registry.specs():
        others = rivals(registry, spec)
        if others:
            who = "a built-in" if registry.host in others else f"offered by {', '.join(others)} too"
            yield Note(spec.plugin, f"{spec.kind} {spec.name} is {who}: say {spec.id}")


def troubles(registry: engine.Registry) -> Iterator[Note]:
    """Failures of plug-ins, and side effects of importing their hooks."""
    for failure in registry.failures:
        yield Note(failure.plugin, f"failed: {failure.reason}")
    yield from _side_effects(registry)


def _side_effects(registry: engine.Registry) -> Iterator[Note]:
    """Duplicate plug-ins, and side effects of importing their hooks."""
    for plugin in registry.plugins:
        name, copies = plugin.name, ", ".join(plugin.copies)
        if copies:
            yield Note(name, f"installed more than once, and the first is used: {copies}")
        if plugin.seconds > SLOW:
            seconds = f"{plugin.seconds:.1f} s"
            yield Note(name, f"its hooks took {seconds}, and every command waits for them")
        if heavy := ", ".join(sorted({*HEAVY} & {*plugin.modules})):
            advice = "import it in the hook that needs it"
            yield Note(name, f"its hooks module imports {heavy} at its top: {advice}")
        if plugin.changes:
            yield Note(name, f"reading its hooks changed {', '.join(plugin.changes)}")
        if printed := plugin.printed.strip():
            yield Note(name, f"its hooks module prints when imported: {printed!r}")
