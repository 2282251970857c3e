"""The product of kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.kernels.combined import Combined
from ccl_plugins.numerics.kernel_functions import reads_one_hot
from ccl_plugins.protocols import Kernel


class Product(Combined):
    r"""Product of kernels: values are similar if every kernel finds them similar.

    ``k(a, b) = Π_p k_p(a, b)``.  It has exact features, the products of its kernels' features, if all
    of them have features. With several conditions, ``on = {species = "delta", age = "rbf"}``,
    samples are similar if they are similar in every condition.

    Equation:
        k(a, b) = \prod_p k_p(a, b)

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids; mappings of names to these, with
        ``on``
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernels": ["rbf", "linear"]}

    def __init__(
        self, kernels: Sequence[Kernel] | None = None, on: Mapping[str, Kernel] | None = None
    ) -> None:
        super().__init__(kernels, on)
        # Whether it is 0 for samples that differ in one of its conditions, if these are class ids.
        self.separates = all(map(_separates, self.members)) if self.conditions else None

    def _combined(self, values: list[Tensor]) -> Tensor:
        return reduce(Tensor.mul, values)

    def _features(self, a: Any) -> Tensor:
        """(n, Π r_p): each feature of one kernel times each of the others."""
        return reduce(
            lambda x, y: (x[:, :, None] * y[:, None, :]).flatten(1),
            self._features_of_each(a),
        )

    def _rank(self, a: Any) -> int:
        return math.prod(self._ranks(a))


def _separates(kernel: Any) -> bool:
    """Whether samples of different class ids have a similarity of 0."""
    if (separates := getattr(kernel, "separates", None)) is not None:
        return bool(separates)
    if not reads_one_hot(kernel):
        return False
    two = torch.eye(2, dtype=torch.float64)
    with torch.no_grad():
        return float(kernel(two, two)[0, 1]) == 0
