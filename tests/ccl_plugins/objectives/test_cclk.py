"""CCL-K against slow loops, value and gradient."""

from __future__ import annotations

import pytest
import torch
from support import slow_loops

from ccl_plugins.kernels import RBF, Cosine, Laplacian, Linear, Polynomial, Sum
from ccl_plugins.objectives import FairCCLK, HardNegCCLK, WeaklySupCCLK
from ccl_plugins.pairs.pairs import in_batch

KERNELS = {
    "rbf": RBF,
    "laplacian": Laplacian,
    "linear": Linear,
    "polynomial": Polynomial,
    "cosine": Cosine,
}
OBJECTIVES = {"weaklysup": WeaklySupCCLK, "fair": FairCCLK, "hardneg": HardNegCCLK}


def make_kernel(name, scale):
    return Cosine() if name == "cosine" else KERNELS[name](scale=scale)


@pytest.mark.parametrize("clip", [True, False], ids=["clip", "keep"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_equals_the_slow_loop_in_value_and_gradient(kind, kernel, clip):
    generator = torch.Generator().manual_seed(5)
    b, ridge, tau, scale = 7, 0.3, 0.4, 1.7
    x, y = (torch.randn(b, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    z = torch.randn(b, 3, generator=generator, dtype=torch.float64)
    x.requires_grad_()
    y.requires_grad_()
    objective = OBJECTIVES[kind](
        make_kernel(kernel, scale),
        tau,
        ridge=ridge,
        negative_weights="clip" if clip else "keep",
    )
    w = slow_loops.operator(slow_loops.gram(kernel, z, scale=scale), ridge)
    slow = (
        slow_loops.cclk(kind, x, y, w, tau, clip) + slow_loops.cclk(kind, y, x, w, tau, clip)
    ) / 2
    if not slow.isfinite():
        with pytest.raises(ValueError, match="negative_weights"):
            objective(x, y, condition=z)
        return
    fast = objective(x, y, condition=z)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        torch.autograd.grad(fast, (x, y)), torch.autograd.grad(slow, (x, y)), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_class_ids_count_as_one_hot_vectors(kind, kernel):
    torch.manual_seed(1)
    x, y = torch.randn(9, 4).double(), torch.randn(9, 4).double()
    ids = torch.randint(3, (9,))
    objective = OBJECTIVES[kind](make_kernel(kernel, 0.7))
    one_hot = torch.nn.functional.one_hot(ids, 3).double()
    torch.testing.assert_close(
        objective(x, y, condition=ids), objective(x, y, condition=one_hot), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("kernel", [Linear(), Cosine(), Polynomial(normalize=True)])
def test_an_anchor_that_nothing_is_like_has_no_positive_and_does_not_count(kernel):
    x, y = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(2)).double()
    z = torch.rand(6, 3, generator=torch.Generator().manual_seed(3)).double()
    z[2] = 0
    pairs = in_batch(torch.nn.functional.normalize(torch.stack([x, y]), dim=-1), {"condition": z})
    objective = WeaklySupCCLK(kernel)
    values, weights = objective.terms(pairs)
    assert weights.tolist() == [[1, 1, 0, 1, 1, 1]] * 2
    assert values.max() < 50
    expected = values[weights > 0].mean()
    torch.testing.assert_close(objective(x, y, condition=z), expected)


def test_a_single_sample_has_no_negatives():
    x = torch.nn.functional.normalize(torch.randn(2, 1, 4), dim=-1).requires_grad_()
    loss = FairCCLK(RBF()).loss(in_batch(x, {"condition": torch.rand(1, 3)}))
    assert loss == 0
    assert torch.autograd.grad(loss, x)[0].isfinite().all()


def test_ridge_0_with_a_singular_kernel_says_so():
    x = torch.randn(4, 3)
    with pytest.raises(ValueError, match="singular, and ridge is 0"):
        FairCCLK(Linear(), ridge=0.0)(x, x, condition=torch.zeros(4).long())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"landmarks": 0}, "landmarks must be 1 or more, not 0"),
        ({"landmarks": 8, "form": "released"}, 'landmarks=8 is for form="paper"'),
    ],
)
def test_landmarks_that_cannot_be_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        FairCCLK(RBF(), **settings)


def test_an_indefinite_kernel_is_refused():
    class Indefinite:
        positive_definite = False

        def __call__(self, a, b):
            return a @ b.T

    with pytest.raises(ValueError, match="FairCCLK needs a positive definite kernel"):
        FairCCLK(Indefinite())


@pytest.mark.parametrize("kernel", [torch.dot, "rbf"])
@pytest.mark.parametrize("build", [*OBJECTIVES.values(), lambda kernel: Sum([RBF(), kernel])])
def test_a_kernel_that_does_not_declare_whether_it_is_positive_definite_is_refused(build, kernel):
    with pytest.raises(TypeError, match=r"needs a kernel with the member positive_definite"):
        build(kernel)
