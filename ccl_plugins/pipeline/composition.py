"""Pipeline: named choices, checked against each other, that become modules when they are needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine
from ccl_plugins.kinds import registry
from ccl_plugins.pipeline import requirements
from ccl_plugins.pipeline.record import plugins_of

if TYPE_CHECKING:
    from ccl_plugins.runs.run import Run
    from ccl_plugins.training.parts import Parts

SINGLE = ("dataset", "views", "backbone", "method", "objective", "sampler")
"""The kinds of which a pipeline has exactly one."""

SCHEMA = 1
"""The version of the record's layout."""


class Pipeline:
    """A whole experiment as data: what is compared, conditioned on what, by which model.

    Each part is a choice (`ccl.kernel("rbf", scale=0.1)`), a bare name, a table with ``use``, or an
    object of your own.  What parts ask of each other is checked here, before data is touched.

    Args:
        dataset: What is trained on.
        backbone: Images to features.
        objective: What pairs count for.
        method: The model around the backbone.
        views: The augmentations.
        condition: The conditioning variable; objectives know it as ``"condition"``.
        conditions: Several, by name, in place of ``condition``.
        sampler: Which samples meet in a batch.
        evaluate: What is measured at the end; by default a linear probe, nearest neighbors, and a
            regression of each continuous column of the data set.
        fit: Settings of `fit`, as the ``[fit]`` table of a configuration.

    Raises:
        RegistryError: For names, parameters and configurations that are not right; see its tree.
        ValueError: For parts that do not go together.
    """

    def __init__(
        self,
        *,
        dataset: Any,
        backbone: Any,
        objective: Any,
        method: Any = "simclr",
        views: Any = "simclr",
        condition: Any = None,
        conditions: Mapping[str, Any] | None = None,
        sampler: Any = "uniform",
        evaluate: Iterable[Any] | None = None,
        fit: Mapping[str, Any] | None = None,
    ) -> None:
        if condition is not None and conditions is not None:
            raise ValueError("give condition= or conditions={name: ...}, not both")
        if condition is not None:
            conditions = {"condition": condition}
        given = {
            "dataset": dataset,
            "views": views,
            "backbone": backbone,
            "method": method,
            "objective": objective,
            "sampler": sampler,
        }
        requirements.check_tables(conditions, evaluate, fit)
        reg = registry()
        self.choices = {kind: reg.read(kind, given[kind], where=kind) for kind in SINGLE}
        self.conditions = {
            name: reg.read("condition", choice, where=_place(name, conditions or {}))
            for name, choice in (conditions or {}).items()
        }
        self.settings = requirements.fit_settings(fit or {})
        self._cache: dict[Any, Any] = {}
        self.dataset = self.choices["dataset"].build(cache=self._cache)
        self.evaluators = [
            reg.read("evaluator", choice, where=f"evaluate[{i}]")
            for i, choice in enumerate(
                requirements.default_evaluators(self.dataset) if evaluate is None else evaluate
            )
        ]
        self._check()
        reg.call("ccl_pipeline_composed", pipeline=self)  # a plug-in rejects a pipeline by raising

    def _check(self) -> None:
        """Whether the parts go together; what is built for it is thrown away, but for the data set."""
        import torch

        with torch.random.fork_rng(devices=[]):
            objective = self.choices["objective"].build(cache={})
        views = self.choices["views"].build(cache={})
        conditions = self._conditions()
        self.build_evaluators()
        unread = requirements.check(objective, views, conditions)
        by_sampler = requirements.read_by_sampler(self.choices["sampler"], conditions)
        if unread := [name for name in unread if name != by_sampler]:
            warnings.warn(
                f"nothing in this pipeline reads the condition {', '.join(unread)}", stacklevel=3
            )

    def _conditions(self) -> dict[str, Any]:
        supplied = {"dataset": self.dataset}
        return {
            name: choice.build(supplied, cache=self._cache)
            for name, choice in self.conditions.items()
        }

    def build(self) -> Parts:
        """New modules with new weights, drawn from torch's global generator."""
        from ccl_plugins.training.parts import Parts

        supplied: dict[str, Any] = {"dataset": self.dataset}
        cache: dict[Any, Any] = {}
        supplied["backbone"] = self.choices["backbone"].build(cache=cache)
        conditions = self._conditions()
        return Parts(
            dataset=self.dataset,
            views=self.choices["views"].build(cache=cache),
            method=self.choices["method"].build(supplied, cache=cache),
            objective=self.choices["objective"].build(cache=cache),
            conditions=conditions,
            sampler=partial(_make_sampler, self.choices["sampler"]),
            sampler_on=requirements.read_by_sampler(self.choices["sampler"], conditions),
        )

    def build_evaluators(self) -> list[Any]:
        """The measurements, built."""
        supplied = {"dataset": self.dataset}
        return [choice.build(supplied) for choice in self.evaluators]

    def fit(
        self,
        *,
        out: str | Path,
        resume: bool = False,
        overwrite: bool = False,
        callbacks: Iterable[Any] = (),
        progress: bool = True,
        **settings: Any,
    ) -> Run:
        """Train, and leave a run: record, events, checkpoints.

        Args:
            out: The run's folder.
            resume: Continue the run that is there, from its last checkpoint.
            overwrite: Delete the run that is there.
            callbacks: Lightning callbacks beside those of plug-ins.
            progress: Whether a progress bar is shown.
            settings: `ccl_plugins.training.FitSettings`; they override the pipeline's own.

        Raises:
            RunExists: If the folder holds a run, and neither ``resume`` nor ``overwrite`` is given.
        """
        from ccl_plugins.runs.train import train

        return train(
            self.with_settings(**settings),
            Path(out),
            resume=resume,
            overwrite=overwrite,
            callbacks=callbacks,
            progress=progress,
        )

    def with_settings(self, **settings: Any) -> Pipeline:
        """The same pipeline with other settings of `fit`."""
        return Pipeline(
            **{kind: self.choices[kind] for kind in SINGLE},
            conditions=self.conditions or None,
            evaluate=self.evaluators,
            fit={**self.settings.to_dict(), **settings},
        )

    def to_dict(self) -> dict[str, Any]:
        """The record: every choice by its qualified name with every parameter, and the versions."""
        choices = [*self.choices.values(), *self.conditions.values(), *self.evaluators]
        return {
            "schema": SCHEMA,
            **{kind: choice.record() for kind, choice in self.choices.items()},
            "conditions": {name: choice.record() for name, choice in self.conditions.items()},
            "evaluate": [choice.record() for choice in self.evaluators],
            "fit": self.settings.to_dict(),
            "plugins": plugins_of(choices),
        }

    def to_json(self) -> str:
        """The record as JSON."""
        return engine.to_json(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "") -> Pipeline:
        """A pipeline from a record or from the tables of a configuration."""
        allowed = (*SINGLE, "condition", "conditions", "evaluate", "fit")
        tables = {k: v for k, v in data.items() if k not in ("schema", "plugins", "callbacks")}
        engine.known_keys(tables, allowed, where or "pipeline")
        if data.get("schema", SCHEMA) != SCHEMA:
            raise engine.InvalidConfig(
                f"{where or 'pipeline'}: schema {data['schema']!r} is not known; this version writes"
                f" and reads {SCHEMA}"
            )
        if missing := [k for k in ("dataset", "backbone", "objective") if k not in tables]:
            raise engine.InvalidConfig(f"{where or 'pipeline'}: {missing[0]!r} is missing")
        if "conditions" in tables and not tables["conditions"]:
            del tables["conditions"]
        return cls(**tables)

    @classmethod
    def from_toml(cls, path: str | Path) -> Pipeline:
        """A pipeline from a TOML file.

        Raises:
            InvalidConfig: For a file that is no TOML, or with a table or key that is not known.
        """
        return cls.from_dict(engine.read_toml(path), where=str(path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # compared by its record, and not a key

    def __repr__(self) -> str:
        parts = [f"{kind}={choice!r}" for kind, choice in self.choices.items()]
        parts += [f"conditions={self.conditions!r}"] if self.conditions else []
        return "Pipeline(\n    " + ",\n    ".join(parts) + ",\n)"


def _make_sampler(choice: Any, **supplied: Any) -> Any:
    return choice.build(supplied)


def _place(name: str, conditions: Mapping[str, Any]) -> str:
    return "condition" if list(conditions) == ["condition"] else f"conditions.{name}"
