"""The polynomial kernel."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import DEEPEST, non_negative, whole
from ccl_plugins.kernels.base import OneHotKernel
from ccl_plugins.kernels.scale import refuse_median
from ccl_plugins.numerics.condition_values import as_vectors, inner, squared_norm


class Polynomial(OneHotKernel):
    r"""Polynomial of the inner product of condition values: products of their entries count.

    ``k(a, b) = (<a, b> + coef0)^degree / scale``; for class ids, ``<a, b> = [a = b]``.

    Equation:
        k(a, b) = \frac{(\langle a, b \rangle + c_0)^{d}}{\sigma}

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Args:
        degree: A whole number, 1 to 1024.
        coef0: In squared units of the condition, 0 or more; 0 is the homogeneous kernel.
        scale: Divisor of the power, above 0.
        normalize: Divide by ``sqrt(k(a, a) k(b, b))``, which cancels the scale; a value with
            ``k(a, a) = 0`` has similarity 0 to every value.

    Raises:
        TypeError: For a degree that is not whole.
        ValueError: For a value out of range.

    Defaults:
        degree: Code: 3.
        coef0: Code: 0.
        scale: Here: as for ``rbf``.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022); their code has degree 3 and
        coef0 0, and overwrites the diagonal with 1, which makes the kernel indefinite; here the
        diagonal is kept, or normalized to 1.
    """

    def __init__(
        self, *, degree: int = 3, coef0: float = 0.0, scale: float = 1.0, normalize: bool = False
    ) -> None:
        self.degree = whole("degree", degree, 1, DEEPEST)
        self.coef0 = non_negative("coef0", coef0)
        self.scale = refuse_median(scale, "polynomial")
        self.normalize = normalize

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) powers of inner products."""
        base = inner(a, b) + self.coef0
        if not self.normalize:
            return base**self.degree / self.scale
        return (base / (self._length(a)[:, None] * self._length(b))) ** self.degree

    def _length(self, a: Tensor) -> Tensor:
        """``sqrt(<a, a> + coef0)``, with inf in place of 0, so that a division by it gives 0."""
        length = (squared_norm(a) + self.coef0).sqrt()
        return length.masked_fill(length == 0, torch.inf)

    def features(self, a: Tensor) -> Tensor:
        """(n, r) monomials of the given degree, whose inner products are the kernel's."""
        x = as_vectors(a)
        if self.coef0:
            x = functional.pad(x, (0, 1), value=self.coef0**0.5)
        if self.normalize:
            x = functional.normalize(x)
        factors = _monomials(x.shape[1], self.degree, x.device)
        features = x.new_full((), 1 if self.normalize else self.scale**-0.5)
        before, run = factors[0], torch.zeros_like(factors[0])
        for place, factor in enumerate(factors, 1):
            # A monomial occurs degree! / Π exponent! times in the power.
            run = torch.where(factor == before, run + 1, 1)
            features = features * x[:, factor] * (place / run.to(x.dtype)).sqrt()
            before = factor
        return features

    def rank(self, a: Tensor) -> int:
        """The number of monomials: the width of the features."""
        c = as_vectors(a).shape[1] + (1 if self.coef0 else 0)
        return math.comb(c + self.degree - 1, self.degree)


def _monomials(c: int, degree: int, device: torch.device) -> list[Tensor]:
    """The factors of all r monomials of c variables, in order: one tensor (r,) for each factor."""
    factors: list[Tensor] = []
    sizes = [1] * c  # the number of monomials of the variables from each one on
    for _ in range(degree):
        first = torch.cat([torch.full((size,), i, device=device) for i, size in enumerate(sizes)])
        factors = [first, *(torch.cat([rest[-size:] for size in sizes]) for rest in factors)]
        sizes = [sum(sizes[i:]) for i in range(c)]
    return factors
