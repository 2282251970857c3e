"""The conditional operator of CCL-K: what each sample counts for, given another's condition.

``W = (K + ridge I)⁻¹ K`` in whichever of four equal forms is the cheapest: in closed form for classes,
in the primal for a kernel with features, by a factorisation of K, or, on request, approximately.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ccl_plugins.numerics import as_vectors

KernelFunction = Callable[[Tensor, Tensor], Tensor]


def conditional_operator(
    kernel: KernelFunction,
    z: Tensor,
    ridge: float | Tensor,
    rows: slice = slice(None),
    valid: Tensor | None = None,
    *,
    landmarks: int | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Weights of CCL-K: row i holds what each sample counts for when conditioned on ``z_i``.

    ``W = (K + ridge I)⁻¹ K = I - ridge (K + ridge I)⁻¹``, symmetric, without gradient, computed in
    float64 and without waiting for the device:

    - class ids under a kernel that declares ``one_hot``: in closed form, O(n m);
    - a kernel with ``features`` of rank r below m: ``Φ (ΦᵀΦ + ridge I)⁻¹ Φᵀ``, O(m r² + n m r);
    - otherwise by a Cholesky factorisation of K, O(m³);
    - ``landmarks`` fewer than m and r: by features of that rank, exact between landmarks and for each
      sample with itself, O(m landmarks² + n m landmarks).  Close for a kernel that is wide beside the
      distances between landmarks, and for nothing else: compare with the exact operator on a part.

    Args:
        kernel: A positive definite similarity of condition values.
        z: (m, c) or (m,), the condition of the m samples.
        ridge: λ, 0 or more; 0 needs a kernel matrix of full rank.  Where it changes over training,
            a 0-d tensor, above 0, whose value is not looked at.
        rows: Which n rows are wanted: the samples that are anchors.
        valid: (m,), False for samples that are not there; their rows and columns are 0.  The first
            sample is there.
        landmarks: How many samples, evenly spaced, stand for all; None: the exact operator.
        dtype: Of the result; None: float64 where ``z`` is, else float32.

    Returns:
        (n, m); NaN where K + ridge I is singular.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), Proposition 2.2.  Landmarks:
        Snelson and Ghahramani, Sparse Gaussian Processes using Pseudo-inputs (2006).
    """
    out = dtype or (torch.float64 if z.dtype == torch.float64 else torch.float32)
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        values = as_vectors(z)
        if not values.dtype.is_floating_point and getattr(kernel, "one_hot", False):
            return _of_classes(kernel, values.long(), ridge, rows, valid).to(out)
        if values.dtype.is_floating_point:
            values = values.double()
        if valid is not None:  # whatever an empty place holds must reach neither a median nor a sum
            there = valid[:, None] if values.ndim == 2 else valid
            values = torch.where(there, values, values[:1])
        rank = _rank(kernel, values)
        if landmarks is not None and landmarks < rank:
            phi, rest = _nystroem(kernel, values, valid, landmarks)
            return _primal_and_rest(phi, rest, ridge, rows, valid).to(out)
        if rank < len(values):
            phi = kernel.features(values)  # type: ignore[attr-defined]  # its rank is known
            return _primal(phi, ridge, rows, valid).to(out)
        return _dual(kernel(values, values).double(), ridge, rows, valid).to(out)


def _of_classes(
    kernel: KernelFunction, ids: Tensor, ridge: float | Tensor, rows: slice, valid: Tensor | None
) -> Tensor:
    """Of K = α [a = b] + β, with n_a samples of a's class and u_a = 1 / (ridge + α n_a).

    ``W = α u_a [a = b] + ridge β / (1 + β Σu) u_a u_b``.
    """
    two = torch.eye(2, dtype=torch.float64, device=ids.device)
    same, beta = kernel(two[:1], two)[0].unbind()
    alpha = same - beta
    if valid is not None:
        ids = ids.masked_fill(~valid, torch.iinfo(ids.dtype).min)
    ordered = ids.sort().values
    count = torch.searchsorted(ordered, ids, right=True) - torch.searchsorted(ordered, ids)
    u = 1 / (ridge + alpha * count)
    if valid is not None:
        u = u * valid
    share = ridge * beta / (1 + beta * u.sum())
    if _is_zero(ridge):
        alone = count == 1 if valid is None else (count == 1) | ~valid
        share = torch.where(alone.all() & (alpha != 0), share, torch.nan)
    own = (alpha * u[rows])[:, None]
    weights = (ids[rows, None] == ids) * own
    return weights.addr_(share * u[rows], u)


def _is_zero(ridge: float | Tensor) -> bool:
    return not isinstance(ridge, Tensor) and ridge == 0


def _rank(kernel: KernelFunction, values: Tensor) -> int:
    """How many features the m samples' kernel matrix is made of; m where that is not known."""
    m = len(values)
    if not hasattr(kernel, "features") or not values.dtype.is_floating_point:
        return m
    rank = kernel.rank(values) if hasattr(kernel, "rank") else kernel.features(values).shape[1]
    return min(rank, m)


def _nystroem(
    kernel: KernelFunction, values: Tensor, valid: Tensor | None, landmarks: int
) -> tuple[Tensor, Tensor]:
    """Φ (m, landmarks) and the (m,) that ΦΦᵀ lacks of K's diagonal."""
    m, place = len(values), torch.arange(landmarks, device=values.device)
    if valid is None:
        chosen = place * m // landmarks
    else:
        there_first = (~valid).byte().argsort(stable=True)
        chosen = there_first[place * valid.sum() // landmarks]
    marks = values[chosen]
    gram = kernel(marks, marks).double()
    # Landmarks may be equal; a little more on the diagonal makes them independent.
    diagonal = gram.diagonal()
    gram = gram.diagonal_scatter(diagonal + 1e-10 * diagonal.mean())
    factor, info = torch.linalg.cholesky_ex(gram)
    factor = factor * torch.where(info == 0, 1.0, torch.nan)
    across = kernel(values, marks).double()
    phi = torch.linalg.solve_triangular(factor.mT, across, upper=True, left=False)
    diagonal = torch.cat([kernel(some, some).diagonal().double() for some in values.split(256)])
    return phi, (diagonal - phi.square().sum(1)).clamp_min(0)


def _primal(phi: Tensor, ridge: float | Tensor, rows: slice, valid: Tensor | None) -> Tensor:
    if valid is not None:
        phi = phi * valid[:, None]
    gram = phi.mT @ phi
    gram.diagonal().add_(
        torch.nan if _is_zero(ridge) else ridge
    )  # of rank r below m: singular without ridge
    factor, info = torch.linalg.cholesky_ex(gram)
    # Solved for the n anchors; what is as large as (n, m) is the result alone.
    solved = torch.cholesky_solve(phi[rows].mT, factor)
    return solved.mul_(torch.where(info == 0, 1.0, torch.nan)).mT @ phi.mT


def _primal_and_rest(
    phi: Tensor, rest: Tensor, ridge: float | Tensor, rows: slice, valid: Tensor | None
) -> Tensor:
    """Of K = ΦΦᵀ + diag(rest), which gives samples that no landmark is like their own weight.

    With noise ν = ridge + rest and Ψ = Φ / √ν: ``W_ij = [i = j] rest_i / ν_i
    + ridge / √(ν_i ν_j) ψ_iᵀ (ΨᵀΨ + I)⁻¹ ψ_j``.
    """
    there = rest.new_ones(len(rest)) if valid is None else valid.to(rest)
    noise = rest + (torch.nan if _is_zero(ridge) else ridge)
    psi = phi * (there / noise.sqrt())[:, None]
    gram = psi.mT @ psi
    gram.diagonal().add_(1)
    factor, info = torch.linalg.cholesky_ex(gram)
    solved = torch.cholesky_solve(psi[rows].mT, factor)
    solved *= torch.where(info == 0, ridge, torch.nan) * noise[rows].rsqrt()
    weights = solved.mT @ psi.mul_(noise.rsqrt()[:, None]).mT
    weights.diagonal(rows.start or 0).add_((there * rest / noise)[rows])
    return weights


def _dual(gram: Tensor, ridge: float | Tensor, rows: slice, valid: Tensor | None) -> Tensor:
    if valid is not None:
        gram = gram * valid * valid[:, None]
    if _is_zero(ridge):
        # K⁻¹K: the identity, provided that K has an inverse.
        there = gram.new_ones(len(gram)) if valid is None else valid.to(gram)
        info = torch.linalg.cholesky_ex(gram + torch.diag(1 - there)).info
        return (torch.diag(there) * torch.where(info == 0, 1.0, torch.nan))[rows]
    gram = gram.diagonal_scatter(gram.diagonal() + ridge)  # the kernel may have kept its matrix
    factor, info = torch.linalg.cholesky_ex(gram)
    share = torch.where(info == 0, gram.new_ones(()) * -ridge, torch.nan)
    weights = torch.cholesky_inverse(factor).mul_(share)
    diagonal = weights.diagonal().add_(1)
    if valid is not None:
        diagonal.mul_(valid)
    return weights[rows]
