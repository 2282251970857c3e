"""The conditional operator of CCL-K: what each sample counts for, given another's condition.

``W = (K + ridge I)⁻¹ K`` in whichever of four equal forms is the cheapest: in closed form for classes,
in the primal for a kernel with features, by a factorization of K, or, on request, approximately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.numerics.gram import KernelFunction, exact_features, gram_of
from ccl_plugins.numerics.landmarks import columns_by_landmarks
from ccl_plugins.numerics.logsumexp import as_vectors, fill_by_turns

Columns = Callable[[slice], Tensor]
"""Of the operator's n rows, the columns that are asked for: (n, ·)."""


def conditional_operator(
    kernel: KernelFunction,
    z: Tensor,
    ridge: float | Tensor,
    rows: slice = slice(None),
    valid: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Weights of CCL-K: row i holds what each sample counts for when conditioned on ``z_i``.

    All columns of `conditional_columns`, (n, m), which has the arguments and says what they mean.
    """
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        return conditional_columns(kernel, z, ridge, rows, valid, **options)(slice(None))


def conditional_columns(
    kernel: KernelFunction,
    z: Tensor,
    ridge: float | Tensor,
    rows: slice = slice(None),
    valid: Tensor | None = None,
    *,
    queue: Tensor | None = None,
    landmarks: int | None = None,
    dtype: torch.dtype | None = None,
    gram: Tensor | None = None,
) -> Columns:
    """The operator of CCL-K, solved; what it returns gives columns of it, and computes only these.

    ``W = (K + ridge I)⁻¹ K = I - ridge (K + ridge I)⁻¹``, symmetric, without gradient, computed in
    float64 and without waiting for the device:

    - class ids under a kernel that declares ``one_hot``: in closed form, O(n m);
    - a kernel with ``features`` of rank r below m: ``Φ (ΦᵀΦ + ridge I)⁻¹ Φᵀ``, O(m r² + n m r); with
      ``gram``, O(n m r);
    - otherwise by a Cholesky factorization of K, O(m³);
    - ``landmarks`` fewer than m and r: by features of that rank, exact between landmarks and for each
      sample with itself, O(m landmarks² + n m landmarks).  Close for a kernel that is wide beside the
      distances between landmarks, and for nothing else: compare with the exact operator on a part.

    With features, the solve is in float64 whatever the result is; of the products with the features of
    ``queue``, those in float32 have an error of at most about ``6e-8 |φ| sqrt(W_ii / ridge)``.

    Args:
        kernel: A positive definite similarity of condition values.
        z: (b, c) or (b,), the condition of the batch's samples.
        ridge: λ, 0 or more; 0 needs a kernel matrix of full rank.  Where it changes over training,
            a 0-d tensor, above 0, whose value is not looked at.
        rows: Which n rows are wanted: the samples of the batch that are anchors.
        valid: (m,), False for samples that are not there; their rows and columns are 0.  The batch is
            there; without a ``queue``, the first sample.
        queue: (m - b, c) or (m - b,), the condition of further samples; None: m is b.
        landmarks: How many samples, evenly spaced, stand for all; None: the exact operator.
        dtype: Of the result; None: float64 where ``z`` is, else float32.
        gram: (r, r) ΦᵀΦ of the queue's samples that are there, where it is known (see
            `ccl_plugins.numerics.gram`); other forms than that with features do without it.

    Returns:
        A function from columns, a slice of 0..m, to (n, ·); NaN where K + ridge I is singular.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), Proposition 2.2.
    """
    out = dtype or (torch.float64 if z.dtype == torch.float64 else torch.float32)
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        batch = as_vectors(z)
        if batch.dtype.is_floating_point:
            parts = [batch] if queue is None else [batch, as_vectors(queue)]
            m, rank = sum(map(len, parts)), _rank(kernel, batch)
            if rank is not None and rank < m and not (landmarks is not None and landmarks < rank):
                return _primal(kernel, parts, ridge, rows, valid, out, gram)
            values = torch.cat(parts).double()
        else:
            values = batch if queue is None else torch.cat([batch, queue])
            if getattr(kernel, "one_hot", False):
                return _of_classes(kernel, values.long(), ridge, rows, valid, out)
        if valid is not None:  # whatever an empty place holds must reach neither a median nor a sum
            values = fill_by_turns(values, valid, 1 if queue is None else len(batch))
        if landmarks is not None and landmarks < len(values):
            noise = torch.nan if _is_zero(ridge) else ridge
            return columns_by_landmarks(kernel, values, noise, rows, valid, landmarks, out)
        weights = _dual(kernel(values, values).double(), ridge, rows, valid).to(out)
        return lambda columns: weights[:, columns]


def _of_classes(
    kernel: KernelFunction,
    ids: Tensor,
    ridge: float | Tensor,
    rows: slice,
    valid: Tensor | None,
    out: torch.dtype,
) -> Columns:
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
    mine, own, across = ids[rows, None], (alpha * u[rows, None]).to(out), share * u[rows]
    across, u = across.to(out), u.to(out)

    def columns(some: slice) -> Tensor:
        return ((mine == ids[some]) * own).addr_(across, u[some])

    return columns


def _is_zero(ridge: float | Tensor) -> bool:
    return not isinstance(ridge, Tensor) and ridge == 0


def _rank(kernel: KernelFunction, values: Tensor) -> int | None:
    """How many features the kernel matrix of float values is made of; None where it has none."""
    if not hasattr(kernel, "features"):
        return None
    return (
        int(kernel.rank(values))
        if hasattr(kernel, "rank")
        else kernel.features(values[:1]).shape[1]
    )


def _primal(
    kernel: KernelFunction,
    parts: Sequence[Tensor],
    ridge: float | Tensor,
    rows: slice,
    valid: Tensor | None,
    out: torch.dtype,
    gram: Tensor | None,
) -> Columns:
    """``Φ (ΦᵀΦ + ridge I)⁻¹ Φᵀ``: solved for the n anchors, and multiplied by what is asked for."""
    features, (batch, *queue), b = exact_features(kernel), parts, len(parts[0])
    phi = features(batch)
    if valid is not None:
        phi = phi.masked_fill(~valid[:b, None], 0)
    total = phi.mT @ phi
    if queue:
        there = None if valid is None else valid[b:]
        total += gram_of(features, queue[0], there) if gram is None else gram
    # Of rank r below m: singular without ridge.
    total.diagonal().add_(torch.nan if _is_zero(ridge) else ridge)
    factor, info = torch.linalg.cholesky_ex(total)
    solved = torch.cholesky_solve(phi[rows].mT, factor)
    solved = solved.mul_(torch.where(info == 0, 1.0, torch.nan)).mT
    near = solved.to(out)

    def columns(some: slice) -> Tensor:
        start, stop, _ = some.indices(b + sum(map(len, queue)))
        found = [(solved @ phi[start:stop].mT).to(out)] if start < b else []
        if stop > b:
            begin = max(start, b)
            further = kernel.features(queue[0][begin - b : stop - b].to(out)).mT  # type: ignore[attr-defined]  # has
            if valid is not None:
                further = further.masked_fill(~valid[begin:stop], 0)
            found.append(near @ further)
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    return columns


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
