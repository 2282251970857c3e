"""The product of kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any, ClassVar

from torch import Tensor

from ccl_plugins.kernels.combined import Combined
from ccl_plugins.numerics.kernel_functions import features_of


class Product(Combined):
    """Product of kernels: values are similar if they are under every kernel.

    ``k(a, b) = Π_p k_p(a, b)``.  It has exact features, the products of its kernels' features, if all
    of them have features.

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernels": ["rbf", "linear"]}

    def _combined(self, values: list[Tensor]) -> Tensor:
        return reduce(Tensor.mul, values)

    def _features(self, a: Tensor) -> Tensor:
        """(n, Π r_p): each feature of one kernel times each of the others."""
        return reduce(
            lambda x, y: (x[:, :, None] * y[:, None, :]).flatten(1),
            [features_of(kernel, a) for kernel in self.kernels],
        )

    def _rank(self, a: Tensor) -> int:
        return math.prod(self._ranks(a))
