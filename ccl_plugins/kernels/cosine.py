"""The cosine kernel."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ccl_plugins.numerics.condition_values import as_vectors, inner


class Cosine:
    """Cosine similarity of condition values: the angle counts, the length does not.

    ``k(a, b) = <a, b> / (|a| |b|)``; for class ids, ``[a = b]``.  The similarity of a zero vector is 0
    to every value, itself included.

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), their main setting.
    """

    positive_definite: bool = True
    one_hot: bool = True

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) cosines."""
        x, y = as_vectors(a), as_vectors(b)
        if not x.dtype.is_floating_point:
            return inner(x, y)
        return self.features(x) @ self.features(y).mT

    def features(self, a: Tensor) -> Tensor:
        """(n, c) unit vectors."""
        return functional.normalize(as_vectors(a), dim=1)

    def rank(self, a: Tensor) -> int:
        """c, the width of the features."""
        return as_vectors(a).shape[1]

    def __repr__(self) -> str:
        return "Cosine()"
