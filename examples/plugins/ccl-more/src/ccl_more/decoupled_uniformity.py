"""Decoupled uniformity: the centroids of samples repel each other, conditioned on a kernel."""

from __future__ import annotations

import math

from ccl_plugins.arguments import non_negative, positive
from ccl_plugins.numerics import EMPTY, conditional_operator, logsumexp, squared_distance
from ccl_plugins.objectives import ContrastiveObjective, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import VALUE_TYPES, Kernel, ValueType
from torch import Tensor


class DecoupledUniformity(ContrastiveObjective):
    """Uniformity of the samples' mean embeddings, averaged over similar samples with a kernel.

    ``log mean_{i≠j} exp(-t |μ_i - μ_j|²)``, ``μ = (K + λ I)⁻¹ K f̄``, where f̄ is the mean of a sample's
    views; without a kernel ``μ = f̄``.

    Args:
        kernel: A positive definite kernel of condition values, or None.
        precision: t, above 0; 1 in the paper's equation, 2 in the authors' code.
        ridge: λ, 0 or more.
        on: The name of the condition that the kernel reads.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Dufumier et al., Integrating Prior Knowledge in Contrastive Learning with Kernel (2023).
    """

    distributed = "replicated"
    reads_queue = False
    precision, ridge = ScalarAttribute(positive), ScalarAttribute(non_negative)

    def __init__(
        self,
        kernel: Kernel | None = None,
        precision: Scalar = 2.0,
        *,
        ridge: Scalar = 0.01,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.kernel, self.precision, self.ridge, self.on = kernel, precision, ridge, on

    def reads(self) -> dict[str, tuple[ValueType, ...]]:
        """With a kernel, one condition of any value type."""
        return {self.on: VALUE_TYPES} if self.kernel else {}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The same value for every sample."""
        centroids, n = pairs.anchors.mean(0), pairs.anchors.shape[1]
        if self.kernel is not None:
            z = pairs.samples.condition_of(self.on)[pairs.rows]
            centroids = conditional_operator(self.kernel, z, self.ridge).to(centroids) @ centroids
        logits = -self.precision * squared_distance(centroids, centroids)
        value = logsumexp(logits.fill_diagonal_(EMPTY).flatten()) - math.log(n * (n - 1))
        return value.expand(1, n), logits.new_ones(1, n)
