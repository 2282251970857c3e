"""HSIC: dependence of embeddings and a condition, to be minimized."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.numerics.condition_values import squared_distance
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import VALUE_TYPES, Kernel

SAMPLES = 512
"""The most samples a median is taken over, which bounds its cost."""


class HSIC(ContrastiveObjective):
    """Dependence of embeddings and a condition, to be minimized beside another objective (HSIC).

    With kernel matrices K of the embeddings of one view and L of the condition, over the n samples of all
    processes: ``biased`` is ``tr(K H L H) / (n - 1)²``, ``H = I - 1/n``; ``unbiased`` is
    ``( tr(K' L') + (1ᵀK'1)(1ᵀL'1) / ((n-1)(n-2)) - 2/(n-2) 1ᵀK'L'1 ) / (n (n-3))``, where K' and L' have a
    diagonal of 0.  The mean over views.  It is 0 for fewer samples than the estimator needs, 2 and 4.

    Alone it has nothing to learn: equal embeddings are independent of everything.  It is a guide of
    ``guided``, or one objective of a mixture.  No gradient flows through the median.

    Shape:
        (b, d), ..., condition (b,) or (b, c) -> ()

    Args:
        kernel: A similarity of condition values; None: the Gaussian of the median squared distance of
            different values, which for class ids is their equality, up to a factor.
        embedding_kernel: A similarity of embeddings; None: the same Gaussian.
        estimator: ``"unbiased"``, which is 0 in the mean for independent values, or ``"biased"``, which
            is never below 0.

    Source:
        Gretton et al., Measuring Statistical Dependence with Hilbert-Schmidt Norms (2005), eq. (9);
        Song et al., Feature Selection via Dependence Maximization (2012), eq. (4).  Derived from the
        papers alone.
    """

    value_types = VALUE_TYPES
    min_views = 1
    distributed: Literal["mean", "replicated"] = "replicated"
    reads_queue = False
    hides = True
    measures_dependence = True
    stops_gradient: bool
    """Whether the similarity of embeddings may have a median as its scale, which is held constant."""

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        embedding_kernel: Kernel | None = None,
        estimator: Literal["unbiased", "biased"] = "unbiased",
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.kernel = kernel
        self.embedding_kernel = embedding_kernel
        self.stops_gradient = not isinstance(getattr(embedding_kernel, "scale", None), float | int)
        self.estimator = one_of("estimator", estimator, ("unbiased", "biased"))
        self.on = on

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The estimate, the same for every sample."""
        # With partners, the views after the first show images of other values.
        views = range(len(pairs.anchors) if pairs.samples.partner is None else 1)
        estimates: list[Tensor] = []
        for i in views:
            if not estimates or pairs.samples.condition[self.on].ndim == 3:
                centered = self.centered(pairs, i)
            x = pairs.anchors[i]
            if pairs.samples.missing is not None:
                x = x.masked_fill(pairs.samples.missing[:, None], 0)
            similar = compared(self.embedding_kernel, x, pairs.samples.missing)
            estimates.append((similar * centered).sum())
        values = torch.stack(estimates).mean().expand(1, pairs.anchors.shape[1])
        return values, torch.ones_like(values)

    @torch.no_grad()
    def centered(self, pairs: Pairs, i: int) -> Tensor:
        """(n, n) M with ``Σ_jk K_jk M_jk`` the estimate, from the condition in view ``i``."""
        z = pairs.samples.condition_of(self.on, i)
        known = torch.ones_like(z.reshape(len(z), -1)[:, 0], dtype=torch.float64)
        if pairs.samples.missing is not None:
            known = known.masked_fill(pairs.samples.missing, 0)
        similar = compared(self.kernel, z, pairs.samples.missing).double() * known * known[:, None]
        n = known.sum()
        least, rows = 2, n
        if self.estimator == "unbiased":
            similar, least, rows = similar.fill_diagonal_(0), 4, n - 2
        sums = similar.sum(1) / rows.clamp_min(1)
        # Matrices whose rows sum to 0; of the unbiased one, without the diagonal.
        total = sums.sum() / (n if self.estimator == "biased" else n - 1).clamp_min(1)
        similar = (similar - sums - sums[:, None] + total) * known * known[:, None]
        count = (n - 1).square() if self.estimator == "biased" else n * (n - 3)
        if self.estimator == "unbiased":
            similar = similar.fill_diagonal_(0)
        return torch.where(n >= least, similar / count, 0.0).to(pairs.anchors.dtype)


def compared(kernel: Kernel | None, x: Tensor, missing: Tensor | None) -> Tensor:
    """(n, n) similarities of rows, by default Gaussian with the median of those that are not missing."""
    if kernel is not None:
        return similarities(kernel, x, x)
    square = squared_distance(x, x)
    with torch.no_grad():
        some = slice(None, None, -(-len(x) // SAMPLES))
        far = square[some, some]
        far = far.masked_fill(far == 0, torch.nan)
        if missing is not None:
            far = far.masked_fill(missing[some] | missing[some, None], torch.nan)
        # Without a dimension, nanmedian would wait for a GPU.
        median = far.flatten().nanmedian(0).values
        scale = torch.where(median.isnan(), 1.0, median)
    return (-square / scale).exp()
