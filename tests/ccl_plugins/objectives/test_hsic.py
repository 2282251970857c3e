from __future__ import annotations

import pytest
import torch
from support import slow_guides as slow

from ccl_plugins.kernels import RBF, Linear
from ccl_plugins.objectives import HSIC
from ccl_plugins.pairs import Samples, in_batch

X = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Z = torch.rand(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
IDS = torch.tensor([0, 1, 2, 0, 1, 0])


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_value_and_gradient_are_those_of_sums_over_samples(estimator):
    views = X.clone().requires_grad_()
    found = HSIC(estimator=estimator).loss(in_batch(views, Samples({"condition": Z})))
    expected = sum(slow.hsic(view, Z, estimator) for view in views) / 2
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(found, views),
        torch.autograd.grad(expected, views),
        rtol=1e-9,
        atol=1e-12,
    )
    single = HSIC(estimator=estimator).loss(in_batch(X.float(), Samples({"condition": Z.float()})))
    torch.testing.assert_close(single.double(), expected.detach(), rtol=2e-5, atol=2e-6)


def test_of_partners_the_first_view_alone_is_read():
    known = Samples({"condition": Z}, partner=torch.arange(6).flip(0))
    found = HSIC().loss(in_batch(X, known))
    torch.testing.assert_close(found, slow.hsic(X[0], Z, "unbiased"))


def test_class_ids_count_by_equality():
    found = HSIC(estimator="biased").loss(in_batch(X, Samples({"condition": IDS})))
    bits = torch.nn.functional.one_hot(IDS).double()
    expected = sum(slow.hsic(view, bits, "biased") for view in X) / 2
    torch.testing.assert_close(found, expected)


def test_a_fixed_kernel_has_the_gradient_of_its_value():
    objective = HSIC(RBF(0.3), embedding_kernel=Linear())
    torch.autograd.gradcheck(
        lambda x: objective.loss(in_batch(x, Samples({"condition": Z}))), X.clone().requires_grad_()
    )


def test_values_that_say_nothing_have_an_unbiased_estimate_of_zero_in_the_mean():
    generator = torch.Generator().manual_seed(0)
    found = {"biased": [], "unbiased": []}
    for _ in range(200):
        x, z = torch.randn(2, 1, 12, 3, generator=generator)
        for estimator, each in found.items():
            kernel = RBF(1.0)
            objective = HSIC(kernel, embedding_kernel=kernel, estimator=estimator)
            each.append(objective.loss(in_batch(x, Samples({"condition": z[0]}))))
    error = torch.stack(found["unbiased"]).std() / 200**0.5
    assert torch.stack(found["unbiased"]).mean().abs() < 3 * error
    assert torch.stack(found["biased"]).mean() > 10 * error


def test_samples_without_a_value_reach_no_median_of_embeddings():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(40, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(2, 40, 2, generator=generator, dtype=torch.float64)
    views = 5 + 0.1 * (z + 0.1 * noise)  # far from 0, and of the condition
    lost = torch.arange(40) % 2 == 1
    objective = HSIC(RBF(0.3), embedding_kernel=RBF("median"))
    expected = objective.loss(in_batch(views[:, ~lost], Samples({"condition": z[~lost]})))
    z[lost] = torch.nan
    found = objective.loss(in_batch(views, Samples({"condition": z}, ignored=("condition",))))
    assert expected > 0.01
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0)


@pytest.mark.parametrize(("n", "estimator"), [(4, "unbiased"), (2, "biased")])
def test_the_fewest_samples_that_tell_count(n, estimator):
    found = HSIC(estimator=estimator).loss(in_batch(X[:1, :n], Samples({"condition": Z[:n]})))
    torch.testing.assert_close(found, slow.hsic(X[0, :n], Z[:n], estimator))
    assert found != 0


@pytest.mark.parametrize(
    ("kernel", "stops"), [(None, True), (RBF("median"), True), (RBF(0.3), False)]
)
def test_a_scale_that_is_computed_stops_the_gradient(kernel, stops):
    assert HSIC(embedding_kernel=kernel).stops_gradient == stops


@pytest.mark.parametrize(("n", "estimator"), [(3, "unbiased"), (1, "biased")])
def test_too_few_samples_have_no_dependence(n, estimator):
    views = X[:, :n].clone().requires_grad_()
    found = HSIC(estimator=estimator).loss(in_batch(views, Samples({"condition": Z[:n]})))
    assert found == 0
    assert not torch.autograd.grad(found, views)[0].any()
