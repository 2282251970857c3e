"""Log-sum-exp of masked and weighted entries."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.numerics.logsumexp import EMPTY, log_weights, logsumexp, logsumexp_blocks, masked


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
def test_logsumexp_scales_and_weighs_in_one_go(weights, transposed):
    x = torch.randn(6, 6, dtype=torch.float64, generator=torch.manual_seed(0)).requires_grad_()
    y = x.T if transposed else x
    logs = torch.linspace(-3, 2, 36, dtype=torch.float64).reshape(6, 6)
    kept = logs > -2
    given = {"none": None, "logs": logs, "kept": kept}[weights]
    plain = {"none": 3 * y, "logs": 3 * y + logs, "kept": masked(3 * y, kept)}[weights]
    found, expected = logsumexp(y, given, 3.0), plain.logsumexp(1)
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
