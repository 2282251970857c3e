"""Log-sum-exp of masked and weighted entries."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.numerics.logsumexp import (
    EMPTY,
    in_order_of,
    log_tilted_mean,
    log_weights,
    logsumexp,
    logsumexp_blocks,
    masked,
    softplus,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [1.0, 300.0, 1e4])
def test_logsumexp_is_torchs_in_value_and_gradient(dtype, spread):
    torch.manual_seed(0)
    x = (spread * torch.randn(6, 9, dtype=dtype)).requires_grad_()
    logits = masked(x, torch.rand(6, 9) < 0.5)
    weight = torch.randn(6, dtype=dtype)
    for ours, theirs in [
        (logsumexp(logits), logits.logsumexp(1)),
        (logsumexp_blocks([logits[:, :4], logits[:, 4:]]), logits.logsumexp(1)),
    ]:
        torch.testing.assert_close(ours, theirs)
        grads = [
            torch.autograd.grad((v * weight).sum(), x, retain_graph=True) for v in (ours, theirs)
        ]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-20)


@pytest.mark.parametrize("weights", ["none", "logs", "kept"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("scale", [1.0, 2.0, 3.0])
def test_logsumexp_scales_and_weighs_in_one_go(weights, transposed, scale):
    x = torch.randn(6, 6, dtype=torch.float64, generator=torch.manual_seed(0)).requires_grad_()
    y = x.T if transposed else x
    logs = torch.linspace(-3, 2, 36, dtype=torch.float64).reshape(6, 6)
    kept = logs > -2
    given = {"none": None, "logs": logs, "kept": kept}[weights]
    scaled, before = scale * y, x.detach().clone()
    plain = {"none": scaled, "logs": scaled + logs, "kept": masked(scaled, kept)}[weights]
    found, expected = logsumexp(y, given, scale), plain.logsumexp(1)
    assert torch.equal(x, before)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(v.square().sum(), x)[0] for v in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_logsumexp_passes_gradcheck_and_compiles_whole():
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(logsumexp, (x,))
    compiled = torch.compile(logsumexp, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), logsumexp(x))


def test_a_row_in_which_nothing_is_left_is_finite():
    x = torch.randn(2, 4, requires_grad=True)
    value = logsumexp(masked(x, torch.tensor([[True], [False]])))
    value.sum().backward()
    assert value.isfinite().all()
    torch.testing.assert_close(x.grad[1], torch.zeros(4))


def test_log_weights_are_empty_where_a_weight_is_not_above_0_and_nan_where_it_is():
    weights = torch.tensor([1.0, 0.0, -1.0, torch.nan, 1e-30])
    expected = torch.tensor([0.0, EMPTY, EMPTY, torch.nan, torch.tensor(1e-30).log()])
    torch.testing.assert_close(log_weights(weights), expected, equal_nan=True)


@pytest.mark.parametrize("keep", [torch.rand(6, 6) < 0.5, torch.rand(1, 6) < 0.5, None])
def test_a_mask_is_the_same_on_a_transposed_product(keep):
    x = torch.randn(6, 6)
    torch.testing.assert_close(masked(x.T, keep), masked(x.T.contiguous(), keep))


def test_the_own_entries_are_left_out_from_a_column_on():
    x = torch.randn(3, 6, dtype=torch.float64, generator=torch.manual_seed(0)).requires_grad_()
    own = torch.arange(3)[:, None] + 2 == torch.arange(6)
    for keep in (None, torch.arange(6).expand(3, 6) != 4):
        expected = masked(masked(x / 0.1, keep), ~own).logsumexp(1)
        found = logsumexp(x, keep, 10.0, leave_out=2)
        torch.testing.assert_close(found, expected)
        both = [torch.autograd.grad(each.sum(), x)[0] for each in (found, expected)]
        torch.testing.assert_close(*both)


def test_compiled_code_refuses_a_gradient_of_a_gradient():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(logsumexp, fullgraph=True, backend="aot_eager")
    (gradient,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.square().sum().backward()


def test_softplus_is_exact_in_float64():
    x = torch.tensor([-700.0, -1.0, 0.0, 19.0, 25.0, 36.0, 800.0], dtype=torch.float64)
    x.requires_grad_()
    found = softplus(x)
    torch.testing.assert_close(found, torch.logaddexp(x, torch.zeros_like(x)), rtol=1e-14, atol=0)
    (slope,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(slope, x.sigmoid(), rtol=1e-14, atol=0)
    assert (softplus(torch.tensor([-1e4, -50.0, 60.0, 1e4])) >= 0).all()


def test_shares_far_below_the_largest_are_raised_to_a_normal_number():
    for dtype, least in ((torch.float32, -60.0), (torch.float64, -600.0)):
        x = torch.tensor([[0.0, -1e4, -1e9]], dtype=dtype, requires_grad=True)
        (gradient,) = torch.autograd.grad(logsumexp(x).sum(), x)
        expected = torch.tensor(least, dtype=dtype).exp()
        torch.testing.assert_close(gradient[0, 1:], expected.expand(2), rtol=1e-4, atol=0)


def test_value_and_gradient_are_right_in_three_dimensions():
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.manual_seed(0)).requires_grad_()
    gradients = []
    for value in (logsumexp(x, scale=2.0), (2 * x).logsumexp(-1)):
        assert value.shape == (2, 3)
        gradients.append((value, *torch.autograd.grad(value.square().sum(), x)))
    torch.testing.assert_close(*gradients)


def test_a_mask_takes_the_order_of_a_product_of_its_shape():
    x, y = torch.rand(4, 6).T, torch.rand(6, 4) < 0.5
    found = in_order_of(x, y)
    assert found.stride() == x.stride()
    assert found.dtype == torch.bool
    assert torch.equal(found, y)
    for other in (found, y[:1]):  # of the same order, and of another shape
        assert in_order_of(x, other) is other


def test_a_single_block_is_summed_as_it_is():
    x = torch.randn(3, 4, dtype=torch.float64)
    assert torch.equal(logsumexp_blocks([x]), logsumexp(x))


def plainly(blocks, temperature, beta, shift, weight_gradient=True):
    """The log of the tilted mean, by torch's own log-sum-exp."""
    s = torch.cat([x for x, _ in blocks], 1) - shift[:, None]
    keep = torch.cat([keep.expand_as(x) for x, keep in blocks], 1)
    tilt = s if weight_gradient else s.detach()
    empty = -torch.inf
    upper = ((s + beta * tilt) / temperature).masked_fill(~keep, empty).logsumexp(1)
    return upper - (beta * tilt / temperature).masked_fill(~keep, empty).logsumexp(1)


def some_blocks(n=5, widths=(7, 3), seed=0):
    generator = torch.Generator().manual_seed(seed)
    sims = [2 * torch.rand(n, m, generator=generator).double() - 1 for m in widths]
    keeps = [torch.rand(n, m, generator=generator) < 0.6 for m in widths]
    keeps[0][:, 0] = True
    return [(x.requires_grad_(), keep) for x, keep in zip(sims, keeps, strict=True)]


@pytest.mark.parametrize("weight_gradient", [True, False])
@pytest.mark.parametrize(("temperature", "beta"), [(0.5, 1.0), (0.07, 0.1), (1.0, 5.0)])
def test_the_tilted_mean_is_the_difference_of_two_logsumexp(temperature, beta, weight_gradient):
    blocks, shift = some_blocks(), torch.rand(5).double()
    inputs = [x for x, _ in blocks]
    for given in ((temperature, beta), (torch.tensor(temperature), torch.tensor(beta))):
        exact = [float(each) for each in given]
        found = log_tilted_mean(blocks, *given, shift, weight_gradient)
        expected = plainly(blocks, *exact, shift, weight_gradient)
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
        weights = torch.randn(5).double()
        slopes = [torch.autograd.grad((y * weights).sum(), inputs) for y in (found, expected)]
        torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-12)


def test_rows_of_the_tilted_mean_in_which_nothing_counts_are_finite():
    blocks = some_blocks()
    for _, keep in blocks:
        keep[2] = False
    value = log_tilted_mean(blocks, 0.5, 1.0, torch.zeros(5).double())
    assert value.isfinite().all()
    for slope in torch.autograd.grad(value.sum(), [x for x, _ in blocks]):
        assert slope.isfinite().all()
        assert (slope[2] == 0).all()
        assert slope[0].any()


@pytest.mark.parametrize("beta", [1e-3, 1.0, 10.0])
def test_the_tilted_mean_near_1_is_exact_in_float32(beta):
    s = torch.full((1, 1000), 0.9) + 1e-6 * torch.arange(1000)
    blocks, shift = [(s, torch.ones(1, 1000, dtype=torch.bool))], torch.tensor([0.9])
    found = log_tilted_mean(blocks, 0.01, beta, shift)
    exact = plainly([(s.double(), blocks[0][1])], 0.01, beta, shift.double())
    torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=1e-9)
