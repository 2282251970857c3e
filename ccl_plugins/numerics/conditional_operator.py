"""The conditional operator of CCL-K: how much each sample weighs, given another sample's condition.

``W = (K + ridge I)⁻¹ K``, in the cheapest form that applies: in closed form for classes, in the
primal for a kernel with features, else by a factorization of K; with landmarks, approximately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.numerics.condition_values import as_vectors, fill_missing, replace_invalid
from ccl_plugins.numerics.gram import exact_features, gram_of
from ccl_plugins.numerics.kernel_functions import (
    KernelFunction,
    diagonal_of,
    features_of,
    rank_of,
    reads_one_hot,
    similarities,
)
from ccl_plugins.numerics.numbers import Number, is_zero
from ccl_plugins.numerics.streaming import blocks, ends

Columns = Callable[..., Tensor]
"""Takes a block of columns, and a slice ``among`` the operator's n rows (by default all); returns
(n, ·)."""


def conditional_operator(
    kernel: KernelFunction,
    z: Tensor,
    ridge: Number,
    rows: slice = slice(None),
    valid: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Weights of CCL-K (n, m): row i has the weight of every sample, conditioned on ``z_i``.

    All columns of `conditional_columns`, which documents the arguments.
    """
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        return conditional_columns(kernel, z, ridge, rows, valid, **options)(slice(None))


def conditional_columns(
    kernel: KernelFunction,
    z: Tensor,
    ridge: Number,
    rows: slice = slice(None),
    valid: Tensor | None = None,
    *,
    queue: Tensor | None = None,
    landmarks: int | None = None,
    dtype: torch.dtype | None = None,
    gram: Tensor | None = None,
) -> Columns:
    """Solve for the operator of CCL-K, and return a function that computes columns of it.

    ``W = (K + ridge I)⁻¹ K = I - ridge (K + ridge I)⁻¹``, symmetric, without gradient, computed in
    float64 and without waiting for the device:

    - class ids under a kernel that declares ``one_hot``, and several of them under a product of kernels
      that are 0 between different ids: in closed form, O(n m);
    - a kernel with ``features`` of rank r below m: ``Φ (ΦᵀΦ + ridge I)⁻¹ Φᵀ``, O(m r² + n m r); with
      ``gram``, O(n m r);
    - otherwise by a Cholesky factorization of K, O(m³), and a solve for the n rows;
    - ``landmarks`` fewer than m and r: by features of that rank, exact between landmarks and for each
      sample with itself, O(m landmarks² + n m landmarks).  The error is small only for a kernel that is
      wide compared with the distances between landmarks: compare with the exact operator on a part
      of the data.

    With features, the solve is always in float64; float32 products with the features of ``queue`` have
    an error of at most about ``6e-8 |φ| sqrt(W_ii / ridge)``.

    Args:
        kernel: A positive definite similarity of condition values.
        z: (b, c) or (b,), the condition of the batch's samples.
        ridge: λ, 0 or more; 0 needs a kernel matrix of full rank.  If it changes over training, a 0-d
            tensor above 0, whose value is not read.
        rows: The n rows to compute: the samples of the batch that are anchors.
        valid: (m,) False for samples that do not exist, as in empty places of a queue; their rows and
            columns are 0. With ``queue``, the batch's values must be finite; invalid values of the
            queue, or of a batch without a queue, may be anything.
        queue: (m - b, c) or (m - b,), the condition of further samples; None: m is b.
        landmarks: The number of evenly spaced samples that represent all samples; None: the exact
            operator.
        dtype: The type of the result; None: float64 if ``z`` is float64, else float32.
        gram: (r, r) ΦᵀΦ of the queue's valid samples, if it is known (see `ccl_plugins.numerics.gram`);
            only the form with features uses it.

    Returns:
        A function from a block of columns, a slice of 0..m, to (n, ·), or to those ``among`` the n rows;
        NaN where K + ridge I is singular.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), Proposition 2.2.
    """
    out = dtype or (torch.float64 if z.dtype == torch.float64 else torch.float32)
    rows = slice(*ends(rows, len(z)))  # rows of the batch, without the queue
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        batch = as_vectors(z)
        if batch.dtype.is_floating_point:
            parts = [batch] if queue is None else [batch, as_vectors(queue)]
            m, rank = sum(map(len, parts)), rank_of(kernel, batch)
            if rank is not None and rank < m and not (landmarks is not None and landmarks < rank):
                return _primal(kernel, parts, ridge, rows, valid, out, gram)
            values = torch.cat(parts).double()
            classes: Any = getattr(kernel, "classes", None)  # a kernel of several conditions has it
            if classes is not None and (ids := classes(values)) is not None:
                equal = similarities(kernel, values[:1], values[:1]).double()[0, 0]
                return _of_classes(equal, torch.zeros_like(equal), ids, ridge, rows, valid, out)
        else:
            values = batch if queue is None else torch.cat([batch, queue])
            if reads_one_hot(kernel):
                two = torch.eye(2, dtype=torch.float64, device=values.device)
                equal, beta = similarities(kernel, two, two)[0].unbind()
                return _of_classes(equal, beta, values.long(), ridge, rows, valid, out)
        if valid is not None:  # what an empty place holds must reach neither a median nor a sum
            if queue is None:
                values = fill_missing(values, ~valid)
            else:
                values = replace_invalid(values, valid, len(batch))
        if landmarks is not None and landmarks < len(values):
            noise = torch.nan if is_zero(ridge) else ridge
            return columns_by_landmarks(kernel, values, noise, rows, valid, landmarks, out)
        weights = _dual(similarities(kernel, values, values).double(), ridge, rows, valid).to(out)
        return lambda block, among=slice(None): weights[among, block]


def _of_classes(
    equal: Tensor,
    beta: Tensor,
    ids: Tensor,
    ridge: Number,
    rows: slice,
    valid: Tensor | None,
    out: torch.dtype,
) -> Columns:
    """The operator of K = α [a = b] + β, with n_a samples of a's class and u_a = 1 / (ridge + α n_a).

    ``W = α u_a [a = b] + ridge β / (1 + β Σu) u_a u_b``; ``equal`` is α + β.
    """
    alpha, ids = equal - beta, ids.contiguous()  # torch warns of a column that is not contiguous
    if valid is not None:
        ids = ids.masked_fill(~valid, torch.iinfo(ids.dtype).min)
    ordered = ids.sort().values
    count = torch.searchsorted(ordered, ids, right=True) - torch.searchsorted(ordered, ids)
    u = 1 / (ridge + alpha * count)
    if valid is not None:
        u = u * valid
    share = ridge * beta / (1 + beta * u.sum())
    if is_zero(ridge):
        alone = count == 1 if valid is None else (count == 1) | ~valid
        share = torch.where(alone.all() & (alpha != 0), share, torch.nan)
    mine, same, across = ids[rows, None], (alpha * u[rows, None]).to(out), share * u[rows]
    across, u = across.to(out), u.to(out)

    def columns(block: slice, among: slice = slice(None)) -> Tensor:
        return ((mine[among] == ids[block]) * same[among]).addr_(across[among], u[block])

    return columns


def _primal(
    kernel: KernelFunction,
    parts: Sequence[Tensor],
    ridge: Number,
    rows: slice,
    valid: Tensor | None,
    out: torch.dtype,
    gram: Tensor | None,
) -> Columns:
    """``Φ (ΦᵀΦ + ridge I)⁻¹ Φᵀ``: solved once for the n anchors, then multiplied by columns of Φᵀ."""
    features, (batch, *queue), b = partial(exact_features, kernel), parts, len(parts[0])
    phi = features(batch)
    if valid is not None:
        phi = phi.masked_fill(~valid[:b, None], 0)
    total = phi.mT @ phi
    if queue:
        filled = None if valid is None else valid[b:]
        total += gram_of(features, queue[0], filled) if gram is None else gram
    # The rank r is below m: without a ridge the operator does not exist.
    total.diagonal().add_(torch.nan if is_zero(ridge) else ridge)
    factor, info = torch.linalg.cholesky_ex(total)
    solved = torch.cholesky_solve(phi[rows].mT, factor)
    solved = solved.mul_(torch.where(info == 0, 1.0, torch.nan)).mT
    near = solved.to(out)

    def columns(block: slice, among: slice = slice(None)) -> Tensor:
        start, stop = ends(block, b + sum(map(len, queue)))
        parts = [(solved[among] @ phi[start:stop].mT).to(out)] if start < b else []
        if stop > b:
            begin = max(start, b)
            further = features_of(kernel, queue[0][begin - b : stop - b].to(out)).mT
            if valid is not None:
                further = further.masked_fill(~valid[begin:stop], 0)
            parts.append(near[among] @ further)
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    return columns


def _dual(gram: Tensor, ridge: Number, rows: slice, valid: Tensor | None) -> Tensor:
    if valid is not None:
        gram = gram * valid * valid[:, None]
    if is_zero(ridge):
        # K⁻¹K is the identity if K has an inverse.
        exists = gram.new_ones(len(gram)) if valid is None else valid.to(gram)
        info = torch.linalg.cholesky_ex(gram + torch.diag(1 - exists)).info
        return torch.where(info == 0, torch.diag(exists), torch.nan)[rows]
    # A copy, because the kernel may have kept its matrix.
    gram = gram.diagonal_scatter(gram.diagonal() + ridge)
    factor, info = torch.linalg.cholesky_ex(gram)
    share = torch.where(info == 0, gram.new_ones(()) * -ridge, torch.nan)
    first, last = rows.start, rows.stop
    if 3 * (last - first) > len(gram):
        weights = torch.cholesky_inverse(factor)[rows]
    else:  # 2 n m² operations in place of 2/3 m³
        own = gram.new_zeros(len(gram), last - first)
        own.diagonal(-first).fill_(1)
        weights = torch.cholesky_solve(own, factor).mT
    diagonal = weights.mul_(share).diagonal(first).add_(1)
    if valid is not None:
        diagonal.mul_(valid[rows])
    return weights


def columns_by_landmarks(
    kernel: KernelFunction,
    values: Tensor,
    ridge: Number,
    rows: slice,
    valid: Tensor | None,
    landmarks: int,
    out: torch.dtype,
) -> Columns:
    """Columns of the operator of K = ΦΦᵀ + diag(rest), Φ of rank ``landmarks``.

    ``rest = k(a, a) - |φ|²`` keeps the weight of samples far from all landmarks.  With ν = ridge + rest and
    Ψ = Φ / √ν: ``W_ij = [i = j] rest_i / ν_i + ridge / √(ν_i ν_j) ψ_iᵀ (ΨᵀΨ + I)⁻¹ ψ_j``.

    The arguments are those of `conditional_columns`, with the values (m, c) in float64, or the
    class ids (m,), of all samples. ``out`` is the type of the result.

    Source:
        Snelson and Ghahramani, Sparse Gaussian Processes using Pseudo-inputs (2006).
    """
    marks, factor = _landmarks(kernel, values, valid, landmarks)
    m, begin = len(values), rows.start or 0
    psi = values.new_empty(m, landmarks, dtype=out)
    gram = torch.eye(landmarks, dtype=torch.float64, device=values.device)
    noise, own = gram.new_empty(m), gram.new_empty(m)
    for block in blocks(m, 4 * landmarks, values.device):
        across = similarities(kernel, values[block], marks).double()
        phi = torch.linalg.solve_triangular(factor.mT, across, upper=True, left=False)
        rest = (diagonal_of(kernel, values[block]).double() - phi.square().sum(1)).clamp_min_(0)
        noise[block] = rest + ridge
        phi /= noise[block, None].sqrt()
        if valid is not None:
            rest, phi = rest * valid[block], phi * valid[block, None]
        gram.addmm_(phi.mT, phi)
        own[block] = rest / noise[block]
        psi[block] = phi / noise[block, None].sqrt()
    inverse, info = torch.linalg.cholesky_ex(gram)
    solved = torch.cholesky_solve(psi[rows].double().mT, inverse)
    solved = solved.mul_(torch.where(info == 0, ridge, torch.nan)).mT.to(out)

    def columns(block: slice, among: slice = slice(None)) -> Tensor:
        weights = solved[among] @ psi[block].mT
        start, row = block.start or 0, begin + (among.start or 0)
        first, mine = max(start, row), weights.diagonal(row - start)
        mine.add_(own[first : first + len(mine)])  # the anchors' own columns, if any
        return weights

    return columns


def _landmarks(
    kernel: KernelFunction, values: Tensor, valid: Tensor | None, landmarks: int
) -> tuple[Tensor, Tensor]:
    """The values of the landmarks, and the Cholesky factor of their kernel matrix."""
    m, place = len(values), torch.arange(landmarks, device=values.device)
    if valid is None:
        chosen = place * m // landmarks
    else:
        valid_first = (~valid).byte().argsort(stable=True)
        chosen = valid_first[place * valid.sum() // landmarks]
    marks = values[chosen]
    gram = similarities(kernel, marks, marks).double()
    # Landmarks may be equal; a small addition to the diagonal makes the matrix regular.
    diagonal = gram.diagonal()
    gram = gram.diagonal_scatter(diagonal + 1e-10 * diagonal.mean())
    factor, info = torch.linalg.cholesky_ex(gram)
    return marks, torch.where(info == 0, factor, torch.nan)
