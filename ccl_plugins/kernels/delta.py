"""The equality kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.kernels.base import OneHotKernel
from ccl_plugins.numerics.condition_values import as_vectors, equal


class Delta(OneHotKernel):
    """Equality of condition values: 1 where they are equal, 0 elsewhere.

    ``k(a, b) = [a = b]``; vectors are equal if all of their entries are.

    Equation:
        k(a, b) = [ a = b ]

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids
    """

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) ones and zeros."""
        x = as_vectors(a)
        return equal(a, b).to(x.dtype if x.is_floating_point() else torch.get_default_dtype())
