"""A composition: the choices of an experiment, checked against each other and built when needed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import ccl_registry as engine
from ccl_plugins.experiments.components import Components
from ccl_plugins.experiments.configuration import (
    SCHEMA,
    SINGLE,
    TABLES,
    check_schema,
    check_tables,
    chosen_loggers,
    condition_place,
    default_evaluators,
    fit_settings,
    hook_options,
    installed,
    long_form,
    monitor_settings,
    override,
    read_evaluators,
    with_statistics,
)
from ccl_plugins.experiments.record import (
    Record,
    naming_unmet,
    nested,
    plugins_of,
    warn_of_unmet,
)
from ccl_plugins.experiments.rules import read_by_sampler, rules
from ccl_plugins.kinds import registry
from ccl_plugins.metadata.fitted import variables
from ccl_plugins.numerics.generators import drawn_since, generator_states, undisturbed
from ccl_plugins.protocols import trait
from ccl_plugins.training.parts import Parts
from ccl_plugins.transforms.modalities import modality_of_each


class Composition(Components):
    """A whole experiment as data: data set, transform, backbone, method, objective, conditions and sampler.

    Each part is a choice (`ccl.kernel("rbf", scale=0.1)`), a bare name, a table with ``use``, or an
    object of your own.  The constructor checks them against each other before training data is read, and
    builds the data set, conditions, transform and evaluators once; `build` makes new networks.

    Args:
        dataset: The data set to train on.
        backbone: The network from images to features.
        objective: The loss on pairs.
        method: The model around the backbone.
        transform: The augmentations; ``{"image": "simclr", "text": "tokens"}``: of several modalities.
        condition: The conditioning variable; objectives know it as ``"condition"``.
        conditions: Several conditions by name, in place of ``condition``.
        sampler: Decides which samples form a batch.
        evaluate: The measurements at the end; by default a linear probe, nearest neighbors, and a
            regression of each continuous column of the data set.
        fit: Settings of training, as the ``[fit]`` table of a configuration.
        monitor: The measurements while it trains, as the ``[monitor]`` table; ``"off"``: none.
        loggers: The loggers of its numbers, such as ``["csv", {"use": "wandb", "mode":
            "offline"}]``.
        plugins: Options for the hooks of plug-ins, a table for each plug-in by its name.

    Raises:
        RegistryError: For wrong names, parameters and configurations.
        ValueError: For parts that do not go together.
    """

    @naming_unmet()
    def __init__(
        self,
        *,
        dataset: Any,
        backbone: Any,
        objective: Any,
        method: Any = "simclr",
        transform: Any = "simclr",
        condition: Any = None,
        conditions: Mapping[str, Any] | None = None,
        sampler: Any = "uniform",
        evaluate: Iterable[Any] | None = None,
        fit: Mapping[str, Any] | None = None,
        monitor: Mapping[str, Any] | str | bool | None = None,
        loggers: Iterable[Any] = ("tensorboard",),
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        if condition is not None and conditions is not None:
            raise ValueError("give condition= or conditions={name: ...}, not both")
        if condition is not None:
            conditions = {"condition": condition}
        given = {
            "dataset": dataset,
            "transform": long_form(transform),
            "backbone": backbone,
            "method": method,
            "objective": objective,
            "sampler": sampler,
        }
        check_tables(conditions, evaluate, fit)
        reg = registry()
        self.choices = {kind: reg.read(kind, given[kind], where=kind) for kind in SINGLE}
        self.choices["transform"] = with_statistics(
            self.choices["transform"], self.choices["backbone"]
        )
        self.conditions = {
            name: reg.read("condition", choice, where=condition_place(name, conditions or {}))
            for name, choice in (conditions or {}).items()
        }
        self.settings, self.fit_choices = fit_settings(fit or {})
        self.monitor = monitor_settings(monitor)
        """The measurements while it trains; None: none."""
        self.loggers = chosen_loggers(loggers)
        self.hook_options = hook_options(plugins)
        """Options for the hooks of plug-ins, by plug-in."""
        _ = self.dataset  # before others draw random numbers
        self.evaluates_by_default = evaluate is None
        """Whether the evaluators follow from the data set's columns, and not from a choice."""
        chosen = default_evaluators(self.dataset) if evaluate is None else evaluate
        self.evaluators = read_evaluators(chosen, "evaluate")
        hooking = (
            plugin.name for plugin in reg.plugins if plugin.has_hooks and not plugin.disabled
        )
        warn_of_unmet((*hooking, *plugins_of((*self.all_choices, *self.loggers.values()))))
        self._objectives: list[dict[Any, Any]] = []
        """The cache with the objective that was checked, until `build` takes it."""
        self._check()
        # A plug-in rejects a pipeline by raising.
        reg.call("ccl_pipeline_composed", pipeline=self, options=self.hook_options)

    @cached_property
    def built_conditions(self) -> dict[str, Any]:
        """The conditions by the names under which they are read."""
        return variables(self.given_conditions)

    @cached_property
    def given_conditions(self) -> dict[str, Any]:
        """The conditions by the names of the configuration."""
        supplied = {"dataset": self.dataset}
        return {n: c.build(supplied, cache=self._cache) for n, c in self.conditions.items()}

    @cached_property
    def built_monitors(self) -> list[Any] | None:
        """The evaluators that are run while it trains; None: those that follow from its columns."""
        chosen = self.monitor.evaluate if self.monitor else None
        supplied = {"dataset": self.dataset}
        return None if chosen is None else [choice.build(supplied) for choice in chosen]

    @cached_property
    def objective(self) -> Any:
        """The objective for the rules; `build` reuses it if it has no random weights."""
        cache: dict[Any, Any] = {}
        states = generator_states()
        objective = self._build_objective(cache)
        if not drawn_since(states):
            self._objectives.append(cache)
        return objective

    @cached_property
    def reading_method(self) -> Any:
        """A built method for the rules, if its class declares that it reads conditions; else None."""
        with undisturbed():
            reads = trait(self.choices["method"].spec.load(), "conditions")
            return self._build_method({}) if reads else None

    @cached_property
    def sampler_on(self) -> str | None:
        """The name of the condition that the sampler reads, or None."""
        return read_by_sampler(self.choices["sampler"], self.built_conditions)

    def _check(self) -> None:
        """Check all rules; this builds the parts without weights."""
        with undisturbed():
            # Those that draw random numbers draw them in this order.
            _ = self.objective, self.transform, self.given_conditions, self.built_evaluators
            _ = self.built_monitors, self.built_loggers
        for ask in rules(self):
            ask()
        # Networks are not kept: they would be those of the first run.
        del self.objective
        self.__dict__.pop("reading_method", None)

    def build(self) -> Parts:
        """New networks, with weights drawn from torch's global generator, and the parts built before.

        Networks that are objects of the session are copied, with their present weights.
        """
        cache = self._objectives.pop() if self._objectives else {}
        method = self._build_method(cache)
        objective = self._build_objective(cache)
        networks = nested([self.choices[kind] for kind in ("backbone", "method", "objective")])
        if any(each.spec.plugin == engine.LOCAL for each in networks):
            # Copies: a run trains its networks in place, and the next run must not begin with them.
            # A kernel may hold the data set, which is not copied.
            method, objective = copy.deepcopy((method, objective), {id(self.dataset): self.dataset})
        samplers: dict[Any, Any] = {}

        def sampler(**given: Any) -> Any:
            # A sampler that reads a table is not kept, since it would keep the table in memory.
            cache = None if {"condition", "split"} & given.keys() else samplers
            return self.choices["sampler"].build({**given, "dataset": self.dataset}, cache=cache)

        return Parts(
            dataset=self.dataset,
            transform=self.transform,
            method=method,
            objective=objective,
            conditions=self.built_conditions,
            sampler=sampler,
            sampler_on=self.sampler_on,
            sampler_reads_split="split" in self.choices["sampler"].supplied,
        )

    def _build_objective(self, cache: dict[Any, Any]) -> Any:
        # Kernels in it may read the data set.
        return self.choices["objective"].build({"dataset": self.dataset}, cache=cache)

    def _build_method(self, cache: dict[Any, Any]) -> Any:
        backbone = self.choices["backbone"].build(cache=cache)
        supplied = {"backbone": backbone, "modalities": modality_of_each(self.transform)}
        # Without the cache: towers with equal records are networks of their own.
        return self.choices["method"].build(supplied)

    def with_settings(self, **settings: Any) -> Self:
        """The same pipeline with other settings of training; nothing is read or built again.

        Raises:
            InvalidConfig: For an unknown setting.
            TypeError: For a value of another type.
            ValueError: For a value out of range.
        """
        if not settings:
            return self
        changed = copy.copy(self)
        given = {**self.settings.to_dict(), **self.fit_choices, **settings}
        kept = {k: getattr(self.settings, k) for k in self.fit_choices if k not in settings}
        changed.settings, changed.fit_choices = fit_settings(given, kept)
        return changed

    @property
    def all_choices(self) -> list[Any]:
        """Every choice that affects training or measurements, without nested choices."""
        fit = self.fit_choices.values()
        return [*self.choices.values(), *self.conditions.values(), *self.evaluators, *fit]

    def to_dict(self) -> Record:
        """The record: every choice by its qualified name with every parameter, and the versions."""
        record = {
            "schema": SCHEMA,
            **{kind: choice.record() for kind, choice in self.choices.items()},
            "conditions": {name: choice.record() for name, choice in self.conditions.items()},
            "evaluate": [choice.record() for choice in self.evaluators],
            "fit": self.settings.to_dict() | {k: c.record() for k, c in self.fit_choices.items()},
            "monitor": self.monitor.to_dict() if self.monitor else "off",
            "loggers": [choice.record() for choice in self.loggers.values()],
            "plugins": copy.deepcopy(self.hook_options),
            "versions": plugins_of(self.all_choices),
        }
        return Record(record)

    def to_json(self) -> str:
        """The record as JSON."""
        return engine.to_json(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "") -> Self:
        """A pipeline from a record or from the tables of a configuration.

        Raises:
            InvalidConfig: For an unknown or missing table, or a record of another schema.
        """
        where = where or "pipeline"
        if not isinstance(data, Mapping):
            raise engine.InvalidConfig(f"{where}: must be a table, not {engine.short_repr(data)}")
        tables = Record(data).tables
        engine.check_keys(tables, TABLES, where)
        check_schema(data, where)
        # A record has all that training depends on, which monitors and loggers are not.
        record = (*SINGLE, "conditions", "evaluate", "fit")
        needed = record if "schema" in data else ("dataset", "backbone", "objective")
        if missing := [k for k in needed if k not in tables]:
            raise engine.InvalidConfig(f"{where}: {', '.join(map(repr, missing))} is missing")
        if "schema" in data:
            tables |= installed(tables)
        if "conditions" in tables and not tables["conditions"]:
            del tables["conditions"]
        return cls(**tables)

    @classmethod
    def from_toml(
        cls,
        path: str | Path,
        *,
        changes: Iterable[tuple[Sequence[str], Any]] = (),
        **settings: Any,
    ) -> Self:
        """A pipeline from a TOML file.

        Args:
            path: The file.
            changes: Keys and value of each value that replaces the file's: ``(("objective",
                "kernel", "scale"), 0.2)``.
            settings: Settings of training that replace those in its ``[fit]`` table.

        Raises:
            InvalidConfig: For a file that is not TOML, or has an unknown table or key.
        """
        tables = override(engine.read_toml(path), changes)
        fit = tables.get("fit", {})
        if settings and isinstance(fit, Mapping):
            tables["fit"] = {**fit, **settings}
        return cls.from_dict(tables, where=str(path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composition) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # equality compares records, which may change

    def __repr__(self) -> str:
        parts = [f"{kind}={choice!r}" for kind, choice in self.choices.items()]
        parts += [f"conditions={self.conditions!r}"] if self.conditions else []
        return f"{type(self).__name__}(\n    " + ",\n    ".join(parts) + ",\n)"
