"""Steps of lightly's DINO example, of equal weights and views: loss, gradients, weights and center.

The example passes each view by itself.  The released code passes all views of a size together, which
differs in batch statistics alone; here the example does so, too.
"""

from __future__ import annotations

import copy
import tomllib
import warnings

import pytest
import torch
from lightly.loss import DINOLoss as Theirs
from lightly.models.modules.heads import DINOProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from torch import nn

import ccl_plugins as ccl
from ccl_plugins.backbones import Timm
from ccl_plugins.methods import DINO
from ccl_plugins.methods.heads import PrototypeHead
from ccl_plugins.objectives import DINOLoss
from ccl_plugins.pairs import Samples

STEPS, FROZEN = 4, 2


class Backbone(nn.Sequential):
    num_features = 16

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )
        self.append(nn.Flatten())


def lightlys_head(**settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch, for its weight_norm
        return DINOProjectionHead(16, 12, 6, 10, **settings)


class Example(nn.Module):
    """As in lightly's example, with small widths, and one pass for each size."""

    def __init__(self):
        super().__init__()
        self.student_backbone = Backbone()
        self.student_head = lightlys_head(freeze_last_layer=FROZEN)
        self.teacher_backbone = copy.deepcopy(self.student_backbone)
        self.teacher_head = lightlys_head()
        deactivate_requires_grad(self.teacher_backbone)
        deactivate_requires_grad(self.teacher_head)
        self.criterion = Theirs(10, teacher_temp=2**-4)  # its float32 holds it exactly

    def loss(self, views, momentum):
        update_momentum(self.student_backbone, self.teacher_backbone, m=momentum)
        update_momentum(self.student_head, self.teacher_head, m=momentum)
        large, small = torch.cat(views[:2]), torch.cat(views[2:])
        teacher = self.teacher_head(self.teacher_backbone(large)).detach()
        features = torch.cat([self.student_backbone(large), self.student_backbone(small)])
        return self.criterion([*teacher.chunk(2)], [*self.student_head(features).chunk(len(views))])


def copy_head(ours, theirs):
    ours.layers.load_state_dict(theirs.layers.state_dict())
    with torch.no_grad():
        ours.prototypes.copy_(theirs.last_layer.weight_v)


def twins(**settings):
    torch.manual_seed(0)
    theirs = Example().double()
    method = DINO(
        12, 6, 10, momentum=0.9, backbone=copy.deepcopy(theirs.student_backbone), **settings
    )
    ours = method.double()
    copy_head(ours.head, theirs.student_head)
    copy_head(ours.key_encoder.head, theirs.teacher_head)
    return theirs, ours


def views_of(step, n=6):
    generator = torch.Generator().manual_seed(step)
    sizes = [8, 8, 5, 5, 5]
    return [torch.randn(n, 3, s, s, generator=generator, dtype=torch.float64) for s in sizes]


def weights_of(backbone, head):
    last = head.prototypes if isinstance(head, PrototypeHead) else head.last_layer.weight_v
    return [*backbone.parameters(), *head.layers.parameters(), last]


def assert_equal(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)


def test_steps_are_those_of_lightlys_example():
    theirs, ours = twins(frozen=FROZEN)
    objective = DINOLoss(teacher_temperature=2**-4, dim=10).double()
    optimizers = [
        torch.optim.SGD([p for p in each.parameters() if p.requires_grad], lr=0.06)
        for each in (theirs, ours)
    ]
    momentum = 1.0
    for step in range(STEPS):
        views = views_of(step)
        expected = theirs.loss(views, momentum)
        found = objective.loss(ours.pairs(ours.embed(views), Samples(index=torch.arange(6))))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        for optimizer, loss in zip(optimizers, (expected, found), strict=True):
            optimizer.zero_grad()
            loss.backward()
        theirs.student_head.cancel_last_layer_gradients(current_epoch=step)
        both = (
            weights_of(ours.backbone, ours.head),
            weights_of(theirs.student_backbone, theirs.student_head),
        )
        gradients = [
            [torch.zeros_like(p) if p.grad is None else p.grad for p in each] for each in both
        ]
        assert_equal(*gradients)
        assert bool(ours.head.prototypes.grad.any()) is (step >= FROZEN)
        for optimizer in optimizers:
            optimizer.step()
        assert_equal(*both)
        teachers = (
            weights_of(ours.key_encoder.backbone, ours.key_encoder.head),
            weights_of(theirs.teacher_backbone, theirs.teacher_head),
        )
        assert_equal(*teachers)
        ours.after_step(step, STEPS)
        objective.after_step()
        assert_equal([objective.center], [theirs.criterion.center[0, 0]])
        momentum = ours.momentum_after(step, STEPS)


@pytest.mark.parametrize("settings", [{"batch_norm": True}, {"norm_last_layer": False}])
def test_the_head_is_lightlys(settings):
    torch.manual_seed(0)
    theirs = lightlys_head(**settings).double()
    norms = not settings.pop("norm_last_layer", True)
    ours = PrototypeHead(16, 12, 6, 10, learned_norms=norms, **settings).double()
    copy_head(ours, theirs)
    if norms:
        given = torch.linspace(0.5, 2, 10).double()
        with torch.no_grad():
            ours.norms.copy_(given)
            theirs.last_layer.weight_g.copy_(given[:, None])
    x = torch.randn(7, 16, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-9, atol=1e-11)
    compiled = torch.compile(ours, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), ours(x))
    assert PrototypeHead(16, 1, 1, 1)(x.float()).shape == (7, 1)
    assert not PrototypeHead(16, 1, 1, 1).is_frozen
    linear = [m.weight for m in PrototypeHead(64, 64, 64, 3).layers if isinstance(m, nn.Linear)]
    assert all(abs(float(w.detach().std()) / 0.02 - 1) < 0.1 for w in linear)


def test_the_teacher_sees_the_first_views_alone():
    _, ours = twins(key_views=1)
    views = views_of(0)
    embedded = ours.eval().embed(views)
    assert embedded.projections.shape == (5, 6, 10)
    assert embedded.keys.shape == (1, 6, 10)
    torch.testing.assert_close(embedded.keys[0], ours.project_key(views[0]))
    pairs = ours.pairs(embedded, Samples(index=torch.arange(6)))
    assert list(pairs.cross()) == [(i, 0) for i in range(1, 5)]


def test_the_teacher_drops_no_paths_and_has_the_batch_statistics_of_training():
    options = {"img_size": 8, "patch_size": 4, "embed_dim": 8, "depth": 3, "num_heads": 2}
    vit = Timm("vit_tiny_patch16_224", options={**options, "drop_path_rate": 0.5})
    ours = DINO(12, 6, 10, batch_norm=True, backbone=vit).train()
    views = [torch.randn(6, 3, 8, 8) for _ in range(2)]
    first, second = ours.embed(views), ours.embed(views)
    torch.testing.assert_close(first.keys, second.keys)
    assert not torch.allclose(first.projections, second.projections)
    norms = [m for m in ours.key_encoder.modules() if isinstance(m, nn.BatchNorm1d)]
    assert [norm.training for norm in norms] == [True, True]
    assert not any(module.training for module in ours.eval().modules())


def test_what_is_frozen_comes_back_from_a_checkpoint():
    _, ours = twins(frozen=3)
    for step in range(2):
        ours.after_step(step, 9)
    _, other = twins(frozen=0)
    other.load_state_dict(ours.state_dict())
    assert bool(other.head.is_frozen)
    ours.after_step(2, 9)
    assert not bool(ours.head.is_frozen)


RUN = """
dataset = {use = "subset", of = "color_digits", train = 32, test = 8}
backbone = {use = "timm", name = "test_vit"}
method = {use = "dino", hidden = 8, bottleneck = 4, dim = 6, frozen = 1}
transform = {use = "dino", small = 2, size = 32, small_size = 16}
condition = {use = "column", name = "color"}
monitor = "off"

[objective]
use = "mixture"
weights = [1.0, 0.1, 0.5]
[[objective.objectives]]
use = "dino"
teacher_temperature = {schedule = "linear", start = 0.04, end = 0.07, epochs = 1}
[[objective.objectives]]
use = "koleo"
at = "features"
views = 2
[[objective.objectives]]
use = "fair_cclk"
kernel = "rbf"

[fit]
epochs = 1
batch_size = 16
workers = 0
channels_last = true
precision = "64-true"
optimizer = {use = "sgd", lr = 0.1}
"""


@pytest.mark.slow
def test_a_run_with_further_terms_is_the_same_in_pieces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(name, **settings):
        table = tomllib.loads(RUN)
        table["fit"] |= settings
        return ccl.Pipeline.from_dict(table).fit(out=name, progress=False)

    whole, pieces = run("whole"), run("pieces", micro_batch=8)
    assert whole.progress == pieces.progress == (2, 2)
    weights, objective = whole.parts.method.state_dict(), whole.parts.objective.state_dict()
    assert not bool(weights["head.is_frozen"])
    center = objective["parts.0.objective.center"]
    assert center.shape == (6,)
    assert bool(center.any())
    # timm resizes position embeddings in float32.
    torch.testing.assert_close(pieces.parts.method.state_dict(), weights, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(pieces.parts.objective.state_dict(), objective, rtol=1e-5, atol=1e-8)
    narrow = run("narrow", precision="bf16-mixed")
    assert all(bool(x.isfinite().all()) for x in narrow.parts.method.state_dict().values())


PLATES = """
dataset = {use = "plates", effect = 0.0, agreement = 0.25, seed = 1}
method = {use = "dino", hidden = 256, bottleneck = 64, dim = 256}
objective = "dino"

[backbone]
use = "timm"
name = "vit_tiny_patch16_224"
features = "mean"

[backbone.options]
in_chans = 5
img_size = 32
patch_size = 8
embed_dim = 64
depth = 3
num_heads = 4
dynamic_img_size = true

[transform]
use = "dino"
small = 2
size = 32
small_size = 16
small_min_scale = 0.15
blur = [0.0, 0.0, 0.0]
solarize = 0.0
gray = 0.0
jitter = 0.0
mean = [0.22, 0.27, 0.32, 0.21, 0.29]
std = [0.2, 0.27, 0.25, 0.15, 0.23]
batched = true

[fit]
epochs = 100
batch_size = 64
warmup_epochs = 0.5
clip = 3.0
optimizer = {use = "adamw", lr = 1e-3, weight_decay = 0.04}
"""


@pytest.mark.slow  # a minute
def test_features_get_better_though_the_loss_rises(tmp_path):
    pipeline = tomllib.loads(PLATES)
    pipeline["fit"] |= {"max_steps": 150, "workers": 0}
    evaluate = [{"use": "knn"}, {"use": "linear"}]
    run = ccl.Pipeline.from_dict(pipeline | {"evaluate": evaluate}).fit(
        out=tmp_path, progress=False
    )
    after = run.evaluate()
    assert after["knn/top1"] > run.before["knn/top1"] + 0.08
    assert after["linear/top1"] > run.before["linear/top1"]
