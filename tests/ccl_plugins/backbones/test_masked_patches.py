"""Masked patches: their embeddings are a token's before positions are added, whatever the transformer."""

from __future__ import annotations

import copy

import pytest
import timm
import torch
from lightly.models.modules import MaskedVisionTransformerTIMM
from torch import nn

from ccl_plugins.backbones import SmallAlexNet, Timm
from ccl_plugins.protocols import trait

SMALL = {"embed_dim": 16, "depth": 2, "num_heads": 2}
DINOV2 = "vit_small_patch14_reg4_dinov2"
DINOV3 = "vit_small_patch16_dinov3"
NAMES = [
    "test_vit",
    DINOV2,
    DINOV3,
    "vit_base_patch32_clip_quickgelu_224",
    "vit_relpos_small_patch16_224",
    "beit_base_patch16_224",
    "eva02_tiny_patch14_224",
]


def vit(name, features="default", **options):
    """A small model in float64 for images of 3x3 patches, two images, a mask of them and a token."""
    side = 3 * timm.create_model(name, **SMALL).patch_embed.patch_size[0]
    torch.manual_seed(0)
    model = Timm(name, options={**SMALL, "img_size": side, **options}, features=features)
    mask = torch.zeros(2, 3, 3, dtype=torch.bool)
    mask[0, 0, 1] = mask[0, 2, 2] = mask[1, 1, 0] = True
    return model.eval().double(), torch.randn(2, 3, side, side).double(), mask, token_of(16)


def token_of(width):
    return nn.Parameter(torch.linspace(-1, 1, width).double())


def slow(model, mask, token):
    """A copy of a model whose patch embedding has the token in each masked place."""
    model = copy.deepcopy(model)
    embed = model.model.patch_embed
    forward = embed.forward

    def replaced(x):
        found = forward(x)
        rows = found.reshape(len(x), -1, found.shape[-1]).clone()
        for i, each in enumerate(mask.flatten(1)):
            for place, is_masked in enumerate(each):
                if is_masked:
                    rows[i, place] = token
        return rows.view_as(found)

    embed.forward = replaced
    return model


@pytest.mark.parametrize("name", NAMES)
def test_masked_patches_have_the_tokens_embedding(name):
    model, x, mask, token = vit(name)
    assert model.patch_shape == (x.shape[-1] // 3, x.shape[-1] // 3, 16)
    assert model.check_masked({"name": name, "options": SMALL}) is None
    features, patches = model(x, mask, token)
    by_hand = slow(model, mask, token)
    near = {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(features, by_hand(x), **near)
    torch.testing.assert_close(patches, by_hand.patches(x), **near)
    wanted = torch.autograd.grad(features.sum() + patches.square().sum(), token)
    found = torch.autograd.grad(by_hand(x).sum() + by_hand.patches(x).square().sum(), token)
    torch.testing.assert_close(wanted, found, **near)


@pytest.mark.parametrize("features", ["default", "token", "mean", "both"])
def test_without_a_mask_features_and_patches_are_the_usual_ones(features):
    model, x, _, token = vit(DINOV2, features)
    found, patches = model(x, None, token)
    torch.testing.assert_close(found, model(x))
    torch.testing.assert_close(patches, model.patches(x))


def test_it_is_lightlys_masked_transformer_with_images_of_two_sizes():
    model, x, mask, token = vit("test_vit", "token", dynamic_img_size=True)
    theirs = MaskedVisionTransformerTIMM(
        copy.deepcopy(model.model), token.detach()[None, None], "skip", False, "skip"
    )
    small, _ = x.split(32, -1)
    whole = torch.cat([torch.zeros(2, 1, dtype=torch.bool), mask.flatten(1)], 1)
    features, patches = model(x, mask, token)
    tokens = theirs.encode(x, mask=whole)
    torch.testing.assert_close(features, tokens[:, 0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(patches.flatten(1, 2), tokens[:, 1:], rtol=1e-9, atol=1e-11)
    assert model(small, mask[..., :2], token)[1].shape == (2, 3, 2, 16)


def test_a_copy_masks_its_own_patches():
    model, x, mask, token = vit(DINOV3)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert twin.state_dict().keys() == model.state_dict().keys()
    expected = twin(x, mask, token)
    assert not torch.allclose(expected[0], model(x, mask, token)[0])


@pytest.mark.slow
def test_a_network_that_masks_patches_compiles():
    model, x, mask, token = vit(DINOV3)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    for each in (mask, ~mask, None):
        torch.testing.assert_close(compiled(x, each, token), model(x, each, token))
    torch.testing.assert_close(compiled(x), model(x))


def test_what_has_no_patches_says_so():
    assert trait(SmallAlexNet, "patch_shape") is None
    for name in ("resnet10t", "swin_tiny_patch4_window7_224"):
        with pytest.raises(ValueError, match=f"{name!r} has no patches to mask: take a vision"):
            Timm.check_masked({"name": name, "options": None})
    with pytest.raises(ValueError, match=r"patch_drop_rate = 0.5 drops some"):
        Timm.check_masked({"name": "test_vit", "options": {"patch_drop_rate": 0.5}})
    resnet = Timm("resnet10t")
    assert resnet.patch_shape is None
    with pytest.raises(ValueError, match="a ResNet of timm has no patches to mask"):
        resnet(torch.randn(1, 3, 32, 32), None, token_of(16))
    model, x, mask, token = vit("test_vit")
    with pytest.raises(ValueError, match=r"48x48 pixels have \(n, 3, 3\) patches.* is \(2, 2, 3\)"):
        model(x, mask[:, :2], token)
