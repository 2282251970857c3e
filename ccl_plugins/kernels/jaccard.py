"""The Jaccard kernel of attribute sets."""

from __future__ import annotations

from torch import Tensor

from ccl_plugins.kernels.base import OneHotKernel
from ccl_plugins.numerics.condition_values import inner, squared_norm


class Jaccard(OneHotKernel):
    r"""Jaccard similarity of attribute sets: the attributes in both, divided by those in either.

    ``k(a, b) = |a ∧ b| / |a ∨ b|`` for 0/1 vectors, 1 where both are empty; for class ids, ``[a = b]``.
    For vectors that are not 0/1, ``<a, b> / (|a|² + |b|² - <a, b>)``.

    Equation:
        k(a, b) = \frac{|a \wedge b|}{|a \vee b|}

    Shape:
        (n, c), (m, c) of 0/1 -> (n, m); (n,), (m,) for class ids

    Source:
        Ralaivola et al., Graph Kernels for Chemical Informatics (2005), the Tanimoto kernel, which is
        positive definite.
    """

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) shares in [0, 1]."""
        both = inner(a, b)
        either = squared_norm(a)[:, None] + squared_norm(b) - both
        empty = either == 0
        return (both + empty) / (either + empty)
