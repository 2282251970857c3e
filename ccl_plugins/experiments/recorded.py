"""The parts of a recorded pipeline, read back one by one: a run outlives the plug-ins of its loss."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ccl_plugins._engine import engine
from ccl_plugins.experiments import requirements
from ccl_plugins.experiments.composition import SINGLE, check_schema
from ccl_plugins.experiments.record import check_plugins
from ccl_plugins.kinds import registry
from ccl_plugins.metadata.variables import variables
from ccl_plugins.transforms.modalities import modality_of_each


class Recorded:
    """The parts of a run's pipeline, each read and built when it is first asked for.

    Each needs its own plug-ins alone.  The members are those of `Composition`.

    Args:
        record: The record of a run.
        where: The record's file, for messages.

    Raises:
        InvalidConfig: For a record of another schema.
    """

    def __init__(self, record: Mapping[str, Any], where: str) -> None:
        check_schema(record, where)
        self.record, self.where = record, where
        self.choices = _Choices(self)
        self._checked: set[str] = set()

    def read(self, kind: str, data: Any, place: str) -> engine.Choice:
        """The choice of a component that the record holds at a place.

        Raises:
            RegistryError: For a plug-in that is not installed, and for one that has changed.
        """
        versions = self.record.get("versions", {})
        if isinstance(versions, Mapping):
            named = {*_plugins(data)} - self._checked
            versions = {name: version for name, version in versions.items() if name in named}
            self._checked |= versions.keys()
        check_plugins(versions)
        return registry().read(kind, data, where=f"{self.where}: {place}")

    @cached_property
    def dataset(self) -> Any:
        """The data set."""
        return self.choices["dataset"].build()

    @cached_property
    def transform(self) -> Any:
        """The augmentations."""
        return self.choices["transform"].build()

    @cached_property
    def evaluators(self) -> list[engine.Choice]:
        """The choices of evaluators."""
        given = enumerate(self.record["evaluate"])
        return [self.read("evaluator", each, f"evaluate[{i}]") for i, each in given]

    @cached_property
    def built_evaluators(self) -> list[Any]:
        """The evaluators."""
        return [choice.build({"dataset": self.dataset}) for choice in self.evaluators]

    @cached_property
    def conditions(self) -> dict[str, engine.Choice]:
        """The choices of those conditions that can be read back.

        Warns:
            UserWarning: Naming each other.
        """
        choices = {}
        for name, data in self.record["conditions"].items():
            try:
                choices[name] = self.read("condition", data, f"conditions.{name}")
            except engine.RegistryError as error:
                _warn_of_condition(name, error)
        return choices

    @cached_property
    def built_conditions(self) -> dict[str, Any]:
        """Those conditions that can be read back, by the names under which they are read."""
        supplied = {"dataset": self.dataset}
        built: dict[str, Any] = {}
        for name, choice in self.conditions.items():
            try:
                built |= variables({name: choice.build(supplied)})
            except (OSError, ValueError, engine.RegistryError) as error:  # a file may be gone
                _warn_of_condition(name, error)
        return built

    @cached_property
    def built_loggers(self) -> dict[str, Any]:
        """The loggers that are installed, by name."""
        chosen = requirements.chosen_loggers(requirements.installed(self.record)["loggers"])
        return {name: choice.build(where="loggers") for name, choice in chosen.items()}

    @property
    def all_choices(self) -> list[engine.Choice]:
        """The choices that were read so far."""
        read = vars(self)
        conditions = read.get("conditions", {}).values()
        return [*self.choices.values(), *conditions, *read.get("evaluators", ())]

    def method(self, weights: Mapping[str, Tensor]) -> Any:
        """The method with weights, in evaluation mode; its backbone alone, if it cannot be rebuilt.

        Args:
            weights: The method's state.

        Raises:
            RegistryError: If the backbone cannot be rebuilt either.

        Warns:
            UserWarning: If the method cannot be rebuilt, saying why.
        """
        from ccl_plugins.training.backbone_alone import BackboneAlone

        modalities = modality_of_each(self.transform)
        with torch.random.fork_rng(devices=[]):
            backbone = self.choices["backbone"].build()
            try:
                supplied = {"backbone": backbone, "modalities": modalities}
                method = self.choices["method"].build(supplied)
                method.load_state_dict(weights)
            except Exception as error:  # a plug-in that has changed may raise anything
                reason = engine.one_line(error)
                warnings.warn(
                    f"the method cannot be rebuilt, and its backbone is read back alone, for encode,"
                    f" features, evaluate, embed and export: {reason}",
                    stacklevel=4,
                )
                method = BackboneAlone(self.choices["backbone"].build(), reason)
                method.load_backbone(weights)
        return method.eval()


class _Choices(dict[str, engine.Choice]):
    """The choices by kind, each read from the record when it is looked up."""

    def __init__(self, recorded: Recorded) -> None:
        super().__init__()
        self.recorded = recorded

    def __missing__(self, kind: str) -> engine.Choice:
        if kind not in SINGLE:
            raise KeyError(kind)
        if kind not in self.recorded.record:
            raise engine.InvalidConfig(f"{self.recorded.where}: {kind!r} is missing")
        self[kind] = self.recorded.read(kind, self.recorded.record[kind], kind)
        return self[kind]


def _plugins(data: Any) -> Iterator[str]:
    """The plug-ins of the components in a part of a record."""
    if isinstance(data, Mapping):
        if isinstance(use := data.get("use"), str):
            yield use.rpartition(":")[2].rpartition("/")[0]
        data = [*data.values()]
    for each in data if isinstance(data, list) else ():
        yield from _plugins(each)


def _warn_of_condition(name: str, error: Exception) -> None:
    warnings.warn(
        f"the condition {name!r} cannot be read back, and what is measured of its column does not count as"
        f" measured of a condition: {error}",
        stacklevel=4,
    )
