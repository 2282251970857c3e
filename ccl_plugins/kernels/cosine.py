"""The cosine kernel."""

from __future__ import annotations

from ccl_plugins.kernels.linear import Linear


class Cosine(Linear):
    r"""Cosine similarity of condition values: only the angle counts, not the length.

    ``k(a, b) = <a, b> / (|a| |b|)``; for class ids, ``[a = b]``. A zero vector has similarity 0 to
    every value, also to itself.

    Equation:
        k(a, b) = \frac{\langle a, b \rangle}{\lVert a \rVert \lVert b \rVert}

    Shape:
        (n, c), (m, c) -> (n, m); (n,), (m,) for scalars and class ids

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), their main setting.
    """

    def __init__(self) -> None:
        super().__init__(normalize=True)
