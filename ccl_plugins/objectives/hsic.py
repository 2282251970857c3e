"""HSIC: dependence of embeddings and a condition, to be minimized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import word
from ccl_plugins.numerics.condition_values import fill_missing, squared_distance
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.objectives.base import ContrastiveObjective, optional_kernel
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import VALUE_TYPES, Kernel

SAMPLES = 512
"""The most samples that a median is computed from, which bounds its cost."""


@dataclass(eq=False, repr=False)
class HSIC(ContrastiveObjective):
    r"""Dependence of embeddings and a condition, to be minimized beside another objective (HSIC).

    With kernel matrices K of the embeddings of one view and L of the condition, over the n samples of all
    processes: ``biased`` is ``tr(K H L H) / (n - 1)²``, ``H = I - 1/n``; ``unbiased`` is
    ``( tr(K' L') + (1ᵀK'1)(1ᵀL'1) / ((n-1)(n-2)) - 2/(n-2) 1ᵀK'L'1 ) / (n (n-3))``, where K' and L' have a
    diagonal of 0.  The mean over views.  It is 0 for fewer samples than the estimator needs: 2, or 4 for
    the unbiased one.

    Do not minimize HSIC alone: equal embeddings are independent of every condition. Use it as a
    guide of ``guided``, or as one objective of a mixture. No gradient flows through the median.

    Equation:
        \text{unbiased:} \quad \frac{1}{n (n - 3)} \left( \operatorname{tr}( K' L' ) +
            \frac{\mathbf{1}^\top K' \mathbf{1} \; \mathbf{1}^\top L' \mathbf{1}}{(n - 1)(n - 2)} -
            \frac{2}{n - 2} \mathbf{1}^\top K' L' \mathbf{1} \right)
        \text{biased:} \quad \frac{\operatorname{tr}( K H L H )}{(n - 1)^2}, \quad H = I - \frac{1}{n}
            \mathbf{1} \mathbf{1}^\top
        K_{ij} = k_x(x_i, x_j), \quad L_{ij} = k_z(z_i, z_j)

    Shape:
        (b, d), ..., condition (b,) or (b, c) -> ()

    Args:
        kernel: A similarity of condition values; None: the Gaussian of the median squared distance
            of different values; for class ids this is equality, up to a factor.
        embedding_kernel: A similarity of embeddings; None: the same Gaussian.
        estimator: ``"unbiased"``, whose expectation is 0 for independent values, or ``"biased"``,
            which is never below 0.

    Source:
        Gretton et al., Measuring Statistical Dependence with Hilbert-Schmidt Norms (2005), eq. (9);
        Song et al., Feature Selection via Dependence Maximization (2012), eq. (4). Written from the
        papers alone.
    """

    value_types = VALUE_TYPES
    min_views = 1
    distributed: Literal["mean", "replicated"] = field(default="replicated", init=False)
    reads_queue = False
    hides = True
    measures_dependence = True

    kernel: Kernel | None = optional_kernel()
    _: KW_ONLY
    exclude: None = field(default=None, init=False)
    embedding_kernel: Kernel | None = None
    estimator: Literal["unbiased", "biased"] = word("unbiased", "biased")
    on: str = "condition"

    def __post_init__(self) -> None:
        """Declare ``stops_gradient``, unless the scale of the embedding kernel is a number."""
        super().__post_init__()
        scale = getattr(self.embedding_kernel, "scale", None)
        self.stops_gradient = not isinstance(scale, float | int)

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The estimate, the same for every sample."""
        missing = pairs.samples.missing
        # With partners, the views after the first show images of other values.
        views = pairs.anchors if pairs.samples.partner is None else pairs.anchors[:1]
        if missing is not None:
            views = fill_missing(views, missing)  # they have no weight, but a median sees them
        estimates: list[Tensor] = []
        for i, similar in enumerate(compared(self.embedding_kernel, views.unbind(), missing)):
            if not estimates or pairs.samples.condition[self.on].ndim == 3:
                centered = self.centered(pairs, i)
            estimates.append((similar * centered).sum())
        values = torch.stack(estimates).mean().expand(1, pairs.anchors.shape[1])
        return values, torch.ones_like(values)

    @torch.no_grad()
    def centered(self, pairs: Pairs, i: int) -> Tensor:
        """(n, n) M with ``Σ_jk K_jk M_jk`` the estimate, from the condition in view ``i``.

        Biased: ``M = H L H / (n - 1)²``, since ``tr(K H L H) = Σ_jk K_jk (H L H)_jk``.
        Unbiased: ``M_jk = (L_jk - (r_j + r_k) / (n-2) + Σ_l r_l / ((n-1)(n-2))) / (n (n-3))`` for j ≠ k,
        with ``r = L'1``.
        """
        z, missing = pairs.samples.condition_of(self.on, i), pairs.samples.missing
        biased = self.estimator == "biased"
        (similar,) = compared(self.kernel, [z], missing)
        similar = similar.to(torch.float64, copy=True)  # the kernel may have kept its matrix
        n = similar.new_full((), len(z)) if missing is None else (~missing).sum().double()

        def keep(matrix: Tensor) -> Tensor:
            if missing is not None:
                matrix.masked_fill_(missing | missing[:, None], 0)
            return matrix if biased else matrix.fill_diagonal_(0)

        sums = keep(similar).sum(1) / (n if biased else n - 2).clamp_min(1)
        # Matrices whose rows sum to 0; of the unbiased one, without the diagonal.
        total = sums.sum() / (n if biased else n - 1).clamp_min(1)
        keep(similar.sub_(sums - total).sub_(sums[:, None]))
        count = (n - 1).square() if biased else n * (n - 3)
        share = torch.where(n >= (2 if biased else 4), 1 / count, 0.0)
        return similar.mul_(share).to(pairs.anchors.dtype)


def compared(
    kernel: Kernel | None, values: Sequence[Tensor], missing: Tensor | None
) -> list[Tensor]:
    """(n, n) similarities of the rows of each, by default Gaussian with the median of those not missing."""
    if kernel is not None:
        return [similarities(kernel, x, x) for x in values]
    squares = [squared_distance(x, x) for x in values]
    with torch.no_grad():
        spaced = slice(None, None, -(-len(squares[0]) // SAMPLES))
        far = torch.stack([square[spaced, spaced] for square in squares])
        far = far.masked_fill_(far == 0, torch.nan)
        if missing is not None:
            far = far.masked_fill_(missing[spaced] | missing[spaced, None], torch.nan)
        # Each distance once.  Without a dimension, nanmedian would wait for a GPU.
        row, column = torch.triu_indices(*far.shape[1:], device=far.device)
        once = far.flatten(1).index_select(1, row * far.shape[1] + column)
        medians = once.nanmedian(1).values
        scales = torch.where(medians.isnan(), 1.0, medians)
    return [(square / -scale).exp() for square, scale in zip(squares, scales, strict=True)]
