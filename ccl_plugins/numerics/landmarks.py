"""The conditional operator of CCL-K, approximated by landmarks: a few samples represent all.

For kernels without features, whose exact operator costs O(m³).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ccl_plugins.numerics.kernel_functions import KernelFunction, diagonal_of, similarities
from ccl_plugins.numerics.numbers import Number
from ccl_plugins.numerics.streaming import blocks


def columns_by_landmarks(
    kernel: KernelFunction,
    values: Tensor,
    ridge: Number,
    rows: slice,
    valid: Tensor | None,
    landmarks: int,
    out: torch.dtype,
) -> Callable[..., Tensor]:
    """Columns of the operator of K = ΦΦᵀ + diag(rest), Φ of rank ``landmarks``.

    ``rest = k(a, a) - |φ|²`` keeps the weight of samples far from all landmarks.  With ν = ridge + rest and
    Ψ = Φ / √ν: ``W_ij = [i = j] rest_i / ν_i + ridge / √(ν_i ν_j) ψ_iᵀ (ΨᵀΨ + I)⁻¹ ψ_j``.

    Arguments as in `ccl_plugins.numerics.conditional_operator.conditional_columns`, with the values (m, c)
    in float64, or the class ids (m,), of all samples.  ``out`` is the type of the result.

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
