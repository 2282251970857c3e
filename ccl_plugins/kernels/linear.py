"""The linear kernel."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ccl_plugins.kernels.base import OneHotKernel
from ccl_plugins.kernels.scale import refuse_median
from ccl_plugins.numerics.condition_values import as_vectors, inner


class Linear(OneHotKernel):
    r"""Inner product of condition values: direction and length count.

    ``k(a, b) = <a, b> / scale``; for class ids, ``[a = b] / scale``.

    Equation:
        k(a, b) = \frac{\langle a, b \rangle}{\sigma}

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Args:
        scale: In squared units of the condition, above 0.
        normalize: Divide by ``sqrt(k(a, a) k(b, b))``, which cancels the scale: the cosine kernel.

    Raises:
        ValueError: For a scale that is not a number above 0.

    Defaults:
        scale: Here: as for ``rbf``.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022).  Their code overwrites the
        diagonal with 1, which makes the kernel indefinite; here the diagonal is kept, or normalized
        to 1.
    """

    def __init__(self, scale: float = 1.0, *, normalize: bool = False) -> None:
        self.scale = refuse_median(scale, "linear")
        self.normalize = normalize

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) inner products."""
        x, y = as_vectors(a), as_vectors(b)
        if x.dtype.is_floating_point:
            return self.features(x) @ self.features(y).mT
        return inner(x, y) if self.normalize else inner(x, y) / self.scale

    def features(self, a: Tensor) -> Tensor:
        """(n, c) vectors whose inner products are the kernel's."""
        x = as_vectors(a)
        return functional.normalize(x) if self.normalize else x / self.scale**0.5

    def rank(self, a: Tensor) -> int:
        """c, the width of the features."""
        return as_vectors(a).shape[1]
