"""What is computed from a kernel's optional members equals what its values give."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.kernels import RBF, Cosine, Delta, Jaccard, Laplacian, Linear, Polynomial, Product
from ccl_plugins.numerics.kernel_functions import diagonal_of, rank_of

KERNELS = [
    RBF(0.7),
    RBF("median"),
    Laplacian(norm=1),
    Cosine(),
    Linear(2.0),
    Polynomial(5, 1.0),
    Product([Linear(), Cosine()]),
    Jaccard(),
    Delta(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("ids", [False, True])
def test_the_diagonal_is_that_of_the_kernel_matrix(kernel, ids):
    z = torch.randn(300, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    z = torch.arange(300) % 7 if ids else z
    expected = kernel(z, z).diagonal()
    torch.testing.assert_close(diagonal_of(kernel, z).to(expected), expected)


def test_the_rank_is_the_width_of_the_features():
    z = torch.randn(5, 3)
    assert [rank_of(kernel, z) for kernel in KERNELS[3:7]] == [3, 3, 56, 9]
    assert rank_of(RBF(), z) is None
