"""What is computed from a kernel's optional members equals what its values give."""

from __future__ import annotations

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.kernels import (
    RBF,
    Cosine,
    Delta,
    Jaccard,
    Laplacian,
    Linear,
    Polynomial,
    Product,
    Sum,
)
from ccl_plugins.numerics import as_vectors
from ccl_plugins.numerics.kernel_functions import (
    diagonal_of,
    features_of,
    is_positive_definite,
    rank_of,
    reads_one_hot,
    similarities,
)
from ccl_plugins.objectives import FairCCLK
from ccl_plugins.samplers import ConditionalPair

KERNELS = [
    RBF(0.7),
    RBF("median"),
    Laplacian(norm=1),
    Cosine(),
    Linear(2.0),
    Polynomial(degree=5, coef0=1.0),
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
    found = diagonal_of(kernel, z)
    torch.testing.assert_close(found, expected.to(found.dtype))
    if not ids:
        assert found.dtype == expected.dtype


def test_the_rank_is_the_width_of_the_features():
    z = torch.randn(5, 3)
    assert [rank_of(kernel, z) for kernel in KERNELS[3:7]] == [3, 3, 56, 9]
    assert rank_of(RBF(), z) is None


class Rowless(Linear):
    """A kernel of one value for each pair of rows instead of all pairs."""

    one_hot = False

    def __init__(self, found=lambda a, b: (a * b).sum(-1)):
        self.found, self.features, self.radial = found, lambda a: a.sum(1), lambda d: d[:1]

    def __call__(self, a, b):
        return self.found(a, b)

    def rank(self, a):
        return 1000


WRONG = r"kernel Rowless must return similarities of shape \(8, 8\), not \(8,\)"


@pytest.mark.parametrize(
    "use",
    [
        lambda kernel, z: similarities(kernel, z, z),
        lambda kernel, z: Sum([Cosine(), kernel])(z, z),
        lambda kernel, z: Product([kernel, Cosine()])(z, z),
        *(
            lambda kernel, z, name=name, more=more: ccl.create("objective", name, **more(kernel))(
                *torch.randn(2, 8, 4), **({"condition": z})
            )
            for name, more in {
                "fair_cclk": lambda kernel: {"kernel": kernel},
                "weaklysup_cclk": lambda kernel: {"kernel": kernel, "form": "released"},
                "soft_infonce": lambda kernel: {"kernel": kernel},
                "infonce": lambda kernel: {"exclude": (kernel, 0.5)},
            }.items()
        ),
    ],
)
def test_a_kernel_of_wrong_shape_is_named_wherever_it_is_used(use):
    with pytest.raises(ValueError, match=WRONG):
        use(Rowless(), torch.rand(8, 3))


def test_a_kernel_of_wrong_shape_is_named_by_landmarks_and_by_a_sampler():
    z = torch.rand(8, 3)
    fair = ccl.create("objective", "fair_cclk", kernel=Rowless(), landmarks=4)
    with pytest.raises(ValueError, match=r"kernel Rowless must return similarities .* \(4, 4\)"):
        fair(*torch.randn(2, 8, 4), condition=z)
    with pytest.raises(ValueError, match=r"kernel Rowless must return"):
        list(
            ConditionalPair(
                kernel=Rowless(), size=8, batch_size=4, seed=0, condition=torch.arange(8) % 2
            ).batches(0)
        )


def test_features_and_radial_values_of_wrong_shape_are_named():
    with pytest.raises(
        ValueError, match=r"Rowless must return features of shape \(8, r\), not \(8,"
    ):
        features_of(Rowless(), torch.rand(8, 3))
    with pytest.raises(ValueError, match=r"Rowless must return radial values of shape \(8,\), not"):
        diagonal_of(Rowless(), torch.rand(8, 3))
    with pytest.raises(ValueError, match=r"Rowless must return similarities .*, not a list"):
        similarities(Rowless(lambda a, b: [1.0]), torch.rand(8, 3), torch.rand(8, 3))


def test_similarities_of_another_number_of_rows_or_of_integers_are_named():
    a, b = torch.rand(8, 3), torch.rand(5, 3)
    with pytest.raises(
        ValueError, match=r"Rowless must return similarities .*\(8, 5\), not \(5, 8\)"
    ):
        similarities(Rowless(lambda a, b: b @ a.T), a, b)
    with pytest.raises(
        ValueError, match=r"kernel Rowless must return floats, not torch.int64: add"
    ):
        similarities(Rowless(lambda a, b: (a @ b.T).long()), a, b)
    kernel = Rowless()
    kernel.features = lambda a: a[1:]
    with pytest.raises(ValueError, match=r"features of shape \(8, r\), not \(7, 3\)"):
        features_of(kernel, a)


class Bare:
    """A kernel that its features alone make."""

    positive_definite = 1

    def features(self, a):
        return torch.cat([a, a.square()], 1)


def test_optional_members_are_looked_up_by_name():
    z = torch.rand(4, 3)
    assert rank_of(Bare(), z) == 6
    assert rank_of(Rowless(), z) == 1000
    torch.testing.assert_close(diagonal_of(Bare(), z), (z**2 + z**4).sum(1))
    assert reads_one_hot(Bare()) is False
    assert reads_one_hot(RBF()) is True


def test_a_kernel_declares_whether_it_is_positive_definite():
    assert is_positive_definite(Bare(), "cclk") is True
    names = r"cclk needs a kernel .* which function does not have: declare positive_definite = True"
    with pytest.raises(TypeError, match=names):
        is_positive_definite(lambda a, b: a @ b.T, "cclk")
    for kernel, name in ((RBF, "the class RBF"), ("rbf", "'rbf'")):
        with pytest.raises(TypeError, match=rf"cclk needs a kernel, such as RBF\(.*, not {name}"):
            is_positive_definite(kernel, "cclk")


@pytest.mark.parametrize(
    "use",
    [
        lambda kernel: FairCCLK(kernel),
        lambda kernel: Product([kernel, RBF()]),
        lambda kernel: Sum(on={"age": kernel, "pose": RBF()}),
        lambda kernel: ConditionalPair(
            kernel=kernel, size=4, batch_size=2, seed=0, condition=torch.rand(4, 2)
        ),
        lambda kernel: ccl.create("objective", "fair_cclk", kernel=kernel),
        lambda kernel: ccl.create("objective", "soft_infonce", kernel=kernel),
        lambda kernel: ccl.create("objective", "infonce", exclude=(kernel, 0.5)),
        lambda kernel: ccl.create("kernel", "product", kernels=["delta", kernel]),
    ],
)
def test_a_function_is_told_what_to_declare_and_then_is_a_kernel(use):
    def kernel(a, b):
        return as_vectors(a) @ as_vectors(b).T

    with pytest.raises((TypeError, ccl.Mistake), match="declare positive_definite = True"):
        use(kernel)
    kernel.positive_definite = True
    use(kernel)


def test_a_radial_kernel_gets_distances_in_floats_of_ids_too():
    kernel = Rowless()
    kernel.radial = lambda square: 2 - square
    for a in (torch.arange(5), torch.rand(5, 3), torch.rand(5, 3).double()):
        expected = torch.full((5,), 2, dtype=a.dtype if a.is_floating_point() else torch.float32)
        torch.testing.assert_close(diagonal_of(kernel, a), expected, rtol=0, atol=0)
