"""What is installed and how it fares: the answer of ``ccl doctor``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata

from ccl_plugins._engine import engine
from ccl_plugins.cli.describe import rivals
from ccl_plugins.cli.tables import Table
from ccl_plugins.kinds import HEAVY

LIBRARIES = ("torch", "torchvision", "lightly", "pytorch-lightning", "timm", "pluggy")
SLOW = 0.2
"""Seconds; a hooks module that takes longer is named."""


@dataclass(frozen=True)
class Finding:
    """Something to know about a plug-in."""

    plugin: str
    text: str

    def __str__(self) -> str:
        return f"{self.plugin}: {self.text}"


@dataclass(frozen=True)
class Report:
    """A report; it prints as text.

    Args:
        plugins: Every plug-in with its state.
        failures: What could not be imported, with tracebacks.
        problems: What will not work though nothing of it was imported.
        remarks: What works, and should be known.
        libraries: Versions.
    """

    plugins: tuple[engine.Plugin, ...]
    failures: tuple[engine.Failure, ...]
    problems: tuple[Finding, ...]
    remarks: tuple[Finding, ...]
    libraries: dict[str, str]

    @property
    def healthy(self) -> bool:
        """Whether everything works."""
        return not self.failures and not self.problems

    def json(self) -> str:
        """The report as a JSON object."""
        import json

        return json.dumps({"healthy": self.healthy, **asdict(self)}, indent=2)

    def __str__(self) -> str:
        plugins = [{"plugin": p.name, "version": p.version, "state": p.state} for p in self.plugins]
        libraries = [{"library": k, "version": v} for k, v in self.libraries.items()]
        parts = [str(Table(plugins)), str(Table(libraries))]
        for failure in self.failures:
            heading = f"{failure.plugin} {failure.version} failed: {failure.reason}"
            parts.append(f"{heading}\n\n{failure.traceback.rstrip()}")
        for heading, findings in (("problems", self.problems), ("remarks", self.remarks)):
            if findings:
                parts.append("\n".join([f"{heading}:", *(f"  {found}" for found in findings)]))
        return "\n\n".join(parts)


def examine(registry: engine.Registry, *, load: bool = False) -> Report:
    """Look at every plug-in; versions and requirements are read from metadata, importing nothing.

    Args:
        registry: The registry.
        load: Import every component too.
    """
    failures = [*registry.failures]
    for spec in registry.specs() if load else ():
        try:
            with contextlib.redirect_stdout(sys.stderr):  # the output may be JSON
                registry.schema(spec)
        except engine.RegistryError as error:
            failures.append(engine.Failure.of(spec.plugin, spec.version, error))
    return Report(
        registry.plugins,
        tuple(failures),
        (*_gone(registry), *_unmet(registry)),
        (*_names(registry), *_manners(registry)),
        {name: _version(name) or "not installed" for name in LIBRARIES},
    )


def _gone(registry: engine.Registry) -> Iterator[Finding]:
    """Components whose module is not there, and what is left of plug-ins."""
    for spec in registry.specs():
        module = "" if spec.plugin == engine.LOCAL else engine.missing_module(spec.target)
        if module:
            text = (
                f"{spec.kind} {spec.name} is offered from the module {module}, which is not there"
            )
            yield Finding(spec.plugin, f"{text}: pip install --force-reinstall {spec.plugin}")
    for leftover in registry.leftovers:
        name, _, place = leftover.partition(" in ")
        yield Finding(name, f"half of it was left by an uninstall: remove it from {place}")


def _unmet(registry: engine.Registry) -> Iterator[Finding]:
    """Requirements of plug-ins, and of the libraries among each other, that do not hold."""
    from packaging.requirements import InvalidRequirement, Requirement

    there = {plugin.name for plugin in registry.plugins if plugin.state != "disabled"}
    for name in sorted({*there, *LIBRARIES}):
        for line in (metadata.requires(name) or ()) if _version(name) else ():
            try:
                wanted = Requirement(line)
            except InvalidRequirement:
                yield Finding(name, f"it needs {line!r}, which is no requirement")
                continue
            if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
                continue
            version = _version(wanted.name)
            if not version:
                yield Finding(name, f"it needs {wanted}, which is not installed")
            elif not wanted.specifier.contains(version, prereleases=True):
                yield Finding(
                    name, f"it needs {wanted.name}{wanted.specifier}, and {version} is installed"
                )


def _names(registry: engine.Registry) -> Iterator[Finding]:
    """Components that their bare name does not find."""
    for spec in registry.specs():
        others = rivals(registry, spec)
        if others:
            who = "a built-in" if registry.host in others else f"offered by {', '.join(others)} too"
            yield Finding(spec.plugin, f"{spec.kind} {spec.name} is {who}: say {spec.id}")


def _manners(registry: engine.Registry) -> Iterator[Finding]:
    """What importing the hooks of a plug-in did beside offering them."""
    for plugin in registry.plugins:
        if plugin.copies:
            yield Finding(
                plugin.name,
                f"installed more than once, the first counts: {', '.join(plugin.copies)}",
            )
        if plugin.seconds > SLOW:
            yield Finding(
                plugin.name, f"its hooks took {plugin.seconds:.1f} s, for which all commands wait"
            )
        heavy = sorted({*HEAVY} & {*plugin.modules})
        if heavy:
            yield Finding(
                plugin.name,
                f"its hooks module imports {', '.join(heavy)} at its top; a hook imports what it"
                " needs when it is called",
            )
        if plugin.printed:
            yield Finding(plugin.name, f"its hooks module prints when imported: {plugin.printed!r}")


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution) or ""
    except (metadata.PackageNotFoundError, KeyError):  # or installed by half, without metadata
        return ""
