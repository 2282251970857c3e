"""Steps of lightly's DINOv2 example, of equal weights, views and masks; how masks are drawn; its runs."""

from __future__ import annotations

import copy
import math
import pickle
import random
import tomllib
import warnings
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from lightly.loss import DINOLoss as TheirDINO
from lightly.loss import IBOTPatchLoss, KoLeoLoss
from lightly.models.modules import MaskedVisionTransformerTIMM
from lightly.models.modules.heads import DINOv2ProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from support import training_ranks
from support.resuming import StopAfter
from support.training_fakes import fit
from torch import nn

import ccl_plugins as ccl
from ccl_plugins.backbones import LeNet5, Timm
from ccl_plugins.figures.anchor import weights
from ccl_plugins.methods import DINO, IBOT
from ccl_plugins.methods.ibot import BlockMasks, _add_block
from ccl_plugins.objectives import DINOLoss, IBOTLoss, KoLeo, Mixture
from ccl_plugins.pairs import Masks, Samples
from ccl_plugins.protocols import DoesNotApply
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step import embed
from ccl_plugins.transforms import SimCLRTransform

STEPS, N, MOMENTUM = 4, 6, 0.9
OPTIONS = {"img_size": 16, "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2}
OPTIONS |= {"dynamic_img_size": True, "init_values": 1e-1}


def backbone(**settings):
    torch.manual_seed(0)
    return Timm("vit_tiny_patch16_224", options=OPTIONS, features="token", **settings)


def method_of(**settings):
    torch.manual_seed(1)
    sizes = {"hidden": 12, "bottleneck": 6, "dim": 10, "momentum": MOMENTUM}
    return IBOT(**{**sizes, **settings}, backbone=backbone())


def lightlys_head():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch, for its weight_norm
        return DINOv2ProjectionHead(16, 12, 6, 10)


def lightlys_heads(separate):
    """Of images and of patches, which may be one."""
    first = lightlys_head()
    return nn.ModuleList([first, lightlys_head() if separate else first])


class Example(nn.Module):
    """As in lightly's example, with small widths."""

    def __init__(self, separate):
        super().__init__()
        vit = backbone().model
        self.student_backbone = MaskedVisionTransformerTIMM(vit, None, "skip", True, "skip")
        self.teacher_backbone = copy.deepcopy(self.student_backbone)
        self.student_head, self.teacher_head = lightlys_heads(separate), lightlys_heads(separate)
        deactivate_requires_grad(self.teacher_backbone)
        deactivate_requires_grad(self.teacher_head)
        self.dino, self.ibot, self.koleo = TheirDINO(10), IBOTPatchLoss(10), KoLeoLoss()

    def loss(self, views, masks):
        large = torch.cat(views[:2])
        blocks = torch.cat([*masks.unbind(1)])
        mask = torch.cat([blocks.new_zeros(len(blocks), 1), blocks.flatten(1)], 1)
        with torch.no_grad():
            seen = self.teacher_backbone.encode(large)
            teacher = self.teacher_head[0](seen[:, 0])
            teacher_patches = self.teacher_head[1](seen[mask])
        tokens = self.student_backbone.encode(large, mask=mask)
        small_tokens = self.student_backbone.encode(torch.cat(views[2:]))
        student = [self.student_head[0](each[:, 0]) for each in (tokens, small_tokens)]
        loss = self.dino(teacher.chunk(2), torch.cat(student).chunk(len(views)), teacher_temp=0.05)
        loss = loss + self.ibot(
            teacher_patches, self.student_head[1](tokens[mask]), blocks, teacher_temp=0.05
        )
        return loss + 0.1 * sum(self.koleo(each) for each in tokens[:, 0].chunk(2))


def copy_head(ours, theirs):
    ours.layers.load_state_dict(theirs.layers.state_dict())
    with torch.no_grad():
        ours.prototypes.copy_(theirs.last_layer.weight_v)


def twins(separate):
    theirs, ours = Example(separate), method_of(shared_head=not separate, learned_norms=True)
    pairs = [(ours.head, theirs.student_head[0]), (ours.key_encoder.head, theirs.teacher_head[0])]
    if separate:
        pairs += [(ours.patch_head, theirs.student_head[1])]
        pairs += [(ours.patch_key_head, theirs.teacher_head[1])]
    for pair in pairs:
        copy_head(*pair)
    return theirs, ours


def views_of(step, n=N):
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(n, 3, s, s, generator=generator) for s in (16, 16, 8, 8)]


def masks_of(step, n=N):
    """Masks of 0 to 8 of 16 patches."""
    generator = torch.Generator().manual_seed(100 + step)
    scores = torch.rand(n, 2, 4, 4, generator=generator)
    most = torch.randint(0, 9, (n, 2, 1, 1), generator=generator)
    return Masks.of(scores.flatten(2).argsort(-1).argsort(-1).view_as(scores) < most)


def weights_of(vit, heads):
    """The transformer's weights, and those of heads of either kind."""
    found = {f"backbone.{name}": p for name, p in vit.named_parameters()}
    for number, head in enumerate(heads):
        named = dict(head.layers.named_parameters())
        if hasattr(head, "last_layer"):
            last, norms = head.last_layer.weight_v, head.last_layer.weight_g[:, 0]
        else:
            last, norms = head.prototypes, head.norms
        found |= {f"{number}.{name}": p for name, p in named.items()}
        found |= {f"{number}.last": last, f"{number}.norms": norms}
    return found


def near(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("separate", [False, True])
def test_steps_are_those_of_lightlys_dinov2_example(separate):
    theirs, ours = twins(separate)
    parts = [
        DINOLoss(teacher_temperature=0.05, dim=10),
        IBOTLoss(teacher_temperature=0.05, dim=10),
        KoLeo("features", views=2),
    ]
    objective = Mixture(parts, [1.0, 1.0, 0.2])  # KoLeo's is the mean of two views
    optimizers = [
        torch.optim.SGD([p for p in each.parameters() if p.requires_grad], lr=0.06)
        for each in (theirs, ours)
    ]
    heads = [ours.head, ours.patch_head][: 1 + separate]
    key_heads = [ours.key_encoder.head, ours.patch_key_head][: 1 + separate]
    for step in range(STEPS):
        views, masks = views_of(step), masks_of(step)
        expected = theirs.loss(views, masks.masked)
        embedded = ours.embed(views, masks)
        samples = Samples(
            index=torch.arange(N), features=embedded.features, patches=embedded.patches
        )
        found = objective.loss(ours.pairs(embedded, samples))
        near(found, expected)
        for optimizer, loss in zip(optimizers, (expected, found), strict=True):
            optimizer.zero_grad()
            loss.backward()
        student = weights_of(theirs.student_backbone.vit, theirs.student_head[: 1 + separate])
        mine = weights_of(ours.backbone.model, heads)
        assert mine.keys() == student.keys()
        for name, weight in student.items():
            if weight.is_leaf:  # lightly's norms are a column
                near(mine[name].grad, weight.grad)
        near(ours.mask_token.grad, theirs.student_backbone.mask_token.grad[0, 0])
        for optimizer in optimizers:
            optimizer.step()
        near(mine, student)
        near(ours.mask_token, theirs.student_backbone.mask_token[0, 0])
        momentum = ours.momentum_after(step, STEPS)
        update_momentum(theirs.student_backbone, theirs.teacher_backbone, m=momentum)
        update_momentum(theirs.student_head, theirs.teacher_head, m=momentum)
        ours.after_step(step, STEPS)
        objective.after_step()
        near(
            weights_of(ours.key_encoder.backbone.model, key_heads),
            weights_of(theirs.teacher_backbone.vit, theirs.teacher_head[: 1 + separate]),
        )
        near(parts[0].center, theirs.dino.center[0, 0])
        near(parts[1].center, theirs.ibot.center.value[0])


def test_masks_are_blocks_in_half_of_the_views_with_all_ratios_of_the_range():
    masking = BlockMasks(2, (14, 14))
    with pytest.raises(FrozenInstanceError):
        masking.views = 3
    random.seed(0)
    masks = torch.stack([pickle.loads(pickle.dumps(masking))(224, 224) for _ in range(1000)])
    assert masks.shape == (1000, 16, 16)
    parts = masks.float().mean((1, 2))
    assert abs(float((parts > 0).float().mean()) - 0.5) < 0.05
    some = parts[parts > 0]
    assert float(some.min()) > 0.09 - 1 / 256
    assert float(some.max()) <= 0.5
    assert abs(float(some.mean()) - 0.3) < 0.02
    # In blocks, most neighbors of a masked patch are masked too; alone, 3 of 10 would be.
    inside = masks[:, 1:-1, 1:-1]
    below = masks[:, 2:, 1:-1][inside].float().mean()
    assert float(below) > 0.7


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 2), (3, 1)])
def test_images_of_a_few_patches_have_at_least_one_masked(size):
    masking = BlockMasks(2, (4, 4), probability=1.0)
    random.seed(0)
    for _ in range(50):
        mask = masking(4 * size[0], 4 * size[1])
        assert mask.shape == size
        assert 1 <= int(mask.sum()) <= max(1, mask.numel() // 2)


def test_no_block_is_added_where_all_is_masked():
    mask = torch.ones(3, 3, dtype=torch.bool)
    assert not _add_block(mask, 4)
    mask[1, 1] = False
    random.seed(0)
    assert _add_block(mask, 1)
    assert mask.all()


def test_without_masks_it_is_dino_and_pieces_have_the_gradient_of_the_whole():
    ours = method_of(shared_head=False).double()
    views, masks = [view.double() for view in views_of(0)], masks_of(0)
    plain = DINO(12, 6, 10, backbone=copy.deepcopy(ours.backbone)).double()
    plain.head.load_state_dict(ours.head.state_dict())
    plain.key_encoder.load_state_dict(ours.key_encoder.state_dict())
    found, expected = ours.embed(views), plain.embed(views)
    assert found.patches is None
    near(found.projections, expected.projections)
    near(found.keys, expected.keys)
    none = ours.embed(views, Masks.of(torch.zeros_like(masks.masked)))
    near(none.projections, expected.projections)
    assert none.patches.student.shape == (0, 10)

    def gradients(embedded):
        loss = embedded.projections.square().mean() + embedded.features.square().mean()
        images = embedded.patches.mean_of_images(embedded.patches.student.square().mean(1))
        learned = [p for p in ours.parameters() if p.requires_grad]
        found = torch.autograd.grad(loss + images.mean(), learned, allow_unused=True)
        return [embedded.keys, *vars(embedded.patches).values()], found

    torch.testing.assert_close(
        gradients(embed(ours, views, 4, masks)),
        gradients(ours.embed(views, masks)),
        rtol=1e-6,  # timm resizes positions in float32
        atol=1e-8,
    )


def run(folder, stop=0, resume=False, transform=None, **settings):
    """Loss of each batch and weights of a run of 3 epochs of 2 steps."""
    folder.mkdir(exist_ok=True)
    parts, losses = training_ranks.parts_for("ibot with two heads"), training_ranks.Losses()
    parts = replace(parts, transform=transform or parts.transform)
    given = {"epochs": 3, "batch_size": 8, "workers": 0, "precision": "64-true", **settings}
    stops = [StopAfter(stop)] if stop else []
    options = {"callbacks": [losses, *stops], "progress": False, "resume": resume}
    fit(parts, FitSettings(**given), folder, {}, **options)
    weights = {
        name: x.clone() for each in parts.networks.values() for name, x in each.state_dict().items()
    }
    return losses.seen, weights


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("ibot") / "whole")


def test_a_run_that_is_resumed_in_an_epoch_draws_the_same_masks(tmp_path):
    in_float32 = {"precision": "32-true"}
    losses, expected = run(tmp_path / "whole", **in_float32)
    first, _ = run(tmp_path / "run", stop=3, **in_float32)
    second, after = run(tmp_path / "run", resume=True, **in_float32)
    assert [*first, *second] == losses
    torch.testing.assert_close(after, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"micro_batch": 3},
        pytest.param({"compile": "eager"}, marks=pytest.mark.slow),
        {"workers": 1},
    ],
)
def test_a_run_in_pieces_compiled_or_with_workers_is_the_same(tmp_path, whole, settings):
    losses, after = run(tmp_path / "run", **settings)
    torch.testing.assert_close((losses, after), whole, rtol=1e-9, atol=1e-9)


def test_a_run_in_half_precision_is_near_it(tmp_path, whole):
    losses, after = run(tmp_path / "run", precision="bf16-mixed")
    torch.testing.assert_close(losses, whole[0], rtol=0.04, atol=0)
    assert all(bool(x.isfinite().all()) for x in after.values())


def test_views_that_are_drawn_on_the_device_are_masked_too(tmp_path):
    losses, after = run(tmp_path / "run", transform=SimCLRTransform(size=4, batched=True))
    assert all(math.isfinite(each) for each in losses)
    assert bool(after["mask_token"].any())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"mask_ratio": (0.5, 0.1)},
            r"mask_ratio must be .*such as \[0.1, 0.5\].* not \(0.5, 0.1\)",
        ),
        ({"mask_ratio": (0.0, 0.0)}, "mask_ratio must be the least and the largest"),
        ({"mask_ratio": (0.5, 1.5)}, r"from 0 to 1, not \(0.5, 1.5\)"),
        ({"mask_ratio": (0.1,)}, "mask_ratio must be the least and the largest"),
    ],
)
def test_a_setting_out_of_range_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        method_of(**settings)


def test_the_ends_of_the_ranges_are_taken():
    for ratio in ((0, 0.1), (0.3, 0.3), (0.5, 1)):
        assert method_of(mask_ratio=ratio, mask_probability=1) is not None
    assert not any(BlockMasks(2, (4, 4), probability=0)(16, 16).any() for _ in range(9))


def test_a_setting_of_dino_reaches_it():
    method = method_of(frozen=3, key_views=1, momentum=0.5, learned_norms=True, shared_head=False)
    assert (method.frozen, method.key_views, method.momentum) == (3, 1, 0.5)
    for head in (method.head, method.patch_head):
        assert head.is_frozen
        assert head.norms is not None
    assert method_of(frozen=1, shared_head=False).patch_head.is_frozen
    plain = method_of(shared_head=False)
    assert not plain.patch_head.is_frozen
    assert all(each.requires_grad for each in plain.patch_head.parameters())
    assert not any(each.requires_grad for each in plain.patch_key_head.parameters())


def test_a_backbone_that_does_not_fit_says_so():
    sizes = {"hidden": 12, "bottleneck": 6, "dim": 10}
    with pytest.raises(ValueError, match="masks patches, and the backbone LeNet5 has none: take a"):
        IBOT(**sizes, backbone=LeNet5())
    both = Timm("vit_tiny_patch16_224", options=OPTIONS, features="both")
    with pytest.raises(
        ValueError, match="widths are 32 and 16: give the backbone features = 'token'"
    ):
        IBOT(**sizes, backbone=both)
    assert IBOT(**sizes, shared_head=False, backbone=both).mask_token.shape == (16,)


PIPELINE = """
dataset = {use = "subset", of = "color_digits", train = 16, test = 8}
backbone = {use = "timm", name = "test_vit", features = "token"}
method = {use = "ibot", hidden = 8, bottleneck = 4, dim = 6}
transform = {use = "dino", small = 2, size = 32, small_size = 16}
objective = {use = "mixture", objectives = ["dino", "ibot"]}
evaluate = []
"""


GUIDED = """
condition = {use = "column", name = "color"}
fit = {epochs = 1, batch_size = 8, workers = 0}

[objective]
use = "guided"
guides = [{on = "condition", keep = false, by = {use = "fair_cclk", kernel = "rbf"}}]

[objective.base]
use = "mixture"
weights = [1.0, 1.0, 0.2]
objectives = [
    {use = "dino", centering = "sinkhorn"},
    "ibot",
    {use = "koleo", at = "features", views = 2},
]
"""


def test_a_run_with_guides_and_monitors_is_rebuilt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tomllib.loads(PIPELINE)
    del table["objective"]
    run = ccl.Pipeline.from_dict(table | tomllib.loads(GUIDED)).fit(out="run", progress=False)
    assert run.progress == (2, 2)
    saved = run.parts.method.state_dict()
    assert bool(saved["mask_token"].any())
    again = ccl.load("run")
    torch.testing.assert_close(again.parts.method.state_dict(), saved)
    images = (255 * torch.rand(2, 3, 32, 32)).byte()
    torch.testing.assert_close(again.encode(images), run.encode(images))
    with pytest.raises(DoesNotApply, match="Guided is not a mean over anchors"):
        weights(again)  # of masked views too


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backbone": {"use": "timm", "name": "resnet10t"}}, "'resnet10t' has no patches to mask"),
        ({"backbone": "lenet5"}, "ibot masks patches, and the backbone .*lenet5 has none: take a"),
        (
            {"transform": {"use": "dino", "small": 2, "size": 32, "small_size": 8}},
            "8x8 pixels are smaller than a patch of 'test_vit', 16x16 pixels",
        ),
        (
            {"method": {"use": "dino"}, "objective": "dino"}
            | {"transform": {"use": "dino", "small": 2, "size": 8, "small_size": 16}},
            "8x8 pixels are smaller than a patch of 'test_vit', 16x16 pixels",
        ),
        (
            {"method": {"use": "ibot", "key_views": 3}},
            r"first 3 views, which must be of one size, .* of 32, 32, 16 pixels: give it key_views = 2",
        ),
        (
            {"method": {"use": "ibot", "key_views": 5}},
            "first 5 views, and this transform gives 4: give it key_views = 4",
        ),
        ({"method": "dino"}, "Mixture reads masked patches, and the method .*dino masks none: use"),
    ],
)
def test_a_pipeline_whose_masks_do_not_fit_is_refused_when_composed(change, message):
    with pytest.raises(ValueError, match=message):
        ccl.Pipeline.from_dict(tomllib.loads(PIPELINE) | change)


def test_masks_that_nothing_reads_are_a_warning():
    with pytest.warns(UserWarning, match="nothing in this pipeline reads the patches that .*ibot"):
        ccl.Pipeline.from_dict(tomllib.loads(PIPELINE) | {"objective": "dino"})


def test_blocks_are_wide_and_high():
    random.seed(0)
    shapes = set()
    for _ in range(50):
        mask = torch.zeros(14, 14, dtype=torch.bool)
        _add_block(mask, 40)
        shapes.add((int(mask.any(1).sum()), int(mask.any(0).sum())))
    ratios = [height / width for height, width in shapes]
    assert 0.25 <= min(ratios) < 0.4
    assert 2.5 < max(ratios) <= 4  # 0.3 and its inverse, and sides are rounded
