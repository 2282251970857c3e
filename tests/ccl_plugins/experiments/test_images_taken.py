"""Size and channels of the views, and those that a backbone takes, compared when a pipeline is composed."""

from __future__ import annotations

import pytest
import timm
import torch

import ccl_plugins as ccl
from ccl_plugins.conditions import Encoder

FIVE = {"mean": [0.1] * 5, "std": [0.2] * 5, "jitter": 0.0, "gray": 0.0, "blur": 0.0}


def compose(backbone, size=32, **transform):
    return ccl.Pipeline(
        dataset="color_digits",
        backbone=backbone,
        objective="infonce",
        transform=ccl.transform("simclr", size=size, **transform),
    )


def of_timm(name="vit_tiny_patch16_224", **given):
    return ccl.backbone("timm", name=name, **given)


@pytest.mark.parametrize(
    ("backbone", "size", "message"),
    [
        (
            of_timm(),
            32,
            r"224x224 pixels, not of 32x32: give the model options = {img_size = 32}, or "
            r"the views a size of 224",
        ),
        (of_timm(options={"img_size": 64}), 32, r"takes images of 64x64 .*{img_size = 32}"),
        (of_timm("swin_tiny_patch4_window7_224", pretrained=True), 64, r"{img_size = 64}"),
        (of_timm("efficientformer_l1"), 32, r"not of 32x32: give the views a size of 224$"),
        (
            of_timm(),
            8,
            r"8x8 pixels are smaller than a patch of .*16x16 pixels: give the views a size of 16 or",
        ),
        (
            of_timm("vit_small_patch16_dinov3"),
            12,
            r"12x12 pixels are smaller than a patch of 'vit_small",
        ),
        (
            of_timm("vit_small_patch16_dinov3"),
            40,
            r"whole patches of 16x16 pixels, but 40 is not a multiple of 16: .* size of 32 or 48",
        ),
        (of_timm("vit_small_patch14_dinov2"), 224, r"takes images of 518x518 .*{img_size = 224}"),
        (
            of_timm("vit_small_patch14_dinov2"),
            100,
            r"but 100 is not a multiple of 14: .* size of 98 or 112",
        ),
        (
            of_timm(options={"img_size": 40}),
            40,
            r"but 40 is not a multiple of 16: .* size of 32 or 48",
        ),
        (of_timm("vgg11"), 16, r"16x16 pixels are too small for 'vgg11': .* a size of 32 or more"),
        (ccl.backbone("vit_moco_v3"), 96, r"'vit_small_patch16_224' takes .*{img_size = 96}"),
    ],
)
def test_a_backbone_for_other_images_is_refused_when_composed_with_the_cure(
    backbone, size, message, monkeypatch
):
    # No weights are loaded or drawn.
    monkeypatch.setattr(
        timm.models._builder, "load_pretrained", lambda *args, **kw: pytest.fail("loads")
    )
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match=message):
        compose(backbone, size)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("backbone", "size"),
    [
        (of_timm(), 224),
        (of_timm(options={"img_size": 32}), 32),
        (of_timm(options={"dynamic_img_size": True}), 64),
        (of_timm("test_vit", options={"dynamic_img_size": True, "dynamic_img_pad": True}), 40),
        (
            of_timm(
                "vit_small_patch16_dinov3", options={"embed_dim": 48, "depth": 1, "num_heads": 4}
            ),
            48,
        ),
        (of_timm("test_vit"), 32),  # timm calls its size fixed, and it takes others
        (of_timm("resnet10t"), 40),
        (of_timm("convnext_atto"), 32),
        (of_timm("hf-hub:timm/resnet10t"), 40),  # described on the Hub, which is not asked
    ],
)
def test_images_of_the_right_size_pass_and_networks_are_built_as_before(backbone, size):
    pipeline = compose(backbone, size)
    if backbone.params.get("name", "").startswith("hf-hub"):
        return
    features = pipeline.build().method.backbone(torch.zeros(2, 3, size, size))
    assert features.isfinite().all()


def test_a_model_is_whole_after_its_size_was_checked():
    """What a model without memory computes must not stay in a cache of timm."""
    with pytest.raises(ValueError, match="img_size"):
        compose(of_timm("levit_128s"), 32)
    model = timm.create_model("levit_128s", num_classes=0).eval()
    assert all(not tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    assert model(torch.zeros(1, 3, 224, 224)).isfinite().all()


def test_an_encoder_with_another_image_size_is_refused_before_it_reads_images():
    with pytest.raises(ValueError, match=r"{img_size = 32}, or image_size = 224"):
        Encoder("vit_tiny_patch16_224", image_size=32)


@pytest.mark.parametrize(
    ("name", "options", "transform", "message"),
    [
        ("resnet10t", {}, FIVE, r"5 channels, .*'resnet10t' takes 3: .* {in_chans = 5}"),
        ("resnet10t", {"in_chans": 5}, {}, r"3 channels, .* takes 5: .* a std of 5 numbers each"),
        ("resnet10t", {"in_chans": 4}, FIVE, r"5 channels, .* takes 4"),
        ("hf-hub:timm/resnet10t", {"in_chans": 4}, FIVE, r"5 channels, .* takes 4"),
        ("resnet10t", {}, {**FIVE, "std": None}, r"mean has 5 numbers: give std the same number"),
    ],
)
def test_other_channels_are_refused_with_the_settings_of_both(name, options, transform, message):
    with pytest.raises(ValueError, match=message):
        compose(of_timm(name, options=options), **transform)


@pytest.mark.parametrize("name", ["resnet10t", "hf-hub:timm/resnet10t"])
def test_equal_channels_pass(name):
    compose(of_timm(name, options={"in_chans": 5}), **FIVE)
    compose(of_timm(name))
