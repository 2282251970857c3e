"""What a check examines: one component built with example parameters, or a whole distribution."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import ccl_registry as engine
from ccl_plugins.kinds import FOLDERS, registry

Example: TypeAlias = Mapping[str, Any] | Callable[[Path], Mapping[str, Any]]
"""Parameters, or a function that writes files into an empty folder and returns the parameters."""

Variants: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By variant, parameters beside those of an example, and perhaps an ``EXAMPLE_CONDITION``."""

CONDITION = "EXAMPLE_CONDITION"
"""The class attribute, and the entry of a variant, that has condition values."""


@dataclass(eq=False)
class Subject:
    """A component, built with the parameters in its class attribute ``EXAMPLE``.

    The ``EXAMPLE`` of a class that reads files is a static method: it writes them into the empty folder
    that it gets, and returns the parameters.

    Args:
        spec: The component.
        example: Parameters in place of ``EXAMPLE``.
        chosen: The component with its parameters, in place of either.
        variant: The name of a variant; "": none.
        variant_params: The variant's parameters, beside those of the example or in their place.
        condition_values: The variant's condition values, in place of those of the class.
    """

    spec: engine.ComponentSpec
    example: Example | None = None
    chosen: engine.Choice | None = None
    variant: str = ""
    variant_params: Mapping[str, Any] = field(default_factory=dict)
    condition_values: Any = None
    causes: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    """The first law that each cause broke."""

    def __str__(self) -> str:
        return f"{self.kind}/{self.spec.name}" + (f", {self.variant}" if self.variant else "")

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.spec.kind

    @cached_property
    def target(self) -> Any:
        """The class or function."""
        return self.spec.load()

    @cached_property
    def expected_failures(self) -> Mapping[str, str]:
        """Reasons by law, from the class attribute ``EXPECTED_FAILURES``; none if it cannot be imported."""
        try:
            return dict(getattr(self.target, "EXPECTED_FAILURES", {}))
        except engine.RegistryError:
            return {}

    @cached_property
    def choice(self) -> engine.Choice:
        """The component with its parameters."""
        return self.chosen or registry().choose(self.kind, self.spec.id, **self.params)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters of example and variant; the others keep their defaults."""
        example = self.example
        if example is None:
            example = getattr(self.target, "EXAMPLE", {})
        if callable(example):
            # Deleted with this object.
            self._folder = tempfile.TemporaryDirectory(prefix="ccl-check-")
            example = example(Path(self._folder.name))
        return {**example, **self.variant_params}

    @property
    def files(self) -> list[Path]:
        """The files that the example wrote, which a law may change and put back."""
        folder = getattr(self, "_folder", None) if self.choice.params else None
        found = Path(folder.name).rglob("*") if folder else ()
        return sorted(path for path in found if path.is_file())

    def chosen_as(self, choice: engine.Choice) -> Subject:
        """The component with other parameters and the same condition values; processes can be sent it."""
        return Subject(self.spec, chosen=choice, condition_values=self.condition_values)

    def with_files(self) -> Subject:
        """The component with its example's files written anew, into a folder that is deleted with it."""
        return Subject(self.spec, example=self.example, variant_params=self.variant_params)

    def with_other_numbers(self) -> dict[str, Subject]:
        """By change, such as ``"k=4"``, the component with one number changed, for up to three numbers."""
        found = dict[str, Subject]()
        for name, value in self.choice.params.items():
            if type(value) not in (int, float) or len(found) == 3:
                continue
            other = value + 1 if type(value) is int else value / 2
            try:
                params = {**self.choice.params, name: other}
                changed = self.chosen_as(registry().choose(self.kind, self.spec.id, **params))
                changed.build()
            except Exception:  # it is refused, in whatever way
                continue
            found[f"{name}={other}"] = changed
        return found

    def build(self, *, drawn: int = 0, **supplied: Any) -> Any:
        """Build a new object under the seed ``drawn``; ``supplied`` replaces some of the kit's inputs."""
        from ccl_plugins.testing.inputs import seeded, supplied_for

        values = self.condition_values
        with seeded(drawn):
            built = self.choice.build({**supplied_for(self.choice, values), **supplied})
        if values is not None:
            setattr(built, CONDITION, values)  # in place of the class's
        return built

    def observe(self, built: Any) -> Any:
        """Use a built object and return its results, as data to compare."""
        from ccl_plugins.testing.inputs import seeded

        with seeded():
            return kind_module(self.kind).observe(self, built)


@dataclass(frozen=True)
class Distribution:
    """A distribution by its normalized name, with all its components."""

    name: str
    specs: tuple[engine.ComponentSpec, ...]

    def __str__(self) -> str:
        return "plugin"


def kind_module(kind: str) -> ModuleType:
    """The module that has a kind's checks and its ``observe(subject, built)``."""
    return importlib.import_module(f"ccl_plugins.testing.{FOLDERS[kind]}")


def laws(module: ModuleType) -> list[Callable[[Any], None]]:
    """The functions ``check_...`` that a module defines, in their order."""
    return [
        each
        for name, each in vars(module).items()
        if name.startswith("check_") and each.__module__ == module.__name__
    ]
