from __future__ import annotations

import math

import pytest
import torch

from ccl_plugins.backbones import Timm, ViTMoCoV3


def reference_positions(side: int, width: int) -> torch.Tensor:
    """MoCo v3's fixed positions: a quarter each of sine and cosine of column and row."""
    grid = torch.arange(side, dtype=torch.float32)
    column, row = torch.meshgrid(grid, grid, indexing="ij")
    omega = 1 / 10000 ** (torch.arange(width // 4, dtype=torch.float32) / (width // 4))
    parts = [f(x.flatten()[:, None] * omega) for x in (column, row) for f in (torch.sin, torch.cos)]
    return torch.cat([torch.zeros(1, width), torch.cat(parts, 1)])


def test_positions_are_the_references_but_for_the_order_of_channels_and_are_not_trained():
    positions = ViTMoCoV3("test_vit", heads=2).model.pos_embed
    side = math.isqrt(positions.shape[1] - 1)
    expected = reference_positions(side, positions.shape[2])
    ours, theirs = (p.T[torch.argsort(_order(p))] for p in (positions[0], expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert not positions.requires_grad


def _order(positions: torch.Tensor) -> torch.Tensor:
    """Something that tells channels apart, whatever their order."""
    weights = torch.linspace(1, 2, len(positions), dtype=torch.float64) ** 3
    return (positions.detach().double() * weights[:, None]).sum(0)


def test_the_small_one_has_twelve_heads_and_the_references_bounds():
    torch.manual_seed(0)
    model = ViTMoCoV3(options={"depth": 1}).model
    block = model.blocks[0]
    assert block.attn.num_heads == 12
    width = 384
    bounds = {
        model.patch_embed.proj.weight: math.sqrt(6 / (3 * 16**2 + width)),
        block.attn.qkv.weight: math.sqrt(6 / (width + width)),
        block.mlp.fc1.weight: math.sqrt(6 / (width + 4 * width)),
    }
    for weight, bound in bounds.items():
        assert weight.abs().max() <= bound
        torch.testing.assert_close(weight.std().item(), bound / math.sqrt(3), rtol=0.02, atol=0)
    assert model.cls_token.abs().max() < 1e-5
    assert not model.patch_embed.proj.bias.any()


def test_the_patch_embedding_is_trained_only_on_request():
    frozen = ViTMoCoV3("test_vit", heads=2)
    kept = {n for n, p in frozen.named_parameters() if not p.requires_grad}
    assert kept == {
        "model.pos_embed",
        "model.patch_embed.proj.weight",
        "model.patch_embed.proj.bias",
    }
    free = ViTMoCoV3("test_vit", heads=2, freeze_patches=False)
    assert {n for n, p in free.named_parameters() if not p.requires_grad} == {"model.pos_embed"}


def test_a_checkpoint_is_loaded_last(tmp_path):
    source = Timm("test_vit", options={"num_heads": 2}).model.state_dict()
    torch.save(source, tmp_path / "weights.pt")
    loaded = ViTMoCoV3("test_vit", heads=2, checkpoint_path=str(tmp_path / "weights.pt"))
    for name, tensor in loaded.model.state_dict().items():
        torch.testing.assert_close(tensor, source[name], rtol=0, atol=0)


def test_a_model_without_a_class_token_is_refused():
    with pytest.raises(ValueError, match="'vit_relpos_small_patch16_224' has no class token"):
        ViTMoCoV3("vit_relpos_small_patch16_224", heads=6)
