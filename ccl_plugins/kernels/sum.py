"""The weighted sum of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import positive
from ccl_plugins.kernels.combined import Combined
from ccl_plugins.numerics.kernel_functions import features_of
from ccl_plugins.protocols import Kernel


class Sum(Combined):
    """Weighted sum of kernels: values are similar if they are under any kernel.

    ``k(a, b) = Σ_p weight_p k_p(a, b)``.  It has exact features, its kernels' features side by side, if
    all of them have features.

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Args:
        weights: One for each kernel, above 0; None: all 1.

    Raises:
        ValueError: For weights that do not fit the kernels.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernels": ["rbf", "linear"]}

    def __init__(self, kernels: Sequence[Kernel], weights: Sequence[float] | None = None) -> None:
        super().__init__(kernels)
        self.weights = [1.0] * len(kernels) if weights is None else list(weights)
        if len(self.weights) != len(kernels):
            raise ValueError(
                f"weights must hold one number for each of {len(kernels)} kernels, not {weights!r}"
            )
        for place, weight in enumerate(self.weights):
            positive(f"weights[{place}]", weight)

    def _combined(self, values: list[Tensor]) -> Tensor:
        parts = zip(self.weights, values, strict=True)
        return reduce(Tensor.add, [weight * value for weight, value in parts])

    def _features(self, a: Tensor) -> Tensor:
        """(n, Σ r_p): the features of all kernels side by side."""
        parts = zip(self.weights, self.kernels, strict=True)
        return torch.cat([weight**0.5 * features_of(kernel, a) for weight, kernel in parts], 1)

    def _rank(self, a: Tensor) -> int:
        return sum(self._ranks(a))
