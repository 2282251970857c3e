"""The conditions of a run: when they are computed, and the values of each batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.files.mapped import place_of, rows
from ccl_plugins.files.processes import is_first
from ccl_plugins.files.reading import naming_files
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.metadata import fitted
from ccl_plugins.metadata.fitted import (
    TableSummary,
    one_of_each,
    source_of,
    summarize,
    together,
    variables,
)
from ccl_plugins.metadata.variable import Variable, check_policy, check_values
from ccl_plugins.numerics.generators import mix, seed_cpu, undisturbed
from ccl_plugins.protocols import (
    Condition,
    Embedded,
    Embedder,
    Refresh,
    Table,
    trait,
)
from ccl_plugins.training import ranks
from ccl_plugins.training.first_use import check_observed
from ccl_plugins.training.table_files import put, reference

Embedding = Literal["projection", "key", "features"]
"""The embedding of each sample: the head's output, the momentum encoder's, or the backbone's."""


class Embeddings(fitted.Embeddings):
    """A `ccl_plugins.protocols.Embedder` of several processes.

    Args:
        embed: Returns the (N, d) embeddings; all processes call it, once.
        device: The device on which each process finds the nearest points to its part.
    """

    def __init__(self, embed: Callable[[], Tensor], device: torch.device | str) -> None:
        super().__init__(embed)
        self.device = device

    def nearest(self, centroids: Tensor) -> Tensor:
        """(N,) the nearest of the points (k, d) to each; called by the first process, the others `help`."""
        self()  # it may refuse, before the other processes are asked
        return self.help(ranks.ask(centroids))

    def help(self, centroids: Tensor) -> Tensor:
        """Find the nearest points to this process's part; all processes call it and get all results."""
        values = self()
        part = ranks.chunk(len(values))
        nearest = fitted.nearest(values[part.start : part.stop], centroids, self.device)
        return ranks.gather_rows(nearest, len(values)).cpu()


class Tables:
    """The tables of all conditions of a run, the same on all processes.

    The first process fits them, once or at the start of each epoch, according to ``refresh``.
    Conditions with ``refresh = "batch"`` have no table. A condition's fit draws random numbers from
    the stream (seed, epoch, its place).

    Raises:
        ValueError: For an unknown ``refresh`` or policy for missing values.
    """

    def __init__(
        self,
        conditions: Mapping[str, Condition],
        size: int,
        seed: int = 0,
        run: RunFolder | None = None,
    ) -> None:
        self.conditions: dict[str, Any] = variables(conditions)
        for name, condition in self.conditions.items():
            one_of(f"refresh of condition {name!r}", condition.refresh, get_args(Refresh))
            check_policy(trait(condition, "missing"), condition.value_type)
        self.size = size
        self.seed = seed
        self.run = run
        """The run whose files hold the values of large tables; None: they stay in memory."""
        self.tables: dict[str, Table] = {}
        self.epochs: dict[str, int] = {}
        self.missing: dict[str, int] = {}
        """The number of samples without a value when a condition was fitted; on the first process."""
        self.variables: dict[str, Variable] = {}
        """The values of each table, their type, and the samples without a value."""
        self._in_file: dict[str, bool] = {}
        self._on_device: dict[tuple[str, str], Tensor] = {}
        self._references: dict[str, dict[str, Any] | None] = {}
        """The place of each table's values in a file; found when a checkpoint is first written."""

    def __getitem__(self, name: str) -> Table:
        if name not in self.tables:
            raise KeyError(self._why_no_table(name))
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def refresh(
        self,
        epoch: int,
        split: Any,
        embed: Callable[..., Tensor],
        device: torch.device | str = "cpu",
    ) -> list[str]:
        """Fit the conditions that are due in ``epoch``, and return their names; called by all processes.

        ``embed()`` gives the (N, d) unit-norm projections, ``embed("key")`` the momentum encoder's keys,
        ``embed("features")`` the backbone's features; all processes take part in each call. On
        ``device`` each process finds the nearest points to its embeddings.

        Raises:
            RuntimeError: For a condition that calls ``embed`` without declaring it.
            ValueError: For a table without one row per sample, or with missing values that its
                condition does not allow; for a refreshed table that leaves out other samples than
                before.
        """
        due = {n: c for n, c in self.conditions.items() if self._is_due(n, epoch)}
        embed_once = cache(embed)
        try:
            self._refresh(due, epoch, split, embed_once, device)
        finally:
            if self.run is not None and is_first():
                self.run.delete(*self.run.embeddings.values())
        return list(due)

    def _refresh(
        self,
        due: Mapping[str, Any],
        epoch: int,
        split: Any,
        embed: Callable[..., Tensor],
        device: torch.device | str,
    ) -> None:
        for names in together(due):
            reads = trait(due[names[0]], "reads_embeddings")
            given = Embeddings(partial(embed, reads) if isinstance(reads, str) else embed, device)
            if ranks.world_size() > 1 and reads:
                given()  # all processes embed together; then the first one fits alone
            left_out, refreshed = self.left_out(), names[0] in self.tables
            fit = partial(self._fit, names, epoch, split, given)
            for name, table in ranks.on_first(fit, given.help).items():
                self._hold(name, table, epoch)
            if refreshed and not torch.equal(left_out, self.left_out()):
                raise ValueError(
                    f"condition {', '.join(map(repr, names))} has no value for other samples than an epoch"
                    " before; with missing='drop' an epoch would have another length"
                )

    def _hold(self, name: str, table: Table, epoch: int) -> None:
        condition = self.conditions[name]
        self.tables[name], self.epochs[name] = table, epoch
        complete = trait(condition, "missing") == "error"  # a check found no missing value
        self.variables[name] = Variable(table.values, condition.value_type, complete=complete)
        self._in_file[name] = place_of(table.values) is not None
        self._on_device.clear()
        self._references.pop(name, None)

    @property
    def ignored(self) -> tuple[str, ...]:
        """The conditions whose missing values leave samples out of the objectives that read them.

        Conditions with a table without missing values are not among them.
        """
        ignoring = [
            n for n, condition in self.conditions.items() if trait(condition, "missing") == "ignore"
        ]
        held = self.variables
        return tuple(name for name in ignoring if name not in held or held[name].has_gaps)

    def keep_once(self, split: Any) -> None:
        """Fit and keep the tables that are fitted once and only from the split."""
        for name, table in self.once(split).items():
            self._hold(name, table, 0)

    def once(self, split: Any) -> dict[str, Table]:
        """Fit, without keeping them, the tables that are fitted once and only from the split."""
        static = {
            name: condition
            for name, condition in self.conditions.items()
            if condition.refresh == "never" and not trait(condition, "reads_embeddings")
        }
        tables: dict[str, Table] = {}
        for names in together(static):
            tables |= self._fit(names, 0, split, _refused(names[0]))
        return tables

    def _is_due(self, name: str, epoch: int) -> bool:
        refresh = self.conditions[name].refresh
        if refresh == "batch":
            return False
        return name not in self.tables or (refresh == "epoch" and self.epochs[name] < epoch)

    def _fit(self, names: list[str], epoch: int, split: Any, embed: Embedder) -> dict[str, Table]:
        """Fit a condition, and check its table, or the table of each variable."""
        first, *_ = names
        group = [self.conditions[name] for name in names]
        source: Any = source_of(group[0])
        given = embed if trait(group[0], "reads_embeddings") else _refused(first)
        before: Any = self.tables.get(first)
        if source is not group[0] and before is not None:
            before = {each.key: self.tables[n] for n, each in zip(names, group, strict=True)}
        with undisturbed(), torch.no_grad():
            seed_cpu(mix(self.seed, epoch, list(self.conditions).index(first)))
            computed = source.fit(split, given, before)
        tables = {}
        for name, each in zip(names, one_of_each(group, computed), strict=True):
            table = self._checked(name, each)
            tables[name] = table if self.run is None else put(self.run, name, epoch, table)
        return tables

    def _checked(self, name: str, computed: Any) -> Table:
        condition = self.conditions[name]
        table = computed if isinstance(computed, Table) else Table(computed)
        policy = trait(condition, "missing")
        with naming_files(getattr(source_of(condition), "file", None)):
            values, missing = check_values(
                name, table.values, condition.value_type, self.size, policy
            )
        if missing and name not in self.missing:
            fates = {
                "own": "positives of their own views only",
                "ignore": "left out of the objectives that read it",
                "drop": "left out of training",
            }
            warnings.warn(
                f"condition {name!r} is missing in {missing} of {self.size} samples, which are"
                f" {fates[policy]}",
                stacklevel=2,
            )
        self.missing[name] = missing
        return Table(values.cpu(), {k: v.detach().cpu() for k, v in table.extras.items()})

    def describe(self, name: str) -> TableSummary:
        """A summary of a condition's table, including samples that are left out."""
        return summarize(self[name], self.variables[name].value_type, self.missing.get(name))

    def left_out(self) -> Tensor:
        """(N,) True at samples that are not trained on: a ``"drop"`` condition has no value for them."""
        out = torch.zeros(self.size, dtype=torch.bool)
        for name in self.tables:
            if trait(self.conditions[name], "missing") == "drop":
                out |= self.variables[name].missing
        return out

    def trained_on(self, name: str) -> Table:
        """A condition's table without the samples that are left out."""
        return _without(self[name], self.left_out())

    def with_values(self, name: str, *others: str) -> Table:
        """A condition's table without the samples that are left out of training or have no value.

        With ``others``, also without samples that have no value of these conditions.
        """
        lost = [self.variables[each].missing for each in (name, *others)]
        return _without(self[name], torch.stack([self.left_out(), *lost]).any(0))

    def read(self, index: Tensor) -> dict[str, Tensor]:
        """The values of a batch of the conditions whose tables are in files.

        Args:
            index: (n,) or (n, 2) dataset indices on the CPU.

        Raises:
            ChangedFile: If such a file was changed since the run began.
        """
        return {n: rows(t.values, index) for n, t in self.tables.items() if self._in_file[n]}

    def look_up(self, index: Tensor, read: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The values of a batch, by condition, on the device of its dataset indices (n,).

        Args:
            index: (n,) dataset indices.
            read: The result of `read` for them; None: they are read now.

        Raises:
            RuntimeError: For a condition that is not fitted yet.
        """
        for name, condition in self.conditions.items():
            if condition.refresh != "batch" and name not in self.tables:
                raise RuntimeError(self._why_no_table(name))
        if read is None:
            near = index.cpu() if any(self._in_file.values()) else index
            read = {n: values.to(index.device) for n, values in self.read(near).items()}
        return {
            name: read[name] if name in read else self._on(index.device, name, "", t.values)[index]
            for name, t in self.tables.items()
        }

    def extras_on(self, device: torch.device) -> dict[str, Tensor]:
        """The further tensors of all tables, as ``"<condition>/<name>"``, on a device."""
        return {
            f"{name}/{key}": self._on(device, name, key, value)
            for name, table in self.tables.items()
            for key, value in table.extras.items()
        }

    def _on(self, device: torch.device, name: str, key: str, value: Tensor) -> Tensor:
        """A tensor on a device, moved there once: a copy in every step would wait for the device."""
        moved = self._on_device.get((name, key))
        if moved is None or moved.device != device:
            moved = self._on_device[name, key] = value.to(device)
        return moved

    def observe(self, embedded: Embedded) -> dict[str, Tensor]:
        """The values of the conditions that are computed from the embedded batch, without gradient."""
        now = {n: c for n, c in self.conditions.items() if c.refresh == "batch"}
        values: dict[str, Tensor] = {}
        with torch.no_grad():
            for names in together(now):
                group = [now[name] for name in names]
                computed = source_of(group[0])(embedded)
                values |= zip(names, one_of_each(group, computed), strict=True)
        u, n = embedded.projections.shape[:2]
        for name, each in values.items():
            check_observed(name, now[name], each, u, n)
        return values

    def state_dict(self) -> dict[str, Any]:
        """The tables as plain data and tensors; for values in a file, their place and a fingerprint."""
        state = {}
        for name, table in self.tables.items():
            if name not in self._references:
                self._references[name] = reference(table.values, self.run)
            values = self._references[name] or {"values": table.values}
            state[name] = {**values, "extras": dict(table.extras), "epoch": self.epochs[name]}
        return state

    def files(self) -> set[str]:
        """The names of the files of the run's own folder in which values of tables are."""
        places = [self._references.get(name) for name in self.tables]
        return {each["file"] for each in places if each is not None and each["file"][0] != "/"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the tables from `state_dict`, whose values `table_files.tables_of` has read.

        Raises:
            ValueError: For conditions that this run does not have, or another number of samples.
        """
        for name, saved in state.items():
            if name not in self.conditions:
                raise ValueError(
                    f"the checkpoint has a condition {name!r}; this run has {self._names()}"
                )
            condition = self.conditions[name]
            check_values(
                name, saved["values"], condition.value_type, self.size, trait(condition, "missing")
            )
            self._hold(name, Table(saved["values"], saved["extras"]), saved["epoch"])

    def _why_no_table(self, name: str) -> str:
        if name not in self.conditions:
            return f"there is no condition {name!r}; there are {self._names()}"
        if self.conditions[name].refresh == "batch":
            return f"condition {name!r} is computed in every step and has no table"
        return f"condition {name!r} is read before it was fitted: call refresh first"

    def _names(self) -> str:
        return ", ".join(map(repr, self.conditions)) or "none"


def _without(table: Table, out: Tensor) -> Table:
    return Table(table.values[~out], table.extras) if out.any() else table


def _refused(name: str) -> Embedder:
    def refuse() -> Tensor:
        raise RuntimeError(
            f"condition {name!r} calls embed() and does not declare it: give its class"
            " reads_embeddings = True"
        )

    return fitted.Embeddings(refuse)
