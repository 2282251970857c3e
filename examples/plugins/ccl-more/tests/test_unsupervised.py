"""The other objectives are the loops that their papers' equations spell out."""

import math

import pytest
import torch
from ccl_plugins.kernels import RBF, Delta, Product
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.testing import equals
from torch.nn.functional import normalize

from ccl_more import DecoupledUniformity, SigLIP, SogCLR

Z = torch.randn(7, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
TAU, GAMMA = 0.3, 0.7


@pytest.mark.parametrize("kernel", [None, RBF(scale=1.0)], ids=["views", "kernel"])
def test_decoupled_uniformity(views, kernel):
    def loop(*views):
        means = sum(normalize(view, dim=1) for view in views) / len(views)
        if kernel is not None:
            gram = kernel(Z, Z)
            means = torch.linalg.inv(gram + 0.1 * torch.eye(7).double()) @ gram @ means
        pairs = [(i, j) for i in range(7) for j in range(7) if i != j]
        total = sum((-2 * ((means[i] - means[j]) ** 2).sum()).exp() for i, j in pairs)
        return (total / len(pairs)).log()

    objective = DecoupledUniformity(kernel, ridge=0.1)
    condition = None if kernel is None else Z
    equals(lambda *views: objective(*views, condition=condition), loop, views, tolerance=1e-9)


def test_siglip(views):
    def loop(scale, bias, *views):
        unit, losses = [normalize(view, dim=1) for view in views], []
        for a, x in enumerate(unit):
            for b, y in enumerate(unit):
                if a != b:
                    for i in range(7):
                        signs = [1 if i == j else -1 for j in range(7)]
                        logits = [scale.exp() * (x[i] @ y[j]) + bias for j in range(7)]
                        each = [s * z for s, z in zip(signs, logits, strict=True)]
                        losses.append(sum((1 + (-z).exp()).log() for z in each))
        return sum(losses) / len(losses)

    objective = SigLIP(scale=2.0, bias=-1.0).double()

    def found(scale, bias, *views):
        parameters = {"log_scale": scale, "bias": bias}
        return torch.func.functional_call(objective, parameters, views)

    start = [p.detach() for p in (objective.log_scale, objective.bias)]
    equals(found, loop, (*start, *views), tolerance=1e-9)


def sogclr_step(views, index, u):
    """The value, the gradient of the surrogate, and the averages, by loops over samples."""
    leaves = [view.clone().requires_grad_() for view in views]
    unit = [normalize(view, dim=1) for view in leaves]
    n, cross = len(index), [(a, b) for a in range(len(unit)) for b in range(len(unit)) if a != b]
    value = surrogate = 0
    for i in range(n):
        g = {}
        for a, b in cross:
            negatives = [
                (unit[a][i] @ unit[w][j] / TAU).exp() for j in range(n) for w in (a, b) if j != i
            ]
            g[a, b] = sum(negatives) / len(negatives)
        mean = float(sum(g.values()).detach()) / len(g)
        k = int(index[i])
        u[k] = mean if k not in u else (1 - GAMMA) * u[k] + GAMMA * mean
        for a, b in cross:
            own = unit[a][i] @ unit[b][i]
            value += (TAU * math.log(u[k]) - own).detach()
            surrogate += TAU * g[a, b] / u[k] - own
    gradient = torch.autograd.grad(surrogate / (n * len(cross)), leaves)
    return value / (n * len(cross)), torch.stack(gradient)


def test_sogclr_over_steps_in_which_samples_come_again(views):
    objective, u = SogCLR(size=12, temperature=TAU, gamma=GAMMA).double(), {}
    generator = torch.Generator().manual_seed(2)
    for _ in range(4):
        index = torch.randperm(12, generator=generator)[:7]
        given = [(v + torch.randn(v.shape, generator=generator)).requires_grad_() for v in views]
        for _ in range(2):  # twice the same, because nothing is committed yet
            loss = objective(*given, index=index)
        gradient = torch.stack(torch.autograd.grad(loss, given))
        objective.after_step()
        expected, slope = sogclr_step([v.detach() for v in given], index, u)
        torch.testing.assert_close(loss.detach(), expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(gradient, slope, rtol=1e-9, atol=1e-9)
    kept = objective.averages.logs.exp()
    assert kept.isnan().tolist() == [k not in u for k in range(12)]
    torch.testing.assert_close(kept[list(u)], torch.tensor(list(u.values())).double())


def test_sogclr_keeps_its_averages_in_a_checkpoint_and_nothing_of_an_open_step(views):
    objective = SogCLR(size=7).double()
    unit = normalize(torch.stack(views), dim=-1)
    before = objective.state_dict()["averages.logs"].clone()
    objective.loss(in_batch(unit, Samples(index=torch.arange(7))))
    torch.testing.assert_close(objective.state_dict()["averages.logs"], before, equal_nan=True)
    objective.after_step()
    loaded = SogCLR(size=7).double()
    loaded.load_state_dict(objective.state_dict())
    again = in_batch(unit.flip(-1), Samples(index=torch.arange(7)))
    torch.testing.assert_close(loaded.loss(again), objective.loss(again))


def test_a_kernel_of_two_conditions_conditions_decoupled_uniformity_on_both(views):
    number = torch.arange(len(views[0]))
    conditions = {"species": number % 3, "camera": number % 2}
    both = Product(on={"species": Delta(), "camera": Delta()})
    found = DecoupledUniformity(both)(*views, condition=conditions)
    made = DecoupledUniformity(Delta())(*views, condition=number % 3 * 2 + number % 2)
    torch.testing.assert_close(found, made)
