"""What is examined: a component with its example parameters, or a whole distribution."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from ccl_plugins._engine import engine
from ccl_plugins.kinds import FOLDERS, registry

Example: TypeAlias = Mapping[str, Any] | Callable[[Path], Mapping[str, Any]]
"""Parameters, or a function that makes files in an empty folder and gives the parameters."""


class Subject:
    """A component on offer, built with the parameters in its class attribute ``EXAMPLE``.

    Args:
        spec: The component.
        example: Parameters in place of ``EXAMPLE``.
        choice: The component with its parameters, where it was chosen already.
    """

    def __init__(
        self,
        spec: engine.ComponentSpec,
        example: Example | None = None,
        choice: engine.Choice | None = None,
    ) -> None:
        self.spec = spec
        self.example = example
        self._choice = choice

    def __str__(self) -> str:
        return f"{self.spec.kind}/{self.spec.name}"

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.spec.kind

    @cached_property
    def target(self) -> Any:
        """The class or function."""
        return self.spec.load()

    @cached_property
    def choice(self) -> engine.Choice:
        """The component with its parameters."""
        return self._choice or registry().choose(self.kind, self.spec.id, **self.params)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """What it is built with beside its defaults."""
        if self.example is None:
            return dict(getattr(self.target, "EXAMPLE", {}))
        return self.example(self._folder) if callable(self.example) else dict(self.example)

    @cached_property
    def _folder(self) -> Path:
        self._kept = tempfile.TemporaryDirectory(prefix="ccl-check-")  # as long as this object
        return Path(self._kept.name)

    def build(self, *, drawn: int = 0, **supplied: Any) -> Any:
        """A new object; what a pipeline supplies is the kit's.

        Args:
            drawn: The seed of what the constructor draws.
            **supplied: What is supplied in place of the kit's.
        """
        from ccl_plugins.testing.material import seeded, supplied_for

        with seeded(drawn):
            return self.choice.build({**supplied_for(self.choice), **supplied})

    def observe(self, built: Any) -> Any:
        """What an object of this component does, as data to compare."""
        from ccl_plugins.testing.material import seeded

        with seeded():
            return laws(self.kind).observe(self, built)


@dataclass(frozen=True)
class Distribution:
    """All that a distribution offers.

    Args:
        name: Its normalized name.
        specs: Its components.
    """

    name: str
    specs: tuple[engine.ComponentSpec, ...]

    def __str__(self) -> str:
        return "plugin"


def laws(kind: str) -> ModuleType:
    """The module of a kind's laws: its ``CHECKS``, and ``observe(subject, built)``."""
    import importlib

    return importlib.import_module(f"ccl_plugins.testing.{FOLDERS[kind]}")
