"""iSogCLR is the paper's algorithm on one sample at a time, over several steps."""

import math
from dataclasses import replace

import pytest
import torch
from ccl_plugins.pairs import Queue, Samples, in_batch
from ccl_plugins.testing import on_two_ranks
from temperatures_of_ranks import after_two_steps
from torch.nn.functional import normalize

from ccl_more import ISogCLR, SogCLR

TAU, GAMMA, RHO, RATE, BETA = 0.3, 0.7, 0.4, 0.05, 0.6
LOWEST, HIGHEST = 0.25, 0.35


def build(**params):
    given = {"rho": RHO, "rate": RATE, "beta": BETA, "lowest": LOWEST, "highest": HIGHEST}
    return ISogCLR(12, TAU, GAMMA, **(given | params)).double()


def slow_step(views, index, state, queue=()):
    """The value and the gradient of the surrogate; ``state`` has u, ν and τ by dataset index."""
    leaves = [view.clone().requires_grad_() for view in views]
    unit = [normalize(view, dim=1) for view in leaves]
    n, cross = len(index), [(a, b) for a in range(len(unit)) for b in range(len(unit)) if a != b]
    value = surrogate = 0
    u, nu, taus = state["u"], state["nu"], state["tau"]
    for i in range(n):
        k = int(index[i])
        tau, g, slope = taus.get(k, TAU), {}, {}
        for a, b in cross:
            scores = [unit[a][i] @ unit[w][j] / tau for j in range(n) for w in (a, b) if j != i]
            scores += [unit[a][i] @ key / tau for key in queue]
            g[a, b] = sum(s.exp() for s in scores) / len(scores)
            slope[a, b] = float(sum(s.exp() * s for s in scores).detach()) / len(scores)
        now = {
            views: each if k not in u else (1 - GAMMA) * u[k] + GAMMA * each
            for views, each in ((v, float(e.detach())) for v, e in g.items())
        }
        u[k], gradient = sum(now.values()) / len(now), 0.0
        for a, b in cross:
            own = unit[a][i] @ unit[b][i]
            value += (tau * math.log(now[a, b]) + tau * RHO - own).detach()
            surrogate += tau * g[a, b] / now[a, b] - own
            gradient += (math.log(now[a, b]) + RHO - slope[a, b] / now[a, b]) / len(cross)
        nu[k] = (1 - BETA) * nu.get(k, 0.0) + BETA * gradient
        taus[k] = min(max(tau - RATE * nu[k], LOWEST), HIGHEST)
    gradient = torch.autograd.grad(surrogate / (n * len(cross)), leaves)
    return value / (n * len(cross)), torch.stack(gradient)


@pytest.mark.parametrize("with_queue", [False, True], ids=["batch", "queue"])
def test_isogclr_over_steps_in_which_samples_come_again(views, queue, with_queue):
    objective, state = build(), {"u": {}, "nu": {}, "tau": {}}
    generator = torch.Generator().manual_seed(2)
    for _ in range(5):
        index = torch.randperm(12, generator=generator)[:7]
        given = [(v + torch.randn(v.shape, generator=generator)).requires_grad_() for v in views]
        pairs = in_batch(normalize(torch.stack(given), dim=-1), Samples(index=index))
        if with_queue:
            valid = torch.tensor([True, True, False])
            pairs = replace(pairs, queue=Queue(queue, valid))
        for _ in range(2):  # twice the same, because nothing is committed yet
            loss = objective.loss(pairs)
        gradient = torch.stack(torch.autograd.grad(loss, given))
        objective.after_step()
        keys = queue[:2] if with_queue else ()
        expected, slope = slow_step([v.detach() for v in given], index, state, keys)
        torch.testing.assert_close(loss.detach(), expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(gradient, slope, rtol=1e-9, atol=1e-9)
    seen, tau = list(state["tau"]), torch.tensor(list(state["tau"].values())).double()
    torch.testing.assert_close(objective.temperatures[seen], tau)
    assert objective.temperatures.isnan().tolist() == [k not in seen for k in range(12)]
    assert LOWEST < tau.median() < HIGHEST
    assert len(tau.unique()) > 4  # the bounds do not decide all of them


def test_the_step_is_that_of_the_gradient_by_the_temperature(views):
    """With equal views, u is g in the first step, and the loss of τ is ``τ log g + τ ρ``."""
    objective, n = build(rate=1e-3, beta=1.0), 7
    unit = normalize(views[0], dim=1)
    objective.loss(in_batch(torch.stack([unit, unit]), Samples(index=torch.arange(n))))
    objective.after_step()
    tau = torch.full((n,), TAU).double().requires_grad_()
    scores = (unit @ unit.T / tau[:, None]).fill_diagonal_(-torch.inf)
    loss = tau * (scores.logsumexp(1) - math.log(n - 1)) + tau * RHO
    (slope,) = torch.autograd.grad(loss.sum(), tau)
    torch.testing.assert_close((TAU - objective.temperatures[:n]) / 1e-3, slope)


def test_float32_is_within_rounding_of_float64(views):
    wide, narrow = build(), build().float()
    for step in range(3):
        index, given = (
            torch.arange(7) + step,
            [view.roll(step, 0).float().clone() for view in views],
        )
        leaves = [[x.to(t).requires_grad_() for x in given] for t in (torch.float32, torch.float64)]
        found, expected = narrow(*leaves[0], index=index), wide(*leaves[1], index=index)
        torch.testing.assert_close(found.double(), expected, rtol=2e-5, atol=2e-5)
        gradients = [
            torch.autograd.grad(x, each) for x, each in zip((found, expected), leaves, strict=True)
        ]
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=2e-5, atol=2e-5)
        narrow.after_step()
        wide.after_step()


class OfEachView(SogCLR):
    each_view = True


def test_without_steps_it_is_sogclr_of_each_view_with_a_constant(views):
    for index in (None, torch.arange(7)):
        expected = OfEachView(12, TAU, GAMMA).double()(*views, index=index) + TAU * RHO
        torch.testing.assert_close(build()(*views, index=index), expected)


def test_temperatures_come_back_with_a_checkpoint_and_an_open_step_does_not(views):
    objective = build()
    pairs = in_batch(normalize(torch.stack(views), dim=-1), Samples(index=torch.arange(7)))
    before = {name: x.clone() for name, x in objective.state_dict().items()}
    objective.loss(pairs)
    torch.testing.assert_close(dict(objective.state_dict()), before, equal_nan=True)
    objective.after_step()
    loaded = build()
    loaded.load_state_dict(objective.state_dict())
    torch.testing.assert_close(loaded.temperatures, objective.temperatures, equal_nan=True)
    torch.testing.assert_close(loaded.loss(pairs), objective.loss(pairs))


def test_two_processes_hold_the_temperatures_of_one():
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(2, 2, 8, 5, generator=generator, dtype=torch.float64)
    expected = after_two_steps(views)
    assert int(expected[0].isfinite().sum()) == 8
    for found in on_two_ranks(after_two_steps, views):
        torch.testing.assert_close(tuple(found), expected, equal_nan=True)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"highest": 0.2}, "temperature must be between lowest and highest, 0.25 and 0.2, not 0.3"),
        ({"lowest": 0}, "lowest must be a finite number above 0, not 0"),
        ({"rate": -1}, "rate must be a finite number, 0 or more, not -1"),
        ({"beta": 0}, "beta must be above 0 and at most 1, not 0"),
        ({"rho": -0.1}, "rho must be a finite number, 0 or more, not -0.1"),
    ],
)
def test_settings_out_of_range_are_refused(params, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        build(**params)


@pytest.mark.parametrize("objective", [SogCLR(12), ISogCLR(12)], ids=["sogclr", "isogclr"])
def test_gradients_of_gradients_are_refused(views, objective):
    """The averages are held constant."""
    view = views[0].clone().requires_grad_()
    loss = objective.double()(view, *views[1:], index=torch.arange(7))
    (gradient,) = torch.autograd.grad(loss, view, create_graph=True)
    with pytest.raises(RuntimeError, match="stops_gradient = True"):
        torch.autograd.grad(gradient.square().sum(), view)
