"""Online probes: how much of the label and of every condition can be read, and over how much it spreads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.metadata.validation import validation_rows
from ccl_plugins.training import ranks
from ccl_plugins.watching import spectrum
from ccl_plugins.watching.bank import Bank
from ccl_plugins.watching.costs import Costs
from ccl_plugins.watching.least_squares import Moments, explained, least_squares, moments
from ccl_plugins.watching.neighbors import averaged, nearest, voted
from ccl_plugins.watching.variables import Readings, Variable, exact_type

NEAR, HELD = 4096, 1024
"""The most samples whose neighbors are looked for, and on which probes are measured."""

TOGETHER = 2048
"""Samples that are added to the sums at a time."""

FITTED, FITTED_AND_NEAR, HELD_OUT, MEASURED = range(4)
"""The roles of samples: probes are fitted to the first two, and measured on the last."""


class Probes:
    """Linear probes and nearest neighbors of features, and ranks, from the batches that pass.

    The features of batches are added to sums, from which the linear probes are solved when they are read,
    and to banks on the device.  No probe is fitted to the validation part of the training samples,
    and all are measured on it alone.

    Args:
        measures: Which of ``linear``, ``knn``, ``effective_rank`` and ``rankme`` are taken.
        readings: What the probes predict.
        size: Samples of the training split.
        passes: How often each sample is seen between two measurements, 1 or a part of 1.
        costs: Measures the time.
    """

    def __init__(
        self,
        measures: Collection[str],
        readings: Readings,
        size: int,
        passes: float,
        costs: Costs,
    ) -> None:
        self.measures, self.readings, self.costs = set(measures), readings, costs
        self.device = readings.device
        self.role = roles(size, passes).to(self.device)
        self.banks = {"near": Bank(NEAR), "held": Bank(HELD)}
        self.sums: dict[str, Tensor] = {}
        self._groups: list[list[Variable]] = []
        self._pending: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def see(self, features: Tensor, embeddings: Tensor, index: Tensor, batch: int) -> None:
        """Take a batch, without waiting for the device.

        Args:
            features: (n, f) of this process's samples.
            embeddings: (n, d) theirs.
            index: (n,) their dataset indices.
            batch: Its number.
        """
        # Copies: a compiled network may write its next output over this one.
        kept = features.clone(), embeddings.clone()
        self._pending.append((*kept, index, torch.full_like(index, batch)))
        if sum(len(each) for *_, each in self._pending) >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Add the batches that wait to the sums and the banks: together, since each step is short."""
        if not self._pending:
            return
        x, embeddings, index, when = map(torch.cat, zip(*self._pending, strict=True))
        self._pending = []
        role = self.role[index]
        x = x.float() if x.dtype.itemsize < 4 else x
        if self.measures & {"linear", "effective_rank"}:
            with self.costs.measuring("linear", self.device):
                self._add(x, index, role < HELD_OUT)
        if "rankme" in self.measures:
            with self.costs.measuring("rankme", self.device):
                exact = embeddings.to(exact_type(self.device))
                self._sum("embeddings", exact.T @ exact)
        if self.measures & {"linear", "knn"}:
            with self.costs.measuring("knn", self.device):
                self.banks["held"].write(x, index, role == MEASURED, when)
                if "knn" in self.measures:
                    self.banks["near"].write(x, index, role == FITTED_AND_NEAR, when)

    def _add(self, x: Tensor, index: Tensor, fitted: Tensor) -> None:
        exact = exact_type(self.device)
        values = self.readings.look_up(index) if "linear" in self.measures else {}
        for i, group in enumerate(self.groups):
            weight, targets = fitted, [torch.zeros(len(x), 0, dtype=exact, device=self.device)]
            for each in group:
                target, known = each.targets(values[each.name], exact)
                targets.append(target)
                if each.has_gaps:
                    weight = weight & known
            found = moments(x, torch.cat(targets, 1), weight)
            self._sum(f"{i}/first", found.first)
            self._sum(f"{i}/square", found.square)

    def _sum(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value

    @property
    def groups(self) -> list[list[Variable]]:
        """The variables that share sums: those that all samples have, and each other by itself."""
        if not self._groups:
            found = self.readings.variables() if self.measures & {"linear", "knn"} else []
            gaps = [[each] for each in found if each.has_gaps]
            self._groups = [[each for each in found if not each.has_gaps], *gaps]
        return self._groups

    def clear(self) -> None:
        """Forget the batches, and what the tables held."""
        self.sums, self._groups, self._pending = {}, [], []
        for bank in self.banks.values():
            bank.clear()

    def read(self) -> dict[str, float]:
        """The measures, the same on all processes; nothing of features that are not finite."""
        self.flush()
        with self.costs.measuring("linear", self.device):
            sums = dict(zip(self.sums, ranks.summed([*self.sums.values()]), strict=True))
            if not all(bool(each.isfinite().all()) for each in sums.values()):
                return {}
            linear, found = self.solve(sums)
        if "embeddings" in sums:
            with self.costs.measuring("rankme", self.device):
                singular = spectrum.singular_values(sums["embeddings"])
                found["rankme"] = float(spectrum.rankme(singular))
        if not self.measures & {"linear", "knn"}:
            return found
        x, index = self.banks["held"].read()
        if not len(x) or not bool(x.isfinite().all()):
            return found
        values = self.readings.look_up(index)
        scores: list[tuple[str, float | None]] = []
        with self.costs.measuring("linear", self.device):
            for each, probe in linear.items():
                word = "r2" if each.classes is None else "linear"
                scores.append((f"{each.name}/{word}", score(each, values, probe(x))))
        if "knn" in self.measures:
            with self.costs.measuring("knn", self.device):
                scores += self._neighbors(x, values)
        return {**found, **_means(scores)}

    def solve(self, sums: Mapping[str, Tensor]) -> tuple[dict[Variable, Any], dict[str, float]]:
        """The linear probes, from the sums of all processes, and the effective rank."""
        linear: dict[Variable, Any] = {}
        found: dict[str, float] = {}
        for i, group in enumerate(self.groups if "0/first" in sums else []):
            whole = Moments(sums[f"{i}/first"], sums[f"{i}/square"])
            if float(whole.first[0, 0]) < 2:
                continue
            eigen = torch.linalg.eigh(whole.covariance())
            if i == 0 and "effective_rank" in self.measures:
                singular = eigen[0].clamp_min(0).sqrt()
                found["effective_rank"] = float(spectrum.effective_rank(singular))
            start = 0
            for each in group:
                columns = slice(start, start := start + each.width)
                linear[each] = least_squares(whole.targets(columns), eigen)
        return (linear if "linear" in self.measures else {}), found

    def _neighbors(
        self, x: Tensor, values: Mapping[str, Tensor]
    ) -> Iterator[tuple[str, float | None]]:
        bank, index = self.banks["near"].read()
        if not len(bank):
            return
        known, near = self.readings.look_up(index), nearest(x, bank)
        for each in (each for group in self.groups for each in group):
            target, present = each.targets(known[each.name], x.dtype)
            weights, rows = near
            if each.has_gaps:
                if not bool(present.any()):
                    continue
                target = target[present]
                weights, rows = nearest(x, bank[present])
            if each.classes is None:
                predicted = averaged(weights, rows, target)
            else:
                ids = voted(weights, rows, target.argmax(1), each.width)
                predicted = torch.nn.functional.one_hot(ids, each.width)
            yield f"{each.name}/knn", score(each, values, predicted)

    def state_dict(self) -> dict[str, Any]:
        """What all processes have seen; called by all of them."""
        sums = zip(self.sums, ranks.summed([*self.sums.values()]), strict=True)
        pending = [torch.cat(each) for each in zip(*self._pending, strict=True)]
        return {
            "sums": {name: each.cpu() for name, each in sums},
            "banks": {name: bank.state_dict() for name, bank in self.banks.items()},
            # Not flushed: sums in another order would be rounded otherwise.
            "pending": [ranks.join_rows(each).cpu() for each in pending],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with what processes had seen until a checkpoint."""
        for name, each in state["sums"].items():
            near = each.to(self.device)  # the sums of all processes become the first one's
            self.sums[name] = near if ranks.rank() == 0 else torch.zeros_like(near)
        for name, bank in self.banks.items():
            bank.load_state_dict(state["banks"][name], self.device)
        if state["pending"]:
            mine = ranks.chunk(len(state["pending"][0]))
            parts = [each[mine.start : mine.stop].to(self.device) for each in state["pending"]]
            self._pending = [(parts[0], parts[1], parts[2], parts[3])]


def roles(size: int, passes: float) -> Tensor:
    """(size,) the role of each sample.

    Of the samples that have a place in a bank there are so many that the bank is filled nine tenths in
    ``passes`` of the data.
    """
    found = torch.full((size,), FITTED)
    if size < 2:
        return found
    for rows, role, chosen, room in zip(
        validation_rows(size),
        (FITTED, HELD_OUT),
        (FITTED_AND_NEAR, MEASURED),
        (NEAR, HELD),
        strict=True,
    ):
        found[rows] = role
        generator = torch.Generator().manual_seed(0)
        wanted = int(0.9 * room / min(max(passes, 1e-9), 1.0))
        found[rows[torch.randperm(len(rows), generator=generator)[:wanted]]] = chosen
    return found


def score(each: Variable, values: Mapping[str, Tensor], predicted: Tensor) -> float | None:
    """Top-1 accuracy or R² of predictions, over the samples with a value; None if it is not defined.

    Args:
        each: What is predicted.
        values: Of the samples by name.
        predicted: (n, width) scores of classes, or numbers.
    """
    target, known = each.targets(values[each.name], exact_type(predicted.device))
    if not bool(known.any()):
        return None
    predicted, target = predicted[known].to(target), target[known]
    if each.classes is None:
        found = explained(predicted, target)
        return None if found is None else float(found)
    return float((predicted.argmax(1) == target.argmax(1)).double().mean())


def _means(scores: list[tuple[str, float | None]]) -> dict[str, float]:
    """The mean of the scores of one name, as the levels of a hierarchy have."""
    by_name: dict[str, list[float]] = {}
    for name, each in scores:
        if each is not None:
            by_name.setdefault(name, []).append(each)
    return {name: sum(each) / len(each) for name, each in by_name.items()}
