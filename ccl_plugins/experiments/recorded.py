"""The parts of a recorded pipeline, read back one by one: a run outlives the plug-ins of its loss."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Container, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

import ccl_registry as engine
from ccl_plugins.experiments.components import Components
from ccl_plugins.experiments.configuration import (
    SINGLE,
    check_schema,
    chosen_loggers,
    condition_place,
    installed,
)
from ccl_plugins.experiments.record import check_plugins, nested
from ccl_plugins.files.differences import differences
from ccl_plugins.kinds import registry
from ccl_plugins.metadata.fitted import variables
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.training.parts import BackboneAlone
from ccl_plugins.transforms.modalities import modality_of_each


class Recorded(Components):
    """The components of a run's pipeline, each read from the record on first use.

    Each needs only its own plug-ins.

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
            RegistryError: For a plug-in that is not installed, for a plug-in that has changed, and
                for an object of a session that was not given.
        """
        refuse_lost(_lost(data, place), self.record, self.where)
        versions = self.record.get("versions", {})
        if isinstance(versions, Mapping):
            uses = (table["use"] for table in _tables(data, place).values())
            named = {use.rpartition(":")[2].rpartition("/")[0] for use in uses} - self._checked
            versions = {name: version for name, version in versions.items() if name in named}
            self._checked |= versions.keys()
        check_plugins(versions)
        return registry().read(kind, data, where=f"{self.where}: {place}")

    @cached_property
    def evaluators(self) -> list[engine.Choice]:
        """The choices of evaluators."""
        given = enumerate(self.record["evaluate"])
        return [self.read("evaluator", each, f"evaluate.{i}") for i, each in given]

    @cached_property
    def conditions(self) -> dict[str, engine.Choice]:
        """The choices of those conditions that can be read back.

        Warns:
            UserWarning: For each of the others, by name.
        """
        choices = {}
        for name, data in self.record["conditions"].items():
            try:
                place = condition_place(name, self.record["conditions"])
                choices[name] = self.read("condition", data, place)
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
            except (OSError, ValueError) as error:  # a file may be gone
                _warn_of_condition(name, error)
        return built

    @cached_property
    def loggers(self) -> dict[str, engine.Choice]:
        """The choices of the loggers that are installed, by name."""
        return chosen_loggers(installed(self.record)["loggers"])

    @property
    def all_choices(self) -> list[engine.Choice]:
        """The choices that were read so far."""
        read = vars(self)
        conditions = read.get("conditions", {}).values()
        return [*self.choices.values(), *conditions, *read.get("evaluators", ())]

    def method(self, weights: Mapping[str, Tensor]) -> Any:
        """The method with weights, in evaluation mode; only its backbone, if the method cannot be rebuilt.

        Args:
            weights: The method's state.

        Raises:
            RegistryError: If the backbone cannot be rebuilt either.

        Warns:
            UserWarning: If the method cannot be rebuilt, with the reason.
        """
        modalities = modality_of_each(self.transform)
        with undisturbed():
            backbone = self.choices["backbone"].build()
            try:
                supplied = {"backbone": backbone, "modalities": modalities}
                method = self._own(self.choices["method"].build(supplied))
                method.load_state_dict(weights)
            except Exception as error:  # a plug-in that has changed may raise anything
                reason = engine.one_line(error)
                warnings.warn(
                    "the method cannot be rebuilt, so only its backbone is read back, for encode, "
                    f"features, evaluate, embed and export: {reason}",
                    stacklevel=4,
                )
                method = BackboneAlone(self._own(self.choices["backbone"].build()), reason)
                method.load_backbone(weights)
        return method.eval()

    def _own(self, network: Any) -> Any:
        """A network whose weights may be set: a copy, if it is an object of the session."""
        read = nested(
            [self.choices[kind] for kind in ("backbone", "method") if kind in self.choices]
        )
        local = any(each.spec.plugin == engine.LOCAL for each in read)
        return copy.deepcopy(network) if local else network


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


# Objects of a session: a record has their classes and their places, and not the objects.


def with_objects(record: Mapping[str, Any], objects: Mapping[str, Any]) -> dict[str, Any]:
    """A record in which objects of this session replace those that it was made with.

    Args:
        record: The record of a run.
        objects: By place, such as ``"dataset"``, ``"objective.kernel"`` or ``"evaluate.0"``: the
            object or, for a component that was chosen by its class with parameters, the class.

    Raises:
        InvalidConfig: For a place without an object of a session, and for another object than the record
            names.
        InvalidParameter: For an object that does not satisfy its kind.
    """
    if not isinstance(objects, Mapping) or not all(isinstance(place, str) for place in objects):
        raise engine.InvalidConfig(
            'objects must be a mapping of places to objects, such as {"dataset": my_dataset}, not'
            f" {engine.short_repr(objects)}"
        )
    tables = _tables(record)
    given = {_place(place, tables): each for place, each in objects.items()}
    for place in given:
        if place in tables and not _LOCAL.match(use := tables[place]["use"]):
            raise engine.InvalidConfig(
                f"objects: {place} is {use}, which is found by its name: give no object for it"
            )
    engine.check_keys(given, [p for p in tables if _LOCAL.match(tables[p]["use"])], "objects")

    def put(place: str, table: dict[str, Any]) -> Any:
        if place not in given:
            return table
        if isinstance(given[place], type) and (inner := _lost({**table, "use": None}, place)):
            raise engine.InvalidConfig(
                f"objects: {place}: the class takes {', '.join(inner)}: give it too"
            )
        return _choice(given[place], table, tables[place], f"objects: {place}")

    return _with_each(record, put)


def refuse_lost(needed: Mapping[str, str], record: Mapping[str, Any], where: str) -> None:
    """Refuse objects of a session that are missing, by a PluginFailed that says how to give them.

    Args:
        needed: The missing objects that are needed, see `lost_objects`.
        record: The record.
        where: The record's file.
    """
    if needed:
        others = [place for place in lost_objects(record) if place not in needed]
        raise engine.PluginFailed(
            "this run was made with objects of a session, which belong to no plug-in: give the "
            f"same objects again, with {loading(needed, Path(where).parent)}"
            + (f"; it also had {', '.join(others)}" if others else "")
        )


def loading(lost: Mapping[str, str], folder: Path) -> str:
    """The call that loads a run with objects of a session, which are named by their classes."""
    given = ", ".join(f'"{place}": {use.rpartition("/")[2]}' for place, use in lost.items())
    return f'ccl.load("{folder}", objects={{{given}}})'


def lost_objects(record: Mapping[str, Any]) -> dict[str, str]:
    """The record's tables of missing objects of a session, by place, without objects that only watched."""
    return _lost({k: each for k, each in record.items() if k not in ("monitor", "loggers")})


_LOCAL = re.compile(rf"\w+:{engine.LOCAL}/")
"""The beginning of the name of a session's object in a record."""

_PARTS = (*SINGLE, "evaluate", "fit", "monitor", "loggers")
"""The parts of a record that have components, in addition to its conditions."""

_Change = Callable[[str, dict[str, Any]], Any]


def _with_each(record: Mapping[str, Any], change: _Change) -> dict[str, Any]:
    """A record in which ``change(place, table)`` replaces each component's table, inner ones first."""
    parts = {part: _part_with_each(record[part], part, change) for part in _PARTS if part in record}
    conditions = record.get("conditions") or {}
    places = {name: condition_place(name, conditions) for name in conditions}
    named = {n: _part_with_each(c, places[n], change) for n, c in conditions.items()}
    return {**record, **parts, "conditions": named}


def _part_with_each(data: Any, place: str, change: _Change) -> Any:
    if isinstance(data, Mapping):
        table = {key: _part_with_each(each, f"{place}.{key}", change) for key, each in data.items()}
        return change(place, table) if isinstance(table.get("use"), str) else table
    if isinstance(data, list):
        return [_part_with_each(each, f"{place}.{i}", change) for i, each in enumerate(data)]
    return data


def _tables(data: Any, place: str = "") -> dict[str, dict[str, Any]]:
    """The tables of the components in the part of a record at a place, or in a whole record, by place."""
    found: dict[str, dict[str, Any]] = {}
    if place:
        _part_with_each(data, place, found.setdefault)
    else:
        _with_each(data, found.setdefault)
    return found


def _lost(data: Any, place: str = "") -> dict[str, str]:
    """The names of those that are objects of a session, by place."""
    tables = _tables(data, place).items()
    return {at: table["use"] for at, table in tables if _LOCAL.match(table["use"])}


def _place(given: str, places: Container[str]) -> str:
    """The normalized place: accepts ``evaluate[0]``, and the only condition by its whole name."""
    place = re.sub(r"\[(\d+)\]", r".\1", given)
    return "condition" if place == "conditions.condition" and place not in places else place


def _choice(
    given: Any, table: Mapping[str, Any], recorded: Mapping[str, Any], where: str
) -> engine.Choice:
    """The choice of a given object or class, if it may be the one that the run was made with.

    Args:
        given: The object.
        table: The record's table of the object, with choices for inner components.
        recorded: The same as plain data.
        where: Its place, for messages.
    """
    kind = recorded["use"].partition(":")[0]
    params = {key: each for key, each in table.items() if key != "use"}
    is_class = isinstance(given, type)
    try:
        reg = registry()
        choice = reg.local(kind, given, **params) if is_class else reg.read(kind, given)
    except engine.RegistryError as error:
        raise type(error)(f"{where}: {error}") from error.__cause__
    if choice.spec.use != recorded["use"]:
        raise engine.InvalidConfig(
            f"{where}: the run was made with {recorded['use']}, but this is {choice.spec.use}"
        )
    if is_class and choice.params and not params:
        raise engine.InvalidConfig(
            f"{where}: the run was made with an object of {given.__name__}, whose parameters it did not"
            " record: give the object"
        )
    if not is_class and params and not choice.params:
        raise engine.InvalidConfig(
            f"{where}: the run chose {recorded['use']} by its class and recorded its parameters: give the"
            " class"
        )
    if not is_class and (changed := [*map(str, differences(recorded, choice.record()))]):
        raise engine.InvalidConfig(
            f"{where}: the run was made with other parameters: {'; '.join(changed)}"
        )
    if not is_class and not params:
        choice.build(where=where)  # an object is there already: its members are checked
    return choice


def _warn_of_condition(name: str, error: Exception) -> None:
    warnings.warn(
        f"the condition {name!r} cannot be read back, so measurements of its column do not count "
        f"as those of a condition: {error}",
        stacklevel=4,
    )
