"""The queue of a sweep's cells: a JSON file for each, written by the process that holds the cell's lock.

Optuna is a function of the earlier cells: it draws the values of a search's next cell, and decides
whether a cell is stopped early.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.lock import FolderInUse, owning
from ccl_plugins.sweep.sweep import Range, Sweep

if TYPE_CHECKING:
    import optuna

WAIT = 600.0
"""Seconds to wait for a process that takes a cell, which takes only a moment."""

ATTEMPTS = 3
"""The number of processes that may end, for example for lack of memory, while they work on one cell."""

SUM = "crc32"
"""The key of the checksum in a cell's file."""


@dataclass(frozen=True)
class Entry:
    """A cell in the queue.

    Args:
        values: The values of the swept keys.
        state: ``"waiting"``, ``"running"``, ``"done"``, ``"pruned"`` or ``"failed: ..."``.
        ended: The number of processes that have ended while they worked on it.
        value: The sweep's metric, when it is done.
        excess: The amount by which it is beyond the bounds, after measuring.
        seen: The logged values by which it may be stopped early, by step.
    """

    values: Mapping[str, Any]
    state: str = "waiting"
    ended: int = 0
    value: float | None = None
    excess: float = 0.0
    seen: Mapping[str, float] = field(default_factory=dict)


class CellQueue:
    """The cells of a sweep, which any number of processes take, on any machine that sees the folder.

    Args:
        sweep: The sweep.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.folder = sweep, sweep.out / "queue"

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of the queue while cells are put in or taken.

        Raises:
            FolderInUse: If another process, which the message names, holds it for `WAIT` seconds.
        """
        return owning(self.folder, WAIT)

    def entries(self) -> dict[str, Entry]:
        """The cells by name, in order.

        Raises:
            ValueError: For a file that is damaged; the message names it.
        """
        names = (file.stem for file in self.folder.glob("*.json"))
        return {name: self.read(name) for name in sorted(names, key=lambda name: (len(name), name))}

    def read(self, name: str) -> Entry:
        """A cell.

        Raises:
            ValueError: If its file is damaged.
        """
        file = self._file(name)
        try:
            data = json.loads(file.read_text("utf-8"))
            if data.pop(SUM, None) != _sum(data):
                raise ValueError("it does not have its checksum")
            return Entry(**data)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{file} is damaged ({error}): the cells' runs are whole; begin the sweep in another"
                " folder, or bring a copy of the file back"
            ) from error

    def write(self, name: str, entry: Entry) -> None:
        """Put a cell in, or change it."""
        data = asdict(entry)
        with atomic_write(self._file(name)) as temporary:
            temporary.write_text(json.dumps({**data, SUM: _sum(data)}, indent=2) + "\n", "utf-8")

    def change(self, name: str, **known: Any) -> Entry:
        """Write new facts about a cell, and return the changed cell."""
        entry = replace(self.read(name), **known)
        self.write(name, entry)
        return entry

    def fill(self) -> None:
        """Put in the cells of a grid, and again cells that failed or whose process has ended."""
        entries = self.entries()
        for i, values in enumerate(self.sweep.cells if self.sweep.trials is None else ()):
            if _name(i) not in entries:
                self.write(_name(i), Entry(values))
        for name, entry in entries.items():
            if entry.state.startswith("failed") or self._is_abandoned(name, entry):
                self.change(name, state="waiting", ended=0)

    @contextmanager
    def taking(self) -> Iterator[str | None]:
        """Take a cell that waits, was abandoned, or is drawn, and hold its lock; None: none is left."""
        with ExitStack() as held:
            with self.locked():
                name = self._next()
                if name is not None:
                    held.enter_context(owning(self.folder / name))
                    self.change(name, state="running")
            yield name

    def _next(self) -> str | None:
        entries = self.entries()
        for name, entry in entries.items():
            if entry.state == "waiting":
                return name
        for name, entry in entries.items():
            if self._is_abandoned(name, entry):
                entry = self.change(name, ended=entry.ended + 1)
                if entry.ended < ATTEMPTS:
                    return name
                self.change(name, state="failed: its processes ended")
        if len(entries) >= (self.sweep.trials or 0):
            return None
        number = next(i for i in itertools.count() if _name(i) not in entries)
        self.write(_name(number), Entry(self._drawn(entries, self.sweep.seed + number)))
        return _name(number)

    def _is_abandoned(self, name: str, entry: Entry) -> bool:
        """Whether the process that worked on a cell has ended; asked while the queue's lock is held."""
        if entry.state != "running":
            return False
        try:
            # Nobody else asks meanwhile: who holds the lock works on the cell, and is not waited for.
            with owning(self.folder / name, patience=0):
                # It may have been done with the cell since the entry was read.
                return self.read(name).state == "running"
        except FolderInUse:
            return False

    def _drawn(self, entries: Mapping[str, Entry], seed: int) -> dict[str, Any]:
        """Values for the next cell of a search, which depend only on a seed and the earlier cells."""
        study = self.study(entries)
        study.sampler = import_optuna().samplers.TPESampler(seed=seed, constant_liar=True)
        return self._as_values(study.ask(self._distributions()).params)

    def is_behind(self, name: str, step: int, value: float) -> bool:
        """Note a logged value of a cell; return whether it is worse than the median of finished cells."""
        entries = self.entries()
        entry = self.change(name, seen={**entries[name].seen, str(step): value})
        pruner = import_optuna().pruners.MedianPruner()
        behind: bool = pruner.prune(self.study(entries), self._trial(entry))
        return behind

    def study(self, entries: Mapping[str, Entry]) -> optuna.Study:
        """Cells as Optuna's study, in memory."""
        study = import_optuna().create_study(direction=self.sweep.direction)
        study.add_trials(
            self._trial(entry)
            for entry in entries.values()
            if entry.state in ("done", "pruned", "running")
        )
        return study

    def _trial(self, entry: Entry) -> optuna.trial.FrozenTrial:
        optuna = import_optuna()
        state = {"done": "COMPLETE", "pruned": "PRUNED"}.get(entry.state, "RUNNING")
        bounded = self.sweep.subject_to and state != "RUNNING"
        return optuna.trial.create_trial(
            state=optuna.trial.TrialState[state],
            value=entry.value,
            params=self._as_params(entry.values),
            distributions=self._distributions(),
            intermediate_values={int(step): value for step, value in entry.seen.items()},
            constraints={"subject_to": entry.excess} if bounded else None,  # 0 is within the bounds
        )

    def _distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        kinds = import_optuna().distributions
        distributions: dict[str, Any] = {}
        for key, values in self.sweep.values.items():
            if not isinstance(values, Range):
                labels = [json.dumps(value) for value in values]
                distributions[key] = kinds.CategoricalDistribution(labels)
            else:
                whole = isinstance(values.low, int) and isinstance(values.high, int)
                kind = kinds.IntDistribution if whole else kinds.FloatDistribution
                distributions[key] = kind(values.low, values.high, log=values.log)
        return distributions

    def _as_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A cell's values in Optuna's form: values of a list, which may be tables, as JSON."""
        known = self.sweep.values
        return {k: v if isinstance(known[k], Range) else json.dumps(v) for k, v in values.items()}

    def _as_values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        known = self.sweep.values
        return {k: v if isinstance(known[k], Range) else json.loads(v) for k, v in params.items()}

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def import_optuna() -> Any:
    """Optuna, limited to warnings.

    Raises:
        ImportError: If it is not installed; the message says how to install it.
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError('a search needs Optuna: pip install "ccl-plugins[sweep]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _name(i: int) -> str:
    return f"{i:03d}"


def _sum(data: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(data, sort_keys=True).encode())
