"""The conditional operator of CCL-K by landmarks: a few samples stand for all.

For kernels without features, whose exact operator costs O(m³).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ccl_plugins.numerics.gram import KernelFunction
from ccl_plugins.numerics.streaming import blocks


def columns_by_landmarks(
    kernel: KernelFunction,
    values: Tensor,
    ridge: float | Tensor,
    rows: slice,
    valid: Tensor | None,
    landmarks: int,
    out: torch.dtype,
) -> Callable[[slice], Tensor]:
    """Columns of the operator of K = ΦΦᵀ + diag(rest), Φ of rank ``landmarks``.

    The rest gives samples that no landmark is like their own weight.  With noise ν = ridge + rest and
    Ψ = Φ / √ν: ``W_ij = [i = j] rest_i / ν_i + ridge / √(ν_i ν_j) ψ_iᵀ (ΨᵀΨ + I)⁻¹ ψ_j``.

    Args:
        kernel: A positive definite similarity of condition values.
        values: (m, c) or (m,), the condition of the m samples, in float64 or class ids.
        ridge: λ, above 0.
        rows: Which n rows are wanted.
        valid: (m,), False for samples that are not there.
        landmarks: How many samples, evenly spaced among those that are there.
        out: The type of the result; the solve is in float64.

    Source:
        Snelson and Ghahramani, Sparse Gaussian Processes using Pseudo-inputs (2006).
    """
    marks, factor = _landmarks(kernel, values, valid, landmarks)
    m, begin = len(values), rows.start or 0
    psi = values.new_empty(m, landmarks, dtype=out)
    gram = torch.eye(landmarks, dtype=torch.float64, device=values.device)
    noise, own = gram.new_empty(m), gram.new_empty(m)
    for some in blocks(m, 4 * landmarks, values.device):
        across = kernel(values[some], marks).double()
        phi = torch.linalg.solve_triangular(factor.mT, across, upper=True, left=False)
        rest = (_diagonal(kernel, values[some]) - phi.square().sum(1)).clamp_min_(0)
        noise[some] = rest + ridge
        phi /= noise[some, None].sqrt()
        if valid is not None:
            rest, phi = rest * valid[some], phi * valid[some, None]
        gram.addmm_(phi.mT, phi)
        own[some] = rest / noise[some]
        psi[some] = phi / noise[some, None].sqrt()
    inverse, info = torch.linalg.cholesky_ex(gram)
    solved = torch.cholesky_solve(psi[rows].double().mT, inverse)
    solved = solved.mul_(torch.where(info == 0, ridge, torch.nan)).mT.to(out)

    def columns(some: slice) -> Tensor:
        weights = solved @ psi[some].mT
        start, stop, _ = some.indices(m)
        first, last = max(start, begin), min(stop, begin + len(solved))
        if first < last:  # some of these columns are the anchors' own
            mine = weights[first - begin : last - begin, first - start : last - start]
            mine.diagonal().add_(own[first:last].to(out))
        return weights

    return columns


def _landmarks(
    kernel: KernelFunction, values: Tensor, valid: Tensor | None, landmarks: int
) -> tuple[Tensor, Tensor]:
    """Values of the landmarks, and the Cholesky factor of their kernel matrix."""
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
    return marks, factor * torch.where(info == 0, 1.0, torch.nan)


def _diagonal(kernel: KernelFunction, values: Tensor) -> Tensor:
    """``k(a, a)`` of each value, (m,)."""
    if hasattr(kernel, "radial"):  # of no distance, whatever the value
        return kernel.radial(torch.zeros(1, dtype=torch.float64, device=values.device))
    return torch.cat([kernel(some, some).diagonal().double() for some in values.split(128)])
