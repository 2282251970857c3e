"""The polynomial kernel."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ccl_plugins.numerics import inner
from ccl_plugins.ranges import non_negative, positive


class Polynomial:
    """Polynomial of the inner product of the conditioning variable.

    ``k(a, b) = (<a, b> + coef0)^degree / scale``; of class ids, ``<a, b> = [a = b]``.

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Args:
        degree: A whole number, 1 or more.
        coef0: In squared units of the condition, 0 or more; 0 is the homogeneous kernel.
        scale: Divides the power, above 0.

    Raises:
        ValueError: For a value out of range.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022); their code has degree 3 and
        coef0 0, and overwrites the diagonal with 1, which makes the kernel indefinite; here it is kept.
    """

    positive_definite: ClassVar[bool] = True

    def __init__(self, degree: int = 3, coef0: float = 0.0, scale: float = 1.0) -> None:
        if degree < 1 or degree != int(degree):
            raise ValueError(f"degree must be a whole number, 1 or more, not {degree!r}")
        self.degree = degree
        self.coef0 = non_negative("coef0", coef0)
        self.scale = positive("scale", scale)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) powers of inner products."""
        return (inner(a, b) + self.coef0) ** self.degree / self.scale

    def __repr__(self) -> str:
        return f"Polynomial(degree={self.degree}, coef0={self.coef0}, scale={self.scale})"
