"""The components of a pipeline, composed or read from the record of a run."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import ccl_registry as engine


class Components:
    """The components of a pipeline, each built when it is first asked for, and kept."""

    choices: dict[str, engine.Choice]
    """The choices of the kinds in `SINGLE`, by kind."""

    @cached_property
    def conditions(self) -> dict[str, engine.Choice]:
        """The choices of conditions by name."""
        raise NotImplementedError

    @cached_property
    def evaluators(self) -> list[engine.Choice]:
        """The choices of evaluators."""
        raise NotImplementedError

    @cached_property
    def loggers(self) -> dict[str, engine.Choice]:
        """The choices of loggers by name."""
        raise NotImplementedError

    @property
    def all_choices(self) -> list[engine.Choice]:
        """Every choice that affects training or measurements, without nested choices."""
        raise NotImplementedError

    @cached_property
    def _cache(self) -> dict[Any, Any]:
        """The cache of components built for the data set and the conditions, one for equal records."""
        return {}

    @cached_property
    def dataset(self) -> Any:
        """The data set."""
        return self.choices["dataset"].build(cache=self._cache)

    @cached_property
    def transform(self) -> Any:
        """The augmentations."""
        return self.choices["transform"].build(cache={})

    @cached_property
    def built_evaluators(self) -> list[Any]:
        """The evaluators."""
        return [choice.build({"dataset": self.dataset}) for choice in self.evaluators]

    @property
    def chosen_evaluators(self) -> list[tuple[engine.Choice, Any]]:
        """The choice of each evaluator with what it built."""
        return [*zip(self.evaluators, self.built_evaluators, strict=True)]

    @cached_property
    def built_loggers(self) -> dict[str, Any]:
        """The loggers by name."""
        return {name: choice.build(where="loggers") for name, choice in self.loggers.items()}

    @cached_property
    def built_conditions(self) -> dict[str, Any]:
        """The conditions by the names under which they are read."""
        raise NotImplementedError
