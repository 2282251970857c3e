"""The Laplacian kernel."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.kernels.base import OneHotKernel
from ccl_plugins.kernels.scale import read_scale, resolve
from ccl_plugins.numerics.condition_values import as_vectors, squared_distance


class Laplacian(OneHotKernel):
    r"""Laplacian kernel: similarity falls exponentially with the distance of condition values.

    ``k(a, b) = exp(-|a - b| / scale)``, with the Euclidean norm or the sum of absolute differences.

    Equation:
        k(a, b) = \exp \left( -\frac{\lVert a - b \rVert}{\sigma} \right)

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Args:
        scale: In units of the condition, above 0; a larger scale makes more samples similar.
            ``"median"``: the median distance of different values of ``b``, computed in every call.
        norm: 2, Euclidean, or 1, the sum of absolute differences.

    Raises:
        ValueError: For a scale not above 0 or another norm.

    Defaults:
        scale: Here: as for ``rbf``.
        norm: Code: 2.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022); their code has ``norm=2``.
    """

    def __init__(self, scale: float | Literal["median"] = 1.0, norm: Literal[1, 2] = 2) -> None:
        self.scale = read_scale(scale)
        if norm not in (1, 2):
            raise ValueError(f"norm must be 1 or 2, not {norm!r}")
        self.norm = norm
        if norm == 2 and not isinstance(self.scale, str):
            self.radial = self._radial

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) similarities in (0, 1]."""
        return self.distances(a, b).div(-resolve(self.scale, self.distances, b)).exp_()

    def _radial(self, square: Tensor) -> Tensor:
        """The kernel's values at squared distances of any shape."""
        return square.sqrt().div_(-self.scale).exp_()  # type: ignore[operator]  # a number: see __init__

    def distances(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) distances, which the scale divides."""
        x, y = as_vectors(a), as_vectors(b)
        if self.norm == 2:  # the square root has no gradient at 0
            square = squared_distance(a, b)
            return square.clamp_min(torch.finfo(square.dtype).tiny).sqrt()
        if not x.dtype.is_floating_point:
            return squared_distance(a, b)  # as the 1-norm of one-hot vectors: 2 where ids differ
        return torch.cdist(x, y, p=1)
