"""The linear kernel."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ccl_plugins.numerics import as_vectors, inner
from ccl_plugins.ranges import positive


class Linear:
    """Inner product of the conditioning variable.

    ``k(a, b) = <a, b> / scale``; of class ids, ``[a = b] / scale``.

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Args:
        scale: In squared units of the condition, above 0.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022).  Their code overwrites the
        diagonal with 1, which makes the kernel indefinite; here it is kept.
    """

    positive_definite: ClassVar[bool] = True

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = positive("scale", scale)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) inner products."""
        return inner(a, b) / self.scale

    def features(self, a: Tensor) -> Tensor:
        """(n, c) vectors whose inner products are the kernel's."""
        return as_vectors(a) / self.scale**0.5

    def __repr__(self) -> str:
        return f"Linear(scale={self.scale})"
