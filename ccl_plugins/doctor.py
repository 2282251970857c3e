"""What is installed and how it fares: the answer of ``ccl doctor``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import metadata

from ccl_plugins._engine import engine
from ccl_plugins.display import Table

LIBRARIES = ("torch", "torchvision", "lightly", "pytorch-lightning", "timm", "pluggy")


@dataclass(frozen=True)
class Report:
    """A report; it prints as text."""

    plugins: tuple[engine.Plugin, ...]
    failures: tuple[engine.Failure, ...]
    libraries: dict[str, str]

    @property
    def healthy(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    def json(self) -> str:
        """The report as a JSON object."""
        import json

        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        plugins = [{k: v for k, v in asdict(p).items() if k != "reason"} for p in self.plugins]
        libraries = [{"library": k, "version": v} for k, v in self.libraries.items()]
        parts = [str(Table(plugins)), str(Table(libraries))]
        for failure in self.failures:
            heading = f"{failure.plugin} {failure.version} failed: {failure.reason}"
            parts.append(f"{heading}\n\n{failure.traceback.rstrip()}")
        return "\n\n".join(parts)


def examine(registry: engine.Registry, *, load: bool = False) -> Report:
    """Look at every plug-in; library versions are read from metadata, importing nothing.

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
    return Report(registry.plugins, tuple(failures), {name: _version(name) for name in LIBRARIES})


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
