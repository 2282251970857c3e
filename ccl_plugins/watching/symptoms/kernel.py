"""A kernel that sees almost nothing in a condition that is computed in every step."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ccl_plugins.numerics.condition_values import missing_samples
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.training.findings import Finding
from ccl_plugins.training.kernel_check import (
    SAMPLED_ROWS,
    describe_kernel,
    kernels_read,
    take,
    together,
    values_read,
    what_vanishes,
)
from ccl_plugins.watching.symptoms.symptom import Observation, Symptom


class FaintKernel(Symptom):
    """A kernel gives other samples almost no weight; where tables are fitted, training looks itself."""

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
                surviving = float(describe_kernel(similarities(kernel, read, read))[0])
                yield from what_vanishes(seen.step, kernel, read, together(names), surviving)
