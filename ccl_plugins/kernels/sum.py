"""The weighted sum of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import positive
from ccl_plugins.kernels.combined import Combined
from ccl_plugins.protocols import Kernel


class Sum(Combined):
    r"""Weighted sum of kernels: values are similar if any kernel finds them similar.

    ``k(a, b) = Σ_p weight_p k_p(a, b)``.  It has exact features, its kernels' features side by side, if
    all of them have features. With several conditions, ``on = {species = "delta", age = "rbf"}``,
    samples are similar if they are similar in any condition.

    Equation:
        k(a, b) = \sum_p w_p k_p(a, b)

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids; mappings of names to these, with
        ``on``

    Args:
        weights: One weight for each kernel, above 0, in the kernels' order or, with ``on``, by the
            same names; None: all 1.

    Raises:
        ValueError: For weights that do not fit the kernels.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernels": ["rbf", "linear"]}

    def __init__(
        self,
        kernels: Sequence[Kernel] | None = None,
        weights: Sequence[float] | Mapping[str, float] | None = None,
        *,
        on: Mapping[str, Kernel] | None = None,
    ) -> None:
        super().__init__(kernels, on)
        places: list[Any] = list(range(len(self.members)) if on is None else on)
        given = dict.fromkeys(places, 1.0) if weights is None else _by_place(weights)
        self.weights = given if on is not None else list(given.values())
        if given.keys() != set(places):
            by_name = "" if on is None else f", by name ({', '.join(on)})"
            raise ValueError(
                f"weights must hold one number for each of {len(places)} kernels{by_name}, not {weights!r}"
            )
        self._weights = [positive(f"weights[{place!r}]", given[place]) for place in places]

    def _combined(self, values: list[Tensor]) -> Tensor:
        parts = zip(self._weights, values, strict=True)
        return reduce(Tensor.add, [weight * value for weight, value in parts])

    def _features(self, a: Any) -> Tensor:
        """(n, Σ r_p): the features of all kernels side by side."""
        parts = zip(self._weights, self._features_of_each(a), strict=True)
        return torch.cat([weight**0.5 * features for weight, features in parts], 1)

    def _rank(self, a: Any) -> int:
        return sum(self._ranks(a))


def _by_place(weights: Sequence[float] | Mapping[str, float]) -> dict[Any, float]:
    return dict(weights if isinstance(weights, Mapping) else enumerate(weights))
