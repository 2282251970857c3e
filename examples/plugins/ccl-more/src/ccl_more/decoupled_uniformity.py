"""Decoupled uniformity: the centroids of samples repel each other, conditioned on a kernel."""

from __future__ import annotations

import torch
from ccl_plugins.arguments import positive, zero_or_seen
from ccl_plugins.numerics import conditional_operator, logsumexp, masked, squared_distance
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

    Defaults:
        precision: Paper: 1. Code: 2.

    Source:
        Dufumier et al., Integrating Prior Knowledge in Contrastive Learning with Kernel (2023).
    """

    distributed = "replicated"
    reads_queue = False
    precision, ridge = ScalarAttribute(positive), ScalarAttribute(zero_or_seen)

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
        self.refuse_draws(pairs)
        centroids, missing = pairs.anchors.mean(0), pairs.samples.missing
        present = None if missing is None else ~missing[pairs.rows]
        if self.kernel is not None:
            z = pairs.samples.condition_of(self.on)[pairs.rows]
            operator = conditional_operator(self.kernel, z, self.ridge, valid=present)
            centroids = operator.to(centroids) @ centroids
        different = ~torch.eye(len(centroids), dtype=torch.bool, device=centroids.device)
        if present is not None:
            different = different & present & present[:, None]
        if pairs.negative is not None:
            different = different & pairs.negative[:, pairs.rows]
        logits = -self.precision * squared_distance(centroids, centroids)
        count = different.sum(dtype=logits.dtype)
        value = logsumexp(masked(logits, different).flatten()) - count.clamp_min(1).log()
        counted = different.any(1).to(logits.dtype)
        return value.where(count > 0, 0).expand(1, len(centroids)), counted[None]
