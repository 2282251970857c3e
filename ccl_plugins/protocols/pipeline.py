"""The contract of a composed pipeline in hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class ComposedPipeline(Protocol):
    """A composed pipeline, the argument of hooks."""

    @property
    def choices(self) -> Mapping[str, Any]:
        """The choice of each kind that a pipeline has once, such as ``"objective"``."""

    @property
    def conditions(self) -> Mapping[str, Any]:
        """The choices of its conditions, by name."""

    @property
    def settings(self) -> Any:
        """Its `ccl_plugins.training.settings.FitSettings`."""

    def to_dict(self) -> dict[str, Any]:
        """The record."""
