"""A kernel that tells samples badly apart by a condition that is computed in every step."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ccl_plugins.training.findings import Finding
from ccl_plugins.training.kernel_check import what_is_off
from ccl_plugins.watching.batches import kernel_matrices
from ccl_plugins.watching.symptoms.symptom import Observation, Symptom


class BlindKernel(Symptom):
    """A kernel sees almost nothing, or all as equal; where tables are fitted, training looks itself."""

    @torch.no_grad()
    def look(self, seen: Observation) -> Iterator[Finding]:
        """Look at the first batch, and at one when the run should have learned."""
        if not seen.first and not seen.due:
            return
        for reading, values, matrix in kernel_matrices(seen.objective, seen.pairs):
            if not {*seen.tables}.issuperset(reading.names):
                yield from what_is_off(seen.step, reading, values, matrix)
