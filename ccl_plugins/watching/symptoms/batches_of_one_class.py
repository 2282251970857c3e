"""Batches with which an objective that reads classes has nothing to tell apart."""

from __future__ import annotations

from collections.abc import Iterator

from ccl_plugins.training.findings import Finding
from ccl_plugins.watching.symptoms.symptom import FEW, Observation, Symptom


class BatchesOfOneClass(Symptom):
    """All batches that were looked at have one class of the condition that the objective reads."""

    def __init__(self) -> None:
        self.looks = self.alone = 0
        """How many batches were looked at, and how many of these had one class."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Look at the classes of the batch."""
        scale, pairs = seen.start.scale, seen.pairs
        if scale is None or scale.distinguishes or pairs.keys.shape[1] < FEW:
            return
        self.looks += 1
        for name in seen.objective.conditions:
            values = pairs.samples.condition.get(name)
            if values is None or values.ndim != 1 or values.is_floating_point():
                continue
            if not bool((values == values[0]).all()):
                continue
            self.alone += 1
            several = name in [*seen.tables] and len(seen.tables.known(name).values.unique()) > 1
            certain = self.alone == self.looks and (self.looks > 2 or seen.step == seen.total)
            if several and certain:
                yield Finding(
                    "batches-have-one-class",
                    seen.step,
                    f"batches have one class: all {len(values)} samples of each have one value of"
                    f" condition {name!r}, so {type(seen.objective).__name__} has nothing to tell apart;"
                    ' take another sampler, as sampler = "uniform", or a larger fit.batch_size',
                    about=name,
                )
            return
