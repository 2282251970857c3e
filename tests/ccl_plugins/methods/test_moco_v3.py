from __future__ import annotations

import copy

import pytest
import torch
from support import every_objective as every
from support.reference_moco_v3 import Reference, lars_step
from support.sharded import Small
from torch import nn

import ccl_plugins as ccl
from ccl_plugins.backbones import Timm, ViTMoCoV3
from ccl_plugins.methods import MoCoV3
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.optimizers import LARS, AdamW
from ccl_plugins.pairs import Samples
from ccl_plugins.training.parameter_groups import parameter_groups, scaled

T, STEPS = 0.2, 4


def make(**settings):
    torch.manual_seed(0)
    return MoCoV3(**{"hidden": 16, "dim": 8, **settings}, backbone=Small()).double()


def images(n, size, seed, views=2):
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(views, n, 3, size, size, generator=generator, dtype=torch.float64))


BACKBONES = {
    "vit": lambda: ViTMoCoV3("test_vit", heads=2, options={"img_size": 32, "depth": 2}),
    # Behind norms that begin at zero gradients are zero at first, where lightly's LARS leaves what the
    # reference's shrinks.
    "resnet": lambda: Timm("resnet10t", options={"zero_init_last": False}),
}


def twins(heads):
    """Our model and the transcription, of equal weights in double precision."""
    torch.manual_seed(0)
    backbone = BACKBONES[heads]().double()
    sizes = {"hidden": 24, "dim": 8}
    reference = Reference(
        backbone, backbone.num_features, *sizes.values(), heads == "vit", T, 0.9
    ).double()
    ours = MoCoV3(**sizes, heads=heads, momentum=0.9, backbone=copy.deepcopy(backbone)).double()
    pairs = ((ours.head, reference.base[1]), (ours.predictor, reference.predictor))
    for head, theirs in (*pairs, (ours.key_encoder.head, reference.momentum[1])):
        tensors = zip(head.state_dict().values(), theirs.state_dict().values(), strict=True)
        for tensor, value in tensors:
            tensor.copy_(value)
    return ours, reference


@pytest.mark.parametrize("heads", ["vit", pytest.param("resnet", marks=pytest.mark.slow)])
def test_losses_and_steps_are_those_of_the_reference(heads):
    ours, reference = twins(heads)
    infonce = ccl.objective("infonce", temperature=T)
    objective = ccl.create("objective", "mixture", objectives=[infonce], weights=[4 * T])
    decay = "all" if heads == "vit" else "matrices"
    chosen = AdamW(1e-3, 0.1) if heads == "vit" else LARS(0.6, 1e-6)
    groups = parameter_groups(ours, objective, decay)
    optimizer = chosen(scaled(groups, chosen.lr, 8, None))
    learned = [p for p in reference.parameters() if p.requires_grad]
    adamw, buffers = torch.optim.AdamW(learned, 1e-3, weight_decay=0.1), {}
    for step in range(STEPS):
        x1, x2 = images(6, 32, step)
        expected = reference(x1, x2, step / STEPS)
        embedded = ours.embed([x1, x2]).normalized()
        loss = objective.loss(ours.pairs(embedded, Samples(index=torch.arange(6))))
        torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
        # lightly's LARS adds 1e-8 to the gradient's norm, which adds up.
        atol = 1e-6 if step == 0 or heads == "vit" else 1e-5
        assert_equal_weights(ours.key_encoder, reference.momentum, atol)
        for each in (optimizer, adamw):
            each.zero_grad()
        loss.backward()
        expected.backward()
        optimizer.step()
        adamw.step() if heads == "vit" else lars_step(learned, buffers, 0.6, 1e-6)
        ours.after_step(step, STEPS)
        assert_equal_weights(nn.ModuleList([ours.backbone, ours.head]), reference.base, atol)
        assert_equal_weights(ours.predictor, reference.predictor, atol)


def assert_equal_weights(ours, theirs, atol):
    """Weights and batch statistics."""
    pairs = zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True)
    for tensor, expected in pairs:
        torch.testing.assert_close(tensor, expected, rtol=0, atol=atol)


@pytest.mark.parametrize(("heads", "norms"), [("vit", [2, 3, 1, 2]), ("resnet", [1, 2, 1, 1])])
def test_heads_are_the_references(heads, norms):
    method = make(heads=heads)
    found = []
    for head in (method.head, method.predictor):
        layers = [m for m in head.modules() if isinstance(m, nn.BatchNorm1d)]
        found += [sum(m.affine for m in layers), len(layers)]
        assert all(m.bias is None for m in head.modules() if isinstance(m, nn.Linear))
    assert found == norms


@pytest.mark.parametrize("heads", ["vit", "resnet"])
def test_heads_may_have_no_batch_normalization(heads):
    method = make(heads=heads, batch_norm=False)
    for head in (method.head, method.predictor):
        assert not any(isinstance(m, nn.BatchNorm1d) for m in head.modules())


def test_keys_begin_as_projections_and_take_no_gradient():
    method = make()
    views = images(4, 4, 0)
    embedded = method.embed(views)
    expected = torch.stack([method.head(method.backbone(view)) for view in views])
    torch.testing.assert_close(embedded.keys, expected)
    embedded.projections.square().sum().backward()
    assert all(p.grad is None for p in method.key_encoder.parameters())
    assert all(p.grad is not None for p in method.predictor.parameters())


def test_the_momentum_is_below_one_until_the_last_step_is_done():
    method = make(momentum=0.5)
    for step in range(10):
        key = next(method.key_encoder.parameters())
        with torch.no_grad():
            next(method.backbone.parameters()).add_(1.0)
        before = key.clone()
        method.after_step(step, 10)
        assert torch.equal(key, before) == (step == 9)


@pytest.mark.parametrize("case", every.representatives(), ids=str)
def test_every_objective_learns_from_predictions_of_three_views(case):
    objective, method = case.build(), make(dim=16)
    ids, vectors = torch.arange(8) % 3, torch.rand(8, 3, dtype=torch.float64)
    condition = case.condition(ids, vectors)
    condition = {k: z[[0, 1, 0]] if z.ndim == 3 else z for k, z in condition.items()}
    embedded = method.embed(images(8, 4, 0, views=3))
    embedded = embedded if objective.embedding == "raw" else embedded.normalized()
    loss = objective.loss(
        method.pairs(embedded, Samples(condition, torch.arange(8), embedded.features))
    )
    assert loss.isfinite()
    loss.backward()
    gradients = [p.grad for p in method.parameters() if p.grad is not None]
    assert all(g.isfinite().all() for g in gradients)
    assert any(g.abs().max() > 0 for g in gradients)


def test_infonce_learns_a_tiny_set():
    method, objective = make(momentum=0.9), InfoNCE(temperature=T)
    optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 0.1)
    x, losses = images(8, 4, 0), []
    for step in range(30):
        loss = objective.loss(
            method.pairs(method.embed(x).normalized(), Samples(index=torch.arange(8)))
        )
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_step(step, 30)
    assert losses[-1] < losses[0] / 2
