"""A composition: the choices of an experiment, checked against each other and built when needed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import ccl_registry as engine
from ccl_plugins.experiments import image_statistics, modalities, requirements
from ccl_plugins.experiments.overrides import override
from ccl_plugins.experiments.record import Record, nested, plugins_of
from ccl_plugins.kinds import registry
from ccl_plugins.metadata.fitted import place_of, variables
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.training.parts import Parts
from ccl_plugins.transforms.modalities import modality_of_each

SINGLE = ("dataset", "transform", "backbone", "method", "objective", "sampler")
"""The kinds of which a pipeline has exactly one."""

TABLES = (*SINGLE, "condition", "conditions", "evaluate", "fit", "monitor", "loggers", "plugins")
"""The tables of a configuration."""

SCHEMA = 1
"""The version of the record's layout."""


class Composition:
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
        conditions: Several, by name, in place of ``condition``.
        sampler: Which samples meet in a batch.
        evaluate: The measurements at the end; by default a linear probe, nearest neighbors, and a
            regression of each continuous column of the data set.
        fit: Settings of training, as the ``[fit]`` table of a configuration.
        monitor: What is measured while it trains, as the ``[monitor]`` table; ``"off"``: nothing.
        loggers: Where numbers go while it trains, as ``["csv", {"use": "wandb", "mode": "offline"}]``.
        plugins: Options for the hooks of plug-ins, a table for each plug-in by its name.

    Raises:
        RegistryError: For wrong names, parameters and configurations.
        ValueError: For parts that do not go together.
    """

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
            "transform": modalities.long_form(transform),
            "backbone": backbone,
            "method": method,
            "objective": objective,
            "sampler": sampler,
        }
        requirements.check_tables(conditions, evaluate, fit)
        reg = registry()
        self.choices = {kind: reg.read(kind, given[kind], where=kind) for kind in SINGLE}
        self.choices["transform"] = image_statistics.with_statistics(
            self.choices["transform"], self.choices["backbone"]
        )
        self.conditions = {
            name: reg.read("condition", choice, where=condition_place(name, conditions or {}))
            for name, choice in (conditions or {}).items()
        }
        self.settings, self.fit_choices = requirements.fit_settings(fit or {})
        self.monitor = requirements.monitor_settings(monitor)
        """What is measured while it trains; None: nothing."""
        self.loggers = requirements.chosen_loggers(loggers)
        """The choices of loggers by name."""
        self.hook_options = requirements.hook_options(plugins)
        """Options for the hooks of plug-ins, by plug-in."""
        cache: dict[Any, Any] = {}
        self.dataset = self.choices["dataset"].build(cache=cache)
        self.evaluates_by_default = evaluate is None
        """Whether the evaluators follow from the data set's columns, and not from a choice."""
        chosen = requirements.default_evaluators(self.dataset) if evaluate is None else evaluate
        self.evaluators = requirements.read_all("evaluator", chosen, "evaluate")
        self._build_and_check(cache)
        # A plug-in rejects a pipeline by raising.
        reg.call("ccl_pipeline_composed", pipeline=self, options=self.hook_options)

    def _build_and_check(self, cache: dict[Any, Any]) -> None:
        """Build the parts without weights, and check that all parts go together.

        This objective is for the check alone: `build` makes another, with newly drawn parameters.
        """
        supplied = {"dataset": self.dataset}
        with undisturbed():
            objective = self.choices["objective"].build(cache={})
            self.transform = self.choices["transform"].build(cache={})
            built = {n: c.build(supplied, cache=cache) for n, c in self.conditions.items()}
            self.built_evaluators = [choice.build(supplied) for choice in self.evaluators]
            chosen = self.monitor.evaluate if self.monitor else None
            self.built_monitors = None if chosen is None else [c.build(supplied) for c in chosen]
            """The evaluators that are run while it trains; None: those that follow from its columns."""
            self.built_loggers = {n: c.build(where="loggers") for n, c in self.loggers.items()}
            modalities.check_modalities(
                self.transform, self.choices["method"], self.choices["backbone"], self.dataset
            )
        image_statistics.warn_of_other_statistics(self.transform, self.choices["backbone"])
        modalities.check_towers(self.built_evaluators, self.choices["method"], self.transform)
        requirements.check_conditions(built)
        requirements.check_keys(built, self.choices["method"])
        self.built_conditions = variables(built)
        requirements.check_monitors(self.built_monitors or (), self.dataset, self.built_conditions)
        requirements.check_views(objective, self.transform)
        requirements.check_masked(
            objective, self.choices["method"], self.choices["backbone"], self.transform
        )
        read = requirements.check_read(objective, self.built_conditions)
        with undisturbed():
            read |= requirements.read_by_method(
                self.choices["method"], self._build_method, self.built_conditions
            )
        requirements.warn_of_unread_queue(objective, self.choices["method"])
        self.sampler_on = requirements.read_by_sampler(
            self.choices["sampler"], self.built_conditions
        )
        named = self.built_conditions.items()
        reached = {place_of(n, c) for n, c in named if n in {*read, self.sampler_on}}
        if unread := [name for name in built if name not in reached]:
            warnings.warn(
                f"nothing in this pipeline reads the condition {', '.join(unread)}", stacklevel=4
            )

    def build(self) -> Parts:
        """New networks, with weights drawn from torch's global generator, and the parts built before.

        Of networks that are objects of the session they are copies, with the weights that these have now.
        """
        cache: dict[Any, Any] = {}
        method = self._build_method(cache)
        objective = self.choices["objective"].build(cache=cache)
        networks = nested([self.choices[kind] for kind in ("backbone", "method", "objective")])
        if any(each.spec.plugin == engine.LOCAL for each in networks):
            # Trained in place they would begin the next run, and be the networks of the last one.
            method, objective = copy.deepcopy((method, objective))
        return Parts(
            dataset=self.dataset,
            transform=self.transform,
            method=method,
            objective=objective,
            conditions=self.built_conditions,
            sampler=lambda **given: self.choices["sampler"].build(given),
            sampler_on=self.sampler_on,
        )

    def _build_method(self, cache: dict[Any, Any] | None = None) -> Any:
        cache = {} if cache is None else cache
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
        changed = copy.copy(self)
        given = {**self.settings.to_dict(), **self.fit_choices, **settings}
        changed.settings, changed.fit_choices = requirements.fit_settings(given)
        return changed

    @property
    def all_choices(self) -> list[Any]:
        """Every choice that what is trained and measured depends on, without those nested in them."""
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
        # A record says all that was trained; monitors and loggers change nothing of it.
        record = (*SINGLE, "conditions", "evaluate", "fit")
        needed = record if "schema" in data else ("dataset", "backbone", "objective")
        if missing := [k for k in needed if k not in tables]:
            raise engine.InvalidConfig(f"{where}: {', '.join(map(repr, missing))} is missing")
        if "schema" in data:
            tables |= requirements.installed(tables)
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
            changes: Keys and value of each value in place of the file's:
                ``(("objective", "kernel", "scale"), 0.2)``.
            settings: Settings of training in place of those in its ``[fit]`` table.

        Raises:
            InvalidConfig: For a file that is no TOML, or with an unknown table or key.
        """
        tables = override(engine.read_toml(path), changes, TABLES)
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


def check_schema(data: Mapping[str, Any], where: str) -> None:
    """Refuse a record of another schema, by an InvalidConfig."""
    if data.get("schema", SCHEMA) != SCHEMA:
        raise engine.InvalidConfig(
            f"{where}: unknown schema {engine.short_repr(data['schema'])};"
            f" this version reads and writes {SCHEMA}"
        )


def condition_place(name: str, conditions: Mapping[str, Any]) -> str:
    """The place of a condition in a configuration that has these."""
    return "condition" if list(conditions) == ["condition"] else f"conditions.{name}"
