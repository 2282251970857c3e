"""Steps of lightly's examples: BYOL, SimSiam, Barlow Twins and VICReg, of equal weights and views."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from lightly.loss import BarlowTwinsLoss, NegativeCosineSimilarity, VICRegLoss
from lightly.models.modules import heads
from lightly.models.utils import deactivate_requires_grad, update_momentum
from torch import nn

from ccl_plugins.methods import BYOL, SimCLR, SimSiam
from ccl_plugins.objectives import FairInfoNCE, Guided, InfoNCE, Lightly, Mixture
from ccl_plugins.pairs import Samples

STEPS = 4


class Backbone(nn.Sequential):
    num_features = 16

    def __init__(self):
        super().__init__(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(6))
        self.append(nn.Flatten())


class BYOLModel(nn.Module):
    """As in lightly's example, with small widths."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.projection_head = heads.BYOLProjectionHead(16, 12, 8)
        self.prediction_head = heads.BYOLPredictionHead(8, 12, 8)
        self.backbone_momentum = copy.deepcopy(self.backbone)
        self.projection_head_momentum = copy.deepcopy(self.projection_head)
        deactivate_requires_grad(self.backbone_momentum)
        deactivate_requires_grad(self.projection_head_momentum)

    def forward(self, x):
        return self.prediction_head(self.projection_head(self.backbone(x)))

    def forward_momentum(self, x):
        return self.projection_head_momentum(self.backbone_momentum(x)).detach()

    def loss(self, x0, x1, momentum):
        criterion = NegativeCosineSimilarity()
        update_momentum(self.backbone, self.backbone_momentum, m=momentum)
        update_momentum(self.projection_head, self.projection_head_momentum, m=momentum)
        p0, z0 = self(x0), self.forward_momentum(x0)
        p1, z1 = self(x1), self.forward_momentum(x1)
        return 0.5 * (criterion(p0, z1) + criterion(p1, z0))

    def weights(self):
        return [self.backbone, self.projection_head, self.prediction_head]


class SimSiamModel(nn.Module):
    """As in lightly's example, with small widths."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.projection_head = heads.SimSiamProjectionHead(16, 12, 8)
        self.prediction_head = heads.SimSiamPredictionHead(8, 4, 8)

    def loss(self, x0, x1, momentum):
        criterion = NegativeCosineSimilarity()
        z0, z1 = (self.projection_head(self.backbone(x)) for x in (x0, x1))
        p0, p1 = self.prediction_head(z0), self.prediction_head(z1)
        return 0.5 * (criterion(z0.detach(), p1) + criterion(z1.detach(), p0))

    def weights(self):
        return [self.backbone, self.projection_head, self.prediction_head]


class Projected(nn.Module):
    """lightly's Barlow Twins and VICReg."""

    def __init__(self, backbone, head, criterion):
        super().__init__()
        self.backbone, self.projection_head, self.criterion = backbone, head, criterion

    def loss(self, x0, x1, momentum):
        z0, z1 = (self.projection_head(self.backbone(x)) for x in (x0, x1))
        return self.criterion(z0, z1)

    def weights(self):
        return [self.backbone, self.projection_head]


def barlow_twins(backbone):
    return Projected(backbone, heads.BarlowTwinsProjectionHead(16, 12, 8), BarlowTwinsLoss())


def vicreg(backbone):
    head = heads.VICRegProjectionHead(16, 12, 8, num_layers=2)
    return Projected(backbone, head, VICRegLoss())


VICREG = {"name": "VICRegProjectionHead", "num_layers": 2}
CASES = {
    "byol": (BYOLModel, BYOL, {"momentum": 0.9}, "NegativeCosineSimilarity"),
    "simsiam": (SimSiamModel, SimSiam, {"bottleneck": 4}, "NegativeCosineSimilarity"),
    "barlow twins": (
        barlow_twins,
        SimCLR,
        {"head": "BarlowTwinsProjectionHead", "joint": False},
        "BarlowTwinsLoss",
    ),
    "vicreg": (vicreg, SimCLR, {"head": VICREG, "joint": False}, "VICRegLoss"),
}


def twins(name):
    """lightly's model and our method, of equal weights in double precision."""
    model, method, settings, loss = CASES[name]
    torch.manual_seed(0)
    theirs = model(Backbone()).double()
    ours = method(12, 8, **settings, backbone=copy.deepcopy(theirs.backbone)).double()
    ours.head.load_state_dict(theirs.projection_head.state_dict())
    if name in ("byol", "simsiam"):
        ours.predictor.load_state_dict(theirs.prediction_head.state_dict())
    if name == "byol":
        ours.key_encoder.head.load_state_dict(theirs.projection_head.state_dict())
    return theirs, ours, Lightly(loss)


def modules(method):
    return [
        method.backbone,
        method.head,
        *([p] if (p := getattr(method, "predictor", None)) else []),
    ]


def images(seed, n=6):
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(2, n, 3, 8, 8, generator=generator, dtype=torch.float64))


def assert_equal(ours, theirs, gradients=False):
    for mine, other in zip(ours, theirs, strict=True):
        a, b = (
            list(m.parameters()) if gradients else [*m.state_dict().values()] for m in (mine, other)
        )
        for x, y in zip(a, b, strict=True):
            x, y = (x.grad, y.grad) if gradients else (x, y)
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", CASES)
def test_losses_gradients_and_steps_are_those_of_lightlys_example(name):
    theirs, ours, objective = twins(name)
    optimizers = [
        torch.optim.SGD([p for p in each.parameters() if p.requires_grad], lr=0.06)
        for each in (theirs, ours)
    ]
    momentum = 1.0
    for step in range(STEPS):
        x0, x1 = images(step)
        expected = theirs.loss(x0, x1, momentum)
        found = objective.loss(ours.pairs(ours.embed([x0, x1]), Samples(index=torch.arange(6))))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        for optimizer, loss in zip(optimizers, (expected, found), strict=True):
            optimizer.zero_grad()
            loss.backward()
        assert_equal(modules(ours), theirs.weights(), gradients=True)
        for optimizer in optimizers:
            optimizer.step()
        ours.after_step(step, STEPS)
        assert_equal(modules(ours), theirs.weights())
        if name == "byol":
            momentum = ours.momentum_after(step, STEPS)


@pytest.mark.parametrize("name", CASES)
def test_a_conditional_term_is_added_by_a_mixture_or_as_a_guide(name):
    _, ours, objective = twins(name)
    embedded, ids = ours.embed(images(0)), torch.arange(6) % 2
    raw, unit = (
        ours.pairs(x, Samples({"z": ids}, torch.arange(6)))
        for x in (embedded, embedded.normalized())
    )
    fair = FairInfoNCE(on="z")
    expected = objective.loss(raw) + 0.3 * fair.loss(unit)
    guides = [{"on": "z", "keep": False, "by": FairInfoNCE(), "weight": 0.3}]
    for both in (Mixture([objective, fair], [1, 0.3]), Guided(objective, guides)):
        torch.testing.assert_close(both.loss(raw), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["byol", "simsiam"])
def test_keys_have_no_gradient_and_other_samples_are_negatives_of_other_objectives(name):
    _, ours, _ = twins(name)
    embedded = ours.embed(images(0, n=7)).normalized()
    assert not embedded.keys.requires_grad
    pairs = ours.pairs(embedded, Samples(index=torch.arange(7)))
    assert list(pairs.cross()) == [(0, 1), (1, 0)]
    assert pairs.others().sum() == 7 * 6
    InfoNCE().loss(pairs).backward()
    assert all(p.grad is not None for m in modules(ours) for p in m.parameters())


def test_views_go_through_simclr_together_or_one_by_one():
    torch.manual_seed(0)
    joint = SimCLR(12, 8, backbone=Backbone()).double()
    single = SimCLR(12, 8, joint=False, backbone=copy.deepcopy(joint.backbone)).double()
    single.load_state_dict(joint.state_dict())
    views = images(0)
    assert not torch.allclose(joint.embed(views).projections, single.embed(views).projections)
    single.load_state_dict(joint.state_dict())  # and the batch statistics
    found = [each.eval().embed(views) for each in (joint, single)]
    torch.testing.assert_close(found[0].projections, found[1].projections)
    torch.testing.assert_close(found[0].features, found[1].features)


def test_byol_moves_its_encoder_after_step_k_with_the_momentum_of_step_k():
    """The paper's ``1 - (1 - τ) (cos(π k / K) + 1) / 2``, k from 0."""
    _, byol, _ = twins("byol")
    tau, total = byol.momentum, 10
    expected = [1 - (1 - tau) * (math.cos(math.pi * k / total) + 1) / 2 for k in range(total)]
    assert [byol.momentum_after(k, total) for k in range(total)] == pytest.approx(
        expected, abs=1e-12
    )
    assert byol.momentum_after(0, total) == tau
