"""A condition that tells no samples apart, or all of them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ccl_plugins.training.findings import Finding
from ccl_plugins.watching.symptoms.symptom import Beginning, Observation, Symptom

MOSTLY = 0.95
"""The share of samples with a class id of their own from which a condition makes no pairs."""


class UnfitCondition(Symptom):
    """A condition that is read has one value in all samples, or a class id for each."""

    def begin(self, seen: Beginning) -> Iterator[Finding]:
        """Look at the tables that are fitted once."""
        yield from self._found(seen, late=False)

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Look at the tables that were fitted again."""
        yield from self._found(seen, seen.late)

    def _found(self, seen: Beginning, late: bool) -> Iterator[Finding]:
        for name in (each for each in seen.fresh if each in seen.read):
            values, variable = seen.tables.known(name).values, seen.tables.variables[name]
            size = len(values)
            setting = "condition" if name == "condition" else f"conditions.{name}"
            if size < 2:
                continue
            if is_constant(values):
                yield Finding(
                    "a-condition-is-constant",
                    seen.step,
                    f"condition {name!r} is constant: all {size} samples have one value, so it does not"
                    f" tell them apart; choose another {setting}",
                    about=name,
                )
            # Clusters may wait for the network: until they are formed, every sample is one by itself.
            if seen.tables.conditions[name].refresh == "epoch" and not late:
                continue
            compared = name in seen.objective.conditions and seen.objective.min_views > 1
            if variable.value_type != "categorical" or values.ndim != 1 or not compared:
                continue
            alone = int((torch.unique(values, return_counts=True)[1] == 1).sum())
            if alone > MOSTLY * size:
                yield Finding(
                    "a-condition-is-unique-per-sample",
                    seen.step,
                    f"condition {name!r} is unique per sample: {alone} of {size} samples share their value"
                    f" with no other, so it makes no pairs; choose a coarser {setting}",
                    about=name,
                )


def is_constant(values: Tensor) -> bool:
    """Whether all rows of values (N, ...) are equal; some of them are looked at first."""
    some = values[:: max(1, len(values) // 4096)]
    return bool((some == some[0]).all()) and bool((values == values[0]).all())
