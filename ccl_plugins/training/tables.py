"""The engine behind conditions: when they are computed, and the values a batch is given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.metadata.fitted import TableSummary, summarize
from ccl_plugins.metadata.values import check_policy, check_values, missing_rows
from ccl_plugins.protocols import Condition, Embedded, Table
from ccl_plugins.training import ranks
from ccl_plugins.training.randomness import mix, seed_cpu, undisturbed


class Tables:
    """The tables of all conditions of a run.

    Static ones are fitted once and refreshed ones at the start of each epoch, on the first process;
    all processes have the same.  Online ones have no table.

    Args:
        conditions: By name.  What becomes of missing values is said by a condition's attribute
            ``missing``, a `ccl_plugins.protocols.Missing`; without one they are an error.
        size: Number of training samples.
        seed: A condition's fit draws from a stream of (seed, epoch, its place).
    """

    def __init__(self, conditions: Mapping[str, Condition], size: int, seed: int = 0) -> None:
        for name, condition in conditions.items():
            if condition.refresh not in ("never", "epoch", "batch"):
                raise ValueError(
                    f"condition {name!r} has refresh {condition.refresh!r};"
                    " there are 'never', 'epoch' and 'batch'"
                )
            check_policy(_policy(condition), condition.value_type)
        self.conditions = dict(conditions)
        self.size = size
        self.seed = seed
        self.tables: dict[str, Table] = {}
        self.epochs: dict[str, int] = {}
        self.missing: dict[str, int] = {}
        """How many samples lacked a value when a condition was fitted; on the first process."""
        self._near: dict[tuple[str, str], Tensor] = {}

    def __getitem__(self, name: str) -> Table:
        if name not in self.tables:
            raise KeyError(self._not_there(name))
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def refresh(self, epoch: int, split: Any, embed: Callable[[], Tensor]) -> list[str]:
        """Fit what ``epoch`` needs and lacks, and say which; called by all processes.

        Args:
            epoch: The epoch about to start.
            split: The training split.
            embed: Gives the (N, d) unit-norm projections; all processes take part in each call.

        Raises:
            ValueError: For a table that is not one row per sample, or has missing values that its
                condition does not allow; for a refreshed one that leaves out other samples than before.
        """
        fitted = [name for name in self.conditions if self._is_due(name, epoch)]
        cached: list[Tensor] = []

        def embed_once() -> Tensor:
            if not cached:
                cached.append(embed())
            return cached[0]

        for place, name in enumerate(self.conditions):
            if name not in fitted:
                continue

            def fit(ask: Callable[[], Tensor], name: str = name, place: int = place) -> Table:
                with undisturbed():
                    seed_cpu(mix(self.seed, epoch, place))
                    return self._fit(name, split, ask)

            before = self.left_out()
            had = name in self.tables
            self.tables[name] = ranks.on_first(fit, embed_once)
            self.epochs[name] = epoch
            self._near.clear()
            if had and not torch.equal(before, self.left_out()):
                raise ValueError(
                    f"condition {name!r} lacks values of other samples than an epoch before; with"
                    " missing='drop' an epoch would have another length"
                )
        return fitted

    def _is_due(self, name: str, epoch: int) -> bool:
        refresh = self.conditions[name].refresh
        if refresh == "batch":
            return False
        return name not in self.tables or (refresh == "epoch" and self.epochs[name] < epoch)

    def _fit(self, name: str, split: Any, embed: Callable[[], Tensor]) -> Table:
        condition: Any = self.conditions[name]
        with torch.no_grad():
            fitted = condition.fit(split, embed, self.tables.get(name))
        table = fitted if isinstance(fitted, Table) else Table(fitted)
        policy = _policy(condition)
        values = check_values(name, table.values, condition.value_type, self.size, policy)
        missing = int(missing_rows(table.values, condition.value_type).sum())
        if missing and name not in self.missing:
            become = (
                "positives of their own views only" if policy == "own" else "left out of training"
            )
            warnings.warn(
                f"condition {name!r} is missing in {missing} of {self.size} samples, which are {become}",
                stacklevel=2,
            )
        self.missing[name] = missing
        return Table(values.cpu(), {k: v.detach().cpu() for k, v in table.extras.items()})

    def describe(self, name: str) -> TableSummary:
        """What a condition's table holds, the samples that are left out too."""
        found = summarize(self[name], self.conditions[name].value_type)
        return replace(found, missing=self.missing.get(name, found.missing))

    def left_out(self) -> Tensor:
        """(N,) True at samples that are not trained on: what a condition with ``"drop"`` lacks."""
        out = torch.zeros(self.size, dtype=torch.bool)
        for name, table in self.tables.items():
            condition = self.conditions[name]
            if _policy(condition) == "drop":
                out |= missing_rows(table.values, condition.value_type)
        return out

    def present(self, name: str) -> Table:
        """A condition's table without the samples that are left out."""
        table, out = self[name], self.left_out()
        return Table(table.values[~out], table.extras) if out.any() else table

    def look_up(self, index: Tensor) -> dict[str, Tensor]:
        """The values of a batch, by condition.

        Args:
            index: (n,) dataset indices, on the device where the values are wanted; or (n, 2), whose
                first column counts: a row's condition is its first image's.

        Raises:
            RuntimeError: For a condition that is not fitted yet.
        """
        for name, condition in self.conditions.items():
            if condition.refresh != "batch" and name not in self.tables:
                raise RuntimeError(self._not_there(name))
        if index.ndim == 2:
            index = index[:, 0]
        return {
            name: self._on(index.device, name, "", table.values)[index]
            for name, table in self.tables.items()
        }

    def extras_on(self, device: torch.device) -> dict[str, Tensor]:
        """The further tensors of all tables, as ``"<condition>/<name>"``, on a device."""
        return {
            f"{name}/{key}": self._on(device, name, key, value)
            for name, table in self.tables.items()
            for key, value in table.extras.items()
        }

    def _on(self, device: torch.device, name: str, key: str, value: Tensor) -> Tensor:
        """A tensor on a device, moved there once: a copy in every step would wait for it."""
        near = self._near.get((name, key))
        if near is None or near.device != device:
            near = self._near[name, key] = value.to(device)
        return near

    def observe(self, embedded: Embedded) -> dict[str, Tensor]:
        """The values of the online conditions on an embedded batch, without gradient."""
        with torch.no_grad():
            return {
                name: condition(embedded)  # type: ignore[operator]  # online ones are called
                for name, condition in self.conditions.items()
                if condition.refresh == "batch"
            }

    def state_dict(self) -> dict[str, Any]:
        """The tables as plain data and tensors."""
        return {
            name: {
                "values": table.values,
                "extras": dict(table.extras),
                "epoch": self.epochs[name],
            }
            for name, table in self.tables.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the tables of `state_dict`.

        Raises:
            ValueError: For conditions that this run does not have, or another number of samples.
        """
        for name, saved in state.items():
            if name not in self.conditions:
                raise ValueError(
                    f"the checkpoint has a condition {name!r}; this run has"
                    f" {', '.join(map(repr, self.conditions)) or 'none'}"
                )
            condition = self.conditions[name]
            check_values(name, saved["values"], condition.value_type, self.size, _policy(condition))
            self.tables[name] = Table(saved["values"], saved["extras"])
            self.epochs[name] = saved["epoch"]
        self._near.clear()

    def _not_there(self, name: str) -> str:
        if name not in self.conditions:
            there = ", ".join(map(repr, self.conditions)) or "none"
            return f"there is no condition {name!r}; there are {there}"
        if self.conditions[name].refresh == "batch":
            return f"condition {name!r} is computed in every step and has no table"
        return f"condition {name!r} is asked for before it was fitted: call refresh first"


def _policy(condition: Any) -> Any:
    return getattr(condition, "missing", "error")
