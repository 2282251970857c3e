"""The mathematics that several components share, in forms that are safe in float32.

Everything works in the log domain.  A masked entry is ``EMPTY`` and not minus infinity, so that a row
in which nothing is left has a finite value and a gradient of zero instead of NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

EMPTY = -1e30
"""The logit of an entry that does not count."""


def masked(logits: Tensor, keep: Tensor | None) -> Tensor:
    """``logits`` where ``keep`` holds (None: everywhere), ``EMPTY`` elsewhere."""
    return logits if keep is None else logits.masked_fill(~keep, EMPTY)


def log_weights(weights: Tensor) -> Tensor:
    """Logarithms of weights; ``EMPTY`` where a weight is not above 0."""
    tiny = torch.finfo(weights.dtype).tiny  # the logarithm of 0 takes a slow path
    return weights.clamp_min(tiny).log().masked_fill(weights <= 0, EMPTY)


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        top = logits.amax(-1, keepdim=True)
        floor = -60.0 if logits.dtype == torch.float32 else -600.0
        shares = (logits - top).clamp_min_(floor).exp_()
        total = shares.sum(-1, keepdim=True)
        ctx.save_for_backward(shares, total)
        return (total.log() + top).squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        shares, total = ctx.saved_tensors
        return shares * (grad[..., None] / total)


def logsumexp(logits: Tensor) -> Tensor:
    """Log-sum-exp over the last dimension: (..., m) -> (...).

    As ``Tensor.logsumexp`` in value and gradient, and many times as fast where entries are masked: an
    exponential that underflows takes the slow path of the vector library, and numbers too small to be
    normal slow the products of the backward pass.  So shares below ``e⁻⁶⁰`` of the largest (float64:
    ``e⁻⁶⁰⁰``), which are far below rounding, count as that.
    """
    result: Tensor = _LogSumExp.apply(logits)  # type: ignore[no-untyped-call]  # torch's
    return result


def logsumexp_blocks(blocks: Sequence[Tensor]) -> Tensor:
    """Log-sum-exp over the last dimension of blocks (n, m_1), (n, m_2), ... as if side by side: (n,)."""
    sums = [logsumexp(block) for block in blocks]
    return sums[0] if len(sums) == 1 else torch.stack(sums).logsumexp(0)


def as_vectors(z: Tensor) -> Tensor:
    """Condition values as kernels take them: float (b, c), or class ids (b,).

    Class ids stand for one-hot vectors, which are never formed.  A float (b,) is (b, 1); 0/1 columns
    in bool or uint8 become floats.

    Raises:
        TypeError: For integers in two dimensions, which may be counts, flags or a hierarchy of ids.
    """
    if z.dtype.is_floating_point:
        return z[:, None] if z.ndim == 1 else z
    if z.ndim == 1:
        return z
    if z.dtype in (torch.bool, torch.uint8):
        return z.to(torch.get_default_dtype())
    raise TypeError(
        f"a condition of integers must be (b,), class ids, not {tuple(z.shape)}: give one column of a"
        " hierarchy, or .float() for attributes"
    )


def inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner products (n, m) of condition values; of class ids, whether they are equal."""
    x, y = as_vectors(a), as_vectors(b)
    if x.dtype.is_floating_point:
        return x @ y.T
    return (x[:, None] == y).to(torch.get_default_dtype())


def squared_norm(a: Tensor) -> Tensor:
    """Squared norms (n,) of condition values; of class ids, 1."""
    x = as_vectors(a)
    if x.dtype.is_floating_point:
        return (x * x).sum(1)
    return torch.ones(len(x), device=x.device)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """Squared Euclidean distances (n, m) of condition values; of class ids, 0 or 2.

    ``|a|² + |b|² - 2ab`` after centring, which keeps the error of far-off-centre values (colors in
    0..255, say) at the level of their spread; exactly 0 on the diagonal where ``a is b``.
    """
    x, y = as_vectors(a), as_vectors(b)
    if not x.dtype.is_floating_point:
        return 2 * (1 - inner(x, y))
    center = y.mean(0)
    x, y = x - center, y - center
    square = torch.addmm((x * x).sum(1)[:, None] + (y * y).sum(1), x, y.T, alpha=-2).clamp_min(0)
    return square.fill_diagonal_(0) if a is b else square


def conditional_operator(
    kernel: Callable[[Tensor, Tensor], Tensor],
    z: Tensor,
    ridge: float,
    rows: slice = slice(None),
    valid: Tensor | None = None,
) -> Tensor:
    """Weights of CCL-K: row i holds what each sample counts for when conditioned on ``z_i``.

    ``W = (K + ridge I)⁻¹ K = I - ridge (K + ridge I)⁻¹``, symmetric, without gradient.  K and its
    factorisation are in float64.  A kernel with ``features`` of rank r below m is solved in the
    primal, ``Φ (ΦᵀΦ + ridge I)⁻¹ Φᵀ``, in O(m r²) instead of O(m³).

    Args:
        kernel: A positive definite similarity of condition values.
        z: (m, c) or (m,), the condition of the m samples.
        ridge: λ, 0 or more; 0 needs a kernel matrix of full rank.
        rows: Which rows are wanted: the samples that are anchors.
        valid: (m,), False for samples that are not there; their rows and columns are 0.

    Returns:
        (rows, m) in float32, or float64 where ``z`` is; NaN where K + ridge I is singular.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), Proposition 2.2.
    """
    out = torch.float64 if z.dtype == torch.float64 else torch.float32
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        values = as_vectors(z)
        if values.dtype.is_floating_point:
            values = values.double()
        features = getattr(kernel, "features", None)
        phi = features(values) if features is not None and values.dtype.is_floating_point else None
        if phi is not None and phi.shape[1] < phi.shape[0]:
            return _primal(phi, ridge, rows, valid).to(out)
        return _dual(kernel(values, values).double(), ridge, rows, valid).to(out)


def _primal(phi: Tensor, ridge: float, rows: slice, valid: Tensor | None) -> Tensor:
    if valid is not None:
        phi = phi * valid[:, None]
    gram = phi.T @ phi
    gram.diagonal().add_(ridge)
    factor, info = torch.linalg.cholesky_ex(gram)
    weights = phi[rows] @ torch.cholesky_solve(phi.T, factor)
    return torch.where(info == 0, weights, torch.nan)


def _dual(gram: Tensor, ridge: float, rows: slice, valid: Tensor | None) -> Tensor:
    if valid is not None:
        gram = gram * valid * valid[:, None]
    if ridge == 0:
        # K⁻¹K: the identity, provided that K has an inverse.
        weights = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        info = torch.linalg.cholesky_ex(gram).info
    else:
        gram.diagonal().add_(ridge)
        factor, info = torch.linalg.cholesky_ex(gram)
        weights = torch.cholesky_inverse(factor).mul_(-ridge)
        weights.diagonal().add_(1)
        if valid is not None:
            weights = weights * valid
    return torch.where(info == 0, weights[rows], torch.nan)


def gather(x: Tensor, dim: int = 0) -> Tensor:
    """``x`` of all processes side by side, in the order of ranks, with gradient."""
    from lightly.utils import dist

    return torch.cat(dist.gather(x), dim) if dist.world_size() > 1 else x
