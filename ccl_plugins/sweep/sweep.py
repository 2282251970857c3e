"""A sweep as data: one configuration, and the values of its keys in grids or a search."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ccl_registry as engine
from ccl_plugins.arguments import one_of, whole
from ccl_plugins.datasets.splitting import SPLITS
from ccl_plugins.evaluators.intervals import FEW
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.configuration import dotted, override
from ccl_plugins.kinds import registry
from ccl_plugins.metadata.groups import sample_groups, validation_rows

SEARCH = ("trials", "seed", "prune")
"""The keys of a ``[search]`` table that are not keys of the pipeline."""

NAME = "name"
"""The key of a grid that is not a key of the pipeline: the name of its cells in tables."""


@dataclass(frozen=True)
class Range:
    """The values from ``low`` to ``high``, whole numbers if both are; ``log``: drawn by their logarithm."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        numbers = (self.low, self.high)
        if any(isinstance(x, bool) or not isinstance(x, int | float) for x in numbers):
            raise ValueError(f"low and high must be numbers, not {self.low!r} and {self.high!r}")
        if not math.isfinite(self.high - self.low) or self.low >= self.high:
            raise ValueError(f"low must be below high, not {self.low!r} and {self.high!r}")
        if self.log and self.low <= 0:
            raise ValueError(f"with log = true, low must be above 0, not {self.low!r}")


@dataclass(frozen=True)
class Sweep:
    """The definition of a sweep.

    Args:
        tables: The configuration that is changed.
        spaces: The grids, or the one space of a search.  Each has a list of values for every key, or a
            range, which is for a search only; a grid's ``name`` is a list of one.
        out: The sweep's folder.
        metric: The metric of the validation part that cells are compared by, such as ``"linear/top1"``.
        direction: ``"maximize"`` or ``"minimize"``.
        trials: Cells of a search; None: all cells of a grid.
        seed: The seed of a search.
        prune: The logged value by which a search stops a cell early, such as
            ``"monitor/linear/top1"``, if it is worse than the median of the earlier cells at the
            same step; None: no cell is stopped.
        subject_to: Bounds of other metrics of the validation part, by name, such as
            ``{"linear-site/top1": {"most": 0.6}}``: cells within the bounds come before the others.
        follow: Keys that have the value of another key in each cell, such as ``{"dataset.seed":
            "fit.seed"}``: each seed then draws its own data too.
        validation: The table of a data set whose test split replaces the validation part; None: a
            part of the training split.
        slurm: Options of submitit for SLURM, such as ``{"timeout_min": 600, "slurm_partition":
            "gpu"}``.
    """

    tables: Mapping[str, Any]
    spaces: Sequence[Mapping[str, Sequence[Any] | Range]]
    out: Path
    metric: str = "linear/top1"
    direction: str = "maximize"
    trials: int | None = None
    seed: int = 0
    prune: str | None = None
    subject_to: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    follow: Mapping[str, str] = field(default_factory=dict)
    validation: Mapping[str, Any] | None = None
    slurm: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Sequence[Any] | Range]:
        """The values of each key, in all spaces together."""
        merged: dict[str, Any] = {}
        for space in self.spaces:
            for key, each in space.items():
                old = merged.get(key, [])
                new = each if isinstance(each, Range) else [v for v in each if v not in old]
                merged[key] = new if isinstance(new, Range) else [*old, *new]
        return merged

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The values of each cell, grid after grid, the last key's changing fastest."""
        lists = [
            {key: each for key, each in space.items() if not isinstance(each, Range)}
            for space in self.spaces
        ]
        return [
            dict(zip(space, cell, strict=True))
            for space in lists
            for cell in itertools.product(*space.values())
        ]

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.cells) if self.trials is None else self.trials

    def configuration(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration with the values of a cell.

        Raises:
            InvalidConfig: For a key that the configuration cannot have.
        """
        # A component before its parameters.
        given = {dotted(key): value for key, value in cell.items() if key != NAME}
        given |= {dotted(key): cell[other] for key, other in self.follow.items()}
        changes = sorted(given.items(), key=lambda change: len(change[0]))
        return override(self.tables, changes)

    def excess(self, metrics: Mapping[str, float]) -> float:
        """The total amount by which metrics are beyond the bounds of ``subject_to``; 0 within them.

        For a missing metric it is infinite.
        """
        beyond = 0.0
        for name, bounds in self.subject_to.items():
            value = metrics.get(name, math.nan)
            over = max(
                value - bounds.get("most", math.inf), bounds.get("least", -math.inf) - value, 0
            )
            beyond += math.inf if math.isnan(value) else over
        return beyond

    @property
    def own_validation(self) -> Any:
        """The data set whose test split cells are chosen by; None: a part of the training split is."""
        if self.validation is None:
            return None
        return registry().read("dataset", self.validation, where="validation").build()

    def check(self) -> None:
        """Compose the pipeline of every cell; for a search, of every listed value and both ends.

        Raises:
            ValueError: For the first cell that cannot be composed, with its values, and for a wrong
                data set.
        """
        _ = self.own_validation
        cells = self.cells if self.trials is None else self._ends()
        for cell in cells:
            try:
                pipeline = Composition.from_dict(self.configuration(cell))
                if not pipeline.built_evaluators:
                    raise ValueError("evaluate has no evaluator, but a sweep chooses cells by one")
                if pipeline.settings.processes > 1:
                    raise ValueError(
                        "a sweep trains each cell in one process: fit.devices and fit.nodes must be 1;"
                        " --jobs trains several cells at a time, each on a GPU of its own"
                    )
            except (ValueError, TypeError) as error:
                raise type(error)(f"{named(cell)}: {error}") from error

    def remarks(self) -> list[str]:
        """Reasons why the choice between cells is uncertain, a line each, from the first cell's data.

        These are a validation part of few groups or samples, and each condition that is correlated
        with the label in the training split.

        Raises:
            ValueError: If the training split has no validation part: it is of one group, or sample.
        """
        from ccl_plugins.explore.inspection import associated

        own = self.own_validation
        if own is not None:
            split = own("test")
            return [*_of_few(split, torch.arange(len(split)))]
        first = (self.cells if self.trials is None else self._ends())[0]
        pipeline = Composition.from_dict(self.configuration(first))
        train, test = (pipeline.dataset(name) for name in SPLITS)
        return [*_of_few(train, held_rows(train)), *associated(pipeline, train, test)]

    def _ends(self) -> list[dict[str, Any]]:
        """Cells of a search that together have each value of a list, and each end of a range."""
        ends = {
            key: [each.low, each.high] if isinstance(each, Range) else list(each)
            for key, each in self.values.items()
        }
        most = max(map(len, ends.values()))
        return [{key: each[i % len(each)] for key, each in ends.items()} for i in range(most)]

    def to_dict(self) -> dict[str, Any]:
        """The definition as plain data, without the folder and the options for SLURM."""
        # By number, so that a difference names the key that differs.
        spaces = {
            str(i): {k: asdict(v) if isinstance(v, Range) else list(v) for k, v in space.items()}
            for i, space in enumerate(self.spaces, 1)
        }
        kept = {key: each for key, each in vars(self).items() if key not in ("out", "slurm")}
        return {**kept, "spaces": spaces}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], out: Path) -> Sweep:
        """A sweep from its definition."""
        spaces = [
            {k: Range(**v) if isinstance(v, Mapping) else v for k, v in space.items()}
            for space in data["spaces"].values()
        ]
        return cls(**{**data, "spaces": spaces, "out": out})

    @classmethod
    def from_toml(
        cls, path: str | Path, changes: Iterable[tuple[tuple[str, ...], Any]] = ()
    ) -> Sweep:
        """A sweep from a TOML file, whose ``base`` is a path relative to it or a table.

        Args:
            path: The file.
            changes: Values in place of the base's, each with its keys.

        Raises:
            InvalidConfig: For unknown, missing and wrong keys, with the file's name.
            FileNotFoundError: If there is no such file, or no base.
        """
        path = Path(path).expanduser()
        data = engine.read_toml(path)
        engine.check_keys(data, _TABLES, str(path))
        try:
            return _read(data, path, changes)
        except (ValueError, TypeError) as error:
            if isinstance(error, engine.RegistryError):
                raise
            raise engine.InvalidConfig(f"{path}: {error}") from error


def _read(
    data: Mapping[str, Any], path: Path, changes: Iterable[tuple[tuple[str, ...], Any]]
) -> Sweep:
    base = data.get("base")
    if not isinstance(base, str | Mapping):
        raise ValueError(
            f"base must be a path, as base = 'color_digits_fair.toml', or a table, not {base!r}"
        )
    if not isinstance(data.get("out"), str):
        raise ValueError(f"out must be a path, as out = 'runs/sweep', not {data.get('out')!r}")
    if ("grid" in data) == ("search" in data):
        raise ValueError("give one of the tables [grid] and [search]")
    kind = "grid" if "grid" in data else "search"
    table = data[kind]
    several = kind == "grid" and isinstance(table, list) and bool(table)
    given: dict[str, Any] = {}
    spaces = []
    for space in table if several else [table]:
        if not isinstance(space, Mapping):
            raise ValueError(f"{kind} must be a table of keys and values, not {space!r}")
        if kind == "search":
            given = {key: space[key] for key in SEARCH if key in space}
            whole("search.trials", given.setdefault("trials", None), 1)
            whole("search.seed", given.get("seed", 0), 0)
        elif not isinstance(space.get(NAME, ""), str):
            raise ValueError(f"a grid's name must be text, not {space[NAME]!r}")
        own = {key: [value] for key, value in space.items() if kind == "grid" and key == NAME}
        rest = {key: value for key, value in space.items() if key not in (*given, *own)}
        values = {key: _values(key, value, kind) for key, value in _flat(rest)}
        if not values:
            raise ValueError(
                f'[{kind}] has no key of the pipeline, such as "objective.temperature" = [0.1, 0.5]'
            )
        spaces.append({**own, **values})
    metric = data.get("metric", "linear/top1")
    for name, text in (("metric", metric), ("search.prune", given.get("prune") or "")):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a name, such as 'linear/top1', not {text!r}")
    direction = data.get("direction", "maximize")
    one_of("direction", direction, ("maximize", "minimize"))
    if isinstance(base, str):
        base = engine.read_toml(path.parent / Path(base).expanduser())
    tables = override(base, list(changes))
    out, slurm = Path(data["out"]).expanduser(), data.get("slurm", {})
    if not isinstance(slurm, Mapping):
        raise ValueError(f"slurm must be a table of submitit's options, not {slurm!r}")
    given["subject_to"] = _bounds(data.get("subject_to", {}))
    given["validation"] = data.get("validation")
    given["follow"] = data.get("follow", {})
    sweep = Sweep(tables, spaces, out, metric, direction, **given, slurm=slurm)
    _check_follow(sweep)
    if kind == "grid":
        cells = sweep.cells
        for i, cell in enumerate(cells):
            if cell in cells[:i]:
                raise ValueError(f"two grids have the same cell: {named(cell)}")
    return sweep


_TABLES = (
    "base",
    "out",
    "metric",
    "direction",
    "subject_to",
    "follow",
    "validation",
    "grid",
    "search",
    "slurm",
)


def held_rows(train: Any) -> Tensor:
    """The rows of a training split that are its validation part.

    Raises:
        ValueError: If it has none, because there is one group, or one sample.
    """
    try:
        return validation_rows(len(train), sample_groups(train))[1]
    except ValueError as error:
        raise ValueError(f"{error}; {OWN} takes its place") from None


OWN = "data of your own (validation = {...} of the sweep)"
"""The data by which cells can be chosen in place of a part of the training split."""


def _of_few(split: Any, rows: Tensor) -> Iterator[str]:
    """A line if the rows (k,) by which cells are chosen are few groups or samples."""
    groups = sample_groups(split)
    ids = torch.arange(len(split)) if groups is None else groups
    count = len(ids[rows].unique())
    if count >= FEW:
        return
    units = "samples" if groups is None else f"groups of {split.group!r}"
    part = f"{count} of {len(ids.unique())} {units}"
    if groups is not None:
        part += f", {len(rows)} of {len(split)} samples"
    label = torch.as_tensor(split.metadata["label"])
    if label.ndim == 1 and not label.is_floating_point():
        classes = len(label.unique())
        if lacking := classes - len(label[rows].unique()):
            part += f", without {lacking} of {classes} classes"
    why = "need not be best on another" if count == 1 else "may be the best by luck"
    without = "" if groups is None else f", and fewer than {FEW} groups give no interval"
    yield (
        f"cells are chosen by {part}: the best cell {why}{without}; a training split of more {units}, or"
        f" {OWN}, decides more surely"
    )


def _bounds(given: Any) -> Mapping[str, Mapping[str, float]]:
    """The table ``subject_to``, checked."""
    if not isinstance(given, Mapping):
        raise ValueError(f"subject_to must be a table of metrics and bounds, not {given!r}")
    for name, bounds in given.items():
        right = isinstance(bounds, Mapping) and bounds and bounds.keys() <= {"least", "most"}
        if not right or not all(type(x) in (int, float) for x in bounds.values()):
            raise ValueError(
                f"subject_to: {name!r} must have bounds, such as {{most = 0.6}} or {{least = 0.9}}, not"
                f" {bounds!r}"
            )
    return given


def _check_follow(sweep: Sweep) -> None:
    """The table ``follow``, checked."""
    if not isinstance(sweep.follow, Mapping):
        raise ValueError(f"follow must be a table of keys, not {sweep.follow!r}")
    for key, other in sweep.follow.items():
        if other not in sweep.values:
            raise ValueError(
                f"follow: {key} = {other!r} must name a key that the sweep tries, one of"
                f" {[each for each in sweep.values if each != NAME]}"
            )
        if without := [i for i, space in enumerate(sweep.spaces, 1) if other not in space]:
            raise ValueError(f"follow: {key} = {other!r}, which grid {without[0]} does not try")
        if key in sweep.values:
            raise ValueError(f"follow: {key} has values of its own")


def _flat(table: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values; a dotted key without quotes is a table in a table."""
    for key, each in table.items():
        if isinstance(each, Mapping) and not {"low", "high"} & each.keys():
            yield from _flat(each, f"{place}{key}.")
        else:
            yield f"{place}{key}", each


def _values(key: str, given: Any, kind: str) -> list[Any] | Range:
    try:
        dotted(key)
    except ValueError as error:
        raise ValueError(
            f"{key!r} is not a key of a pipeline, such as 'objective.temperature': {error}"
        ) from error
    if isinstance(given, list):
        if not given:
            raise ValueError(f"{key} has no values")
        if any(each in given[:i] for i, each in enumerate(given)):
            raise ValueError(f"{key} has a value twice: {given!r}")
        return given
    if kind == "grid":
        raise ValueError(
            f"{key} must be a list of values in a grid, such as [0.1, 0.5], not {given!r}"
        )
    ends = {"low", "high"}
    if not isinstance(given, Mapping) or not ends <= given.keys() <= {*ends, "log"}:
        raise ValueError(
            f"{key} must be a list of values, or a range such as {{low = 0.01, high = 1.0, log = true}},"
            f" not {given!r}"
        )
    try:
        return Range(**given)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def named(cell: Mapping[str, Any]) -> str:
    """The values of a cell in one line: ``objective.kernel.scale=0.1 fit.seed=0``."""
    short = {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in cell.items()}
    return " ".join(f"{key}={text_of(value)}" for key, value in short.items())


def text_of(value: Any) -> str:
    """A value in a line: words unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
