"""GCA: contrastive learning as unbalanced optimal transport to a target plan."""

from __future__ import annotations

from typing import Any

import torch
from ccl_plugins.arguments import positive, whole
from ccl_plugins.numerics import EMPTY, differentiable_once, logsumexp, masked
from ccl_plugins.objectives import ContrastiveObjective, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import VALUE_TYPES, Kernel, ValueType
from torch import Tensor

from ccl_more.kernel_weights import log_kernel
from ccl_more.supervised import Candidates


class GCA(ContrastiveObjective):
    """Generalized contrastive alignment (GCA, GCA-UOT): transport anchors to keys by a target plan.

    ``-Σ_j t_ij log( P_ij / Σ_k P_ik )``, where P is the plan of entropic unbalanced optimal transport
    with the cost ``1 - s_ij``: of all anchors of all views to all keys, except each embedding to
    itself.  P is found by a fixed number of Sinkhorn iterations, in the log domain and with gradient:
    ``u ← (a / K v)^f``, ``v ← (b / Kᵀ u)^f'`` with ``K = e_ij`` (a factor of K cancels), equal masses a
    and b, and ``f = ρ / (ρ + τ)``, f' likewise.  Since rows are normalized, the loss is NT-Xent with an
    offset log v_j of each key's score; without iterations it is NT-Xent.

    Target t: the own keys, equally; or with a kernel, which is our plan for a condition,
    ``t_ij ∝ k(z_i, z_j)`` over all keys, without gradient.  Anchors without a target get weight 0.

    As in the authors' code, rows of P are normalized before the comparison.  Not taken over: the term of
    RINCE that their GCA-UOT adds with weight 0.2, the lower bound 0 of similarities, and the cost of an
    embedding with itself, which is the largest cost there and infinite here.

    Args:
        temperature: τ, also the strength of the entropy, above 0.
        kernel: A similarity of condition values for the target plan, or None.
        iterations: Sinkhorn iterations, 0 or more.
        row_penalty: ρ of the anchors' masses, above 0; None: they are exact.
        column_penalty: ρ of the keys' masses, above 0; None: they are exact.
        on: The name of the condition that the kernel reads.

    Defaults:
        iterations: Code: 10.
        row_penalty: Code: 0.0001. Here: with 0.0001 masses are free, and the plan is that without
            iterations.
        column_penalty: Code: 0.0001. Here: as for ``row_penalty``.

    Source:
        Chen et al., Your Contrastive Learning Problem Is Secretly a Distribution Alignment Problem
        (2024), GCA-INCE (without penalties) and GCA-UOT.
    """

    distributed = "replicated"
    within_view = True
    temperature = ScalarAttribute(positive, learnable=True)
    row_penalty = ScalarAttribute(positive, default=None)
    column_penalty = ScalarAttribute(positive, default=None)

    def __init__(
        self,
        temperature: Scalar = 0.5,
        *,
        kernel: Kernel | None = None,
        iterations: int = 10,
        row_penalty: Scalar | None = 1.0,
        column_penalty: Scalar | None = 0.2,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.temperature = temperature
        self.kernel = kernel
        self.iterations = whole("iterations", iterations, 0)
        self.row_penalty = row_penalty
        self.column_penalty = column_penalty
        self.on = on

    def reads(self) -> dict[str, tuple[ValueType, ...]]:
        """With a kernel, one condition of any value type."""
        return {self.on: VALUE_TYPES} if self.kernel else {}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and anchor view."""
        self.refuse_draws(pairs)
        logits, targets = [], []
        nobody = torch.zeros_like(pairs.counted())
        for i in range(len(pairs.anchor_views)):
            candidates = Candidates(pairs, i)
            keep = candidates.with_own(pairs.counted(pairs.negative))
            own = candidates.with_own(nobody)
            logits.append(masked(candidates.sims() / self.temperature, keep))
            if self.kernel is None:
                targets.append(masked(torch.zeros_like(logits[-1]), own))
            else:
                similarity = candidates.columns(log_kernel(self.kernel, pairs, self.on, i))
                targets.append(masked(similarity, keep))
        every, target = torch.cat(logits), torch.cat(targets)
        some = target.amax(1) > EMPTY / 2
        every = every + self.offsets(every)
        values = (logsumexp(every) - (target.softmax(1) * every).sum(1)).where(some, 0)
        shape = len(logits), -1
        return values.reshape(shape), some.reshape(shape).to(values.dtype)

    def offsets(self, log_k: Tensor) -> Tensor:
        """(k,) log v after the last iteration, from log K (n, k)."""
        exponents = self.exponent(self.row_penalty), self.exponent(self.column_penalty)
        fixed = not any(isinstance(each, Tensor) for each in (self.temperature, *exponents))
        narrow = NARROW if log_k.dtype == torch.float32 else NARROW / 8
        if fixed and float(self.temperature) >= narrow and not torch.compiler.is_compiling():
            return differentiable_once(_Offsets.apply(log_k, self.iterations, *exponents))
        return offsets(log_k, self.iterations, *exponents)

    def exponent(self, penalty: float | Tensor | None) -> float | Tensor:
        """``ρ / (ρ + τ)``, of a scaling whose marginal is penalized with ρ; 1 without a penalty."""
        return 1.0 if penalty is None else penalty / (penalty + self.temperature)


NARROW = 0.08
"""The least temperature at which products of exponentials are far from the smallest float32."""


def offsets(
    log_k: Tensor, iterations: int, of_rows: float | Tensor, of_columns: float | Tensor
) -> Tensor:
    """(k,) log v of unbalanced optimal transport after some iterations, in logarithms throughout.

    Args:
        log_k: (n, k) the logarithm of K; ``EMPTY`` where an entry does not count.
        iterations: Of both scalings.
        of_rows: The exponent of the scaling of rows.
        of_columns: That of columns.
    """
    rows, columns, log_a, log_b = marginals(log_k)
    log_v = torch.zeros_like(log_k[0])
    for _ in range(iterations):
        log_u = (of_rows * (log_a - log_product(log_k, log_v, 1))).where(rows, 0)[:, None]
        log_v = (of_columns * (log_b - log_product(log_k, log_u, 0))).where(columns, 0)
    return log_v


def marginals(log_k: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows and columns with an entry that counts, and the logarithms of the uniform weights of these."""
    counts = log_k > EMPTY / 2
    rows, columns = counts.any(1), counts.any(0)
    log_a, log_b = (-each.sum().clamp_min(1).to(log_k.dtype).log() for each in (rows, columns))
    return rows, columns, log_a, log_b


class _Offsets(torch.autograd.Function):
    """`offsets` with one exponential of K, products of K with vectors, and one product for the gradient."""

    @staticmethod
    def forward(
        ctx: Any, log_k: Tensor, iterations: int, of_rows: float, of_columns: float
    ) -> Tensor:
        rows, columns, log_a, log_b = marginals(log_k)
        top = log_k.amax(1).where(rows, 0)
        k = (log_k - top[:, None]).exp_()
        tiny = torch.finfo(k.dtype).tiny
        log_v = torch.zeros_like(log_k[0])
        steps = []
        for _ in range(iterations):
            most = log_v.max()
            v = (log_v - most).exp()
            of_v = (k @ v).clamp_min(tiny)
            log_u = (of_rows * (log_a - of_v.log() - most - top)).where(rows, 0)
            scaled = (log_u + top).where(rows, -torch.inf)
            most = scaled.max().clamp_min(torch.finfo(k.dtype).min)
            u = (scaled - most).exp()
            of_u = (u @ k).clamp_min(tiny)
            log_v = (of_columns * (log_b - of_u.log() - most)).where(columns, 0)
            steps.append((v, of_v, u, of_u))
        ctx.exponents = of_rows, of_columns
        ctx.save_for_backward(k, rows, columns, *(each for step in steps for each in step))
        return log_v

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        k, rows, columns, *saved = ctx.saved_tensors
        of_rows, of_columns = ctx.exponents
        left, right = [], []
        for i in range(len(saved) - 4, -1, -4):
            v, of_v, u, of_u = saved[i : i + 4]
            share = (-of_columns * grad / of_u).where(columns, 0)
            left.append(u)
            right.append(share)
            share = (-of_rows * u * (k @ share) / of_v).where(rows, 0)
            left.append(share)
            right.append(v)
            grad = v * (share @ k)
        if not left:
            return torch.zeros_like(k), None, None, None
        return k * (torch.stack(left, 1) @ torch.stack(right)), None, None, None


def log_product(log_k: Tensor, log_x: Tensor, dim: int) -> Tensor:
    """The logarithm of ``K x``, summed over one of the two dimensions.

    Args:
        log_k: (n, k).
        log_x: (k,) to sum over columns, (n, 1) to sum over rows.
        dim: 1 for columns, 0 for rows.
    """
    result: Tensor = _LogProduct.apply(log_k, log_x, dim)
    return result.squeeze(dim)


class _LogProduct(torch.autograd.Function):
    """Keeps no matrix but K for its gradient, so that iterations take no memory."""

    @staticmethod
    def forward(ctx: Any, log_k: Tensor, log_x: Tensor, dim: int) -> Tensor:
        total = (log_k + log_x).logsumexp(dim, keepdim=True)
        ctx.dim = dim
        ctx.save_for_backward(log_k, log_x, total)
        return total  # saved as it is returned, so that a second derivative goes through it

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        log_k, log_x, total = ctx.saved_tensors
        slope = (log_k + log_x - total).exp() * grad
        return slope, slope.sum_to_size(log_x.shape), None
