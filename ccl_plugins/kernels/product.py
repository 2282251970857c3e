"""Products of kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any, ClassVar

from torch import Tensor

from ccl_plugins.kernels.parts import Combined, features_of, radial_of, rank_of


class Product(Combined):
    """Product of kernels of one conditioning variable: alike in all of several ways.

    ``k(a, b) = Π_p k_p(a, b)``.  It has exact features, the products of its kernels', where all of
    these have some.

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Args:
        kernels: One or more.

    Raises:
        ValueError: For no kernels.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernels": ["rbf", "linear"]}

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) products."""
        return reduce(Tensor.mul, [kernel(a, b) for kernel in self.kernels])

    def _features(self, a: Tensor) -> Tensor:
        """(n, Π r_p): each of a kernel's with each of another's."""
        return reduce(
            lambda x, y: (x[:, :, None] * y[:, None, :]).flatten(1),
            [features_of(kernel, a) for kernel in self.kernels],
        )

    def _rank(self, a: Tensor) -> int:
        return math.prod(rank_of(kernel, a) for kernel in self.kernels)

    def _radial(self, square: Tensor) -> Tensor:
        return reduce(Tensor.mul, [radial_of(kernel, square) for kernel in self.kernels])
