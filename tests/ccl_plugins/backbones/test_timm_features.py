"""Class token, mean of patches or both as features, and the features of patches."""

from __future__ import annotations

import pytest
import timm
import torch
from safetensors.torch import save_file

from ccl_plugins.backbones import Timm

SMALL = {"embed_dim": 16, "depth": 2, "num_heads": 2}
DINOV2 = "vit_small_patch14_reg4_dinov2"
DINOV3 = "vit_small_patch16_dinov3"
SIGLIP = "vit_base_patch16_siglip_224"
CLIP = "vit_base_patch32_clip_quickgelu_224"


def vit(name, features, patches=3, **options):
    """A small model for images of 3x3 patches, and two images."""
    side = timm.create_model(name, **SMALL).patch_embed.patch_size[0] * patches
    torch.manual_seed(0)
    model = Timm(name, options={**SMALL, "img_size": side, **options}, features=features).eval()
    return model, torch.randn(2, options.get("in_chans", 3), side, side)


@pytest.mark.parametrize(("name", "prefix"), [(DINOV2, 5), (DINOV3, 5), (CLIP, 1)])
def test_features_are_of_class_token_and_patches_without_registers(name, prefix):
    both, x = vit(name, "both")
    with torch.no_grad():
        tokens = both.model.forward_features(x)
        found = both(x)
    assert tokens.shape == (2, prefix + 9, 16)
    assert found.shape == (2, both.num_features) == (2, 32)
    torch.testing.assert_close(found, torch.cat([tokens[:, 0], tokens[:, prefix:].mean(1)], 1))
    for features, expected in (("token", found[:, :16]), ("mean", found[:, 16:])):
        one, _ = vit(name, features)
        assert one.num_features == 16
        torch.testing.assert_close(one(x).detach(), expected)


@pytest.mark.parametrize(
    ("name", "features", "pool"), [(DINOV2, "token", "token"), (DINOV3, "mean", "avg")]
)
def test_features_are_what_timm_pools_so(name, features, pool):
    ours, x = vit(name, features)
    torch.manual_seed(0)
    theirs = timm.create_model(
        name, num_classes=0, **SMALL, img_size=x.shape[-1], global_pool=pool
    ).eval()
    torch.testing.assert_close(ours(x), theirs(x))


def test_a_model_that_normalizes_after_pooling_still_does():
    ours, x = vit("beit_base_patch16_224", "mean")
    theirs, _ = vit("beit_base_patch16_224", "default")
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_attention_pooling_of_siglip_is_the_default_and_the_mean_does_without_its_weights():
    default, x = vit(SIGLIP, "default")
    assert any("attn_pool" in name for name, _ in default.named_parameters())
    assert default(x).shape == (2, default.num_features) == (2, 16)
    mean, _ = vit(SIGLIP, "mean")
    mean(x).sum().backward()
    assert all(p.grad is not None for p in mean.parameters())
    torch.testing.assert_close(mean(x), mean.model.forward_features(x).mean(1))


def test_weights_of_siglip_without_its_pooling_are_loaded_as_those_with_it(tmp_path):
    for features in ("default", "mean"):
        source, x = vit(SIGLIP, features)
        save_file(source.model.state_dict(), tmp_path / "w.safetensors")
        options = {**SMALL, "img_size": 48}
        loaded = Timm(
            SIGLIP, checkpoint_path=tmp_path / "w.safetensors", options=options, features="mean"
        )
        torch.testing.assert_close(loaded.eval()(x), source.model.forward_features(x).mean(1))


def test_a_model_without_the_tokens_is_refused():
    with pytest.raises(ValueError, match=f"'both' needs a class token, .*'{SIGLIP}'.*'mean'"):
        vit(SIGLIP, "both")
    with pytest.raises(ValueError, match="'resnet10t' has none: use features='default'"):
        Timm("resnet10t", features="mean")


@pytest.mark.parametrize("name", [DINOV2, DINOV3, SIGLIP, CLIP])
def test_patches_are_the_tokens_of_the_last_layer_in_their_places(name):
    model, x = vit(name, "mean")
    with torch.no_grad():
        found = model.patches(x)
        assert found.shape == (2, 3, 3, 16)
        torch.testing.assert_close(found.mean((1, 2)), model(x))
    assert not torch.allclose(found[:, 0, 1], found[:, 1, 0])
    tokens = model.model.forward_features(x)[:, model.model.num_prefix_tokens :]
    torch.testing.assert_close(found, tokens.detach().unflatten(1, (3, 3)))


def test_places_of_a_convolutional_network_are_its_patches():
    model = Timm("resnet10t").eval()
    x = torch.randn(2, 3, 96, 64)
    with torch.no_grad():
        found = model.patches(x)
        assert found.shape == (2, 3, 2, 512)
        torch.testing.assert_close(found.mean((1, 2)), model(x))


def test_a_model_whose_places_timm_does_not_give_is_refused(monkeypatch):
    model = Timm("resnet10t").eval()
    monkeypatch.delattr(timm.models.resnet.ResNet, "forward_intermediates")
    with pytest.raises(ValueError, match="no patch features of a ResNet"):
        model.patches(torch.randn(2, 3, 32, 32))


def test_rotary_positions_take_other_sizes_without_an_option():
    torch.manual_seed(0)
    model = Timm(DINOV3, options=SMALL, features="both").eval()
    for side in (32, 80):
        assert model(torch.randn(1, 3, side, side)).shape == (1, 32)


@pytest.mark.parametrize(
    "name", ["vit_small_patch14_dinov2", DINOV2, DINOV3, SIGLIP, "vit_base_patch16_clip_224"]
)
def test_towers_take_more_channels_are_frozen_by_layers_and_compute_blocks_again(name):
    grown = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        side = timm.create_model(name, **SMALL).patch_embed.patch_size[0] * 3
        options = {**SMALL, "img_size": side, "in_chans": 5}
        model = Timm(name, options=options, freeze=2, checkpointing=checkpointing)
        model(
            torch.randn(2, 5, side, side, generator=torch.Generator().manual_seed(1))
        ).sum().backward()
        grown.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    layers = model.layer_numbers()
    assert {*layers.values()} >= {0, 1, 2}
    learn = {n for n, p in model.named_parameters() if p.requires_grad}
    assert learn == grown[0].keys() == {name for name, layer in layers.items() if layer >= 2}
    torch.testing.assert_close(*grown)
    Timm.check_image_size({"name": name, "options": options}, side)
    with pytest.raises(ValueError, match="is not a multiple of"):
        Timm.check_image_size({"name": name, "options": options}, side + 1)
