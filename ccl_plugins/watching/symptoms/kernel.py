"""A kernel that tells samples badly apart by a condition that is computed in every step."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ccl_plugins.numerics.condition_values import missing_samples
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.training.findings import Finding
from ccl_plugins.training.kernel_check import (
    SAMPLED_ROWS,
    kernels_read,
    take,
    together,
    values_read,
    what_is_off,
)
from ccl_plugins.watching.symptoms.symptom import Observation, Symptom


class BlindKernel(Symptom):
    """A kernel sees almost nothing, or all as equal; where tables are fitted, training looks itself."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Look at the first batch, and at one when the run should have learned."""
        if not seen.first and not seen.due:
            return
        for kernel, names in kernels_read(seen.objective):
            computed = not {*seen.tables}.issuperset(names)
            if not computed or not all(name in seen.pairs.samples.condition for name in names):
                continue
            values = {name: seen.pairs.samples.condition_of(name)[:SAMPLED_ROWS] for name in names}
            lost = torch.stack([missing_samples(z) for z in values.values()]).any(0)
            values = take(values, (~lost).nonzero().flatten())
            if len(values[names[0]]) < 2:
                continue
            read = values_read(values, names)
            with torch.no_grad():
                found = similarities(kernel, read, read)
                yield from what_is_off(seen.step, kernel, read, together(names), found)
