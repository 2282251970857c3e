"""The Gaussian kernel, also called radial basis function (RBF)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ccl_plugins.kernels.base import OneHotKernel
from ccl_plugins.kernels.scale import read_scale, resolve
from ccl_plugins.numerics.condition_values import squared_distance


class RBF(OneHotKernel):
    r"""Gaussian kernel: similarity falls with the squared distance of condition values (RBF).

    ``k(a, b) = exp(-|a - b|² / scale)``; for class ids, 1 where equal and ``exp(-2 / scale)`` elsewhere.

    Equation:
        k(a, b) = \exp \left( -\frac{\lVert a - b \rVert^2}{\sigma} \right)

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Args:
        scale: In squared units of the condition, above 0; a larger scale makes more samples similar.
            ``"median"``: the median squared distance of different values of ``b``, computed in every
            call.

    Defaults:
        scale: Here: depends on the data: take ``"median"``, or the scale that ``ccl inspect``
            proposes.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), Table 7, and their code: the
        scale is σ², not 2σ².
    """

    def __init__(self, scale: float | Literal["median"] = 1.0) -> None:
        self.scale = read_scale(scale)
        if not isinstance(self.scale, str):
            self.radial = self._radial

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) similarities in (0, 1]."""
        return self.distances(a, b).div_(-resolve(self.scale, self.distances, b)).exp_()

    def distances(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) squared distances, which the scale divides."""
        return squared_distance(a, b)

    def _radial(self, square: Tensor) -> Tensor:
        """The kernel's values at squared distances of any shape."""
        return square.div(-self.scale).exp_()  # type: ignore[operator]  # a number: see __init__
