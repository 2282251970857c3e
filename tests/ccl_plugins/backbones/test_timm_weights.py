"""A file of weights: adapted to channels and image size as timm adapts its own, or refused by name."""

from __future__ import annotations

import pytest
import timm
import torch
from safetensors.torch import save_file

from ccl_plugins.backbones import Timm

SMALL = {"embed_dim": 16, "depth": 2, "num_heads": 2}
DINOV2 = "vit_small_patch14_dinov2"
SIZED = {**SMALL, "img_size": 56}


def saved(folder, name, **options):
    """The file of a model's weights, and these."""
    torch.manual_seed(0)
    state = timm.create_model(name, **options).state_dict()
    save_file({key: value.contiguous() for key, value in state.items()}, folder / "w.safetensors")
    return str(folder / "w.safetensors"), state


@pytest.mark.parametrize(
    ("name", "made", "options"),
    [
        ("resnet10t", {}, {"in_chans": 5}),
        ("resnet10t", {}, {"in_chans": 1}),
        (DINOV2, SIZED, {**SIZED, "in_chans": 5}),
        (DINOV2, SIZED, {**SMALL, "img_size": 84}),
        ("vit_small_patch16_dinov3", SMALL, {**SMALL, "in_chans": 5, "img_size": 48}),
        ("vit_base_patch16_siglip_224", SMALL, {**SMALL, "in_chans": 2, "img_size": 48}),
        ("vit_base_patch32_clip_quickgelu_224", SMALL, {**SMALL, "img_size": 64}),
    ],
)
def test_a_file_is_adapted_as_timm_adapts_its_own_weights(name, made, options, tmp_path):
    path, _ = saved(tmp_path, name, **made)
    overlay = {"pretrained_cfg_overlay": {"file": path}}
    theirs = Timm(name, pretrained=True, options={**options, **overlay}).model.state_dict()
    ours = Timm(name, checkpoint_path=path, options=options).model.state_dict()
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        torch.testing.assert_close(ours[key], value, rtol=0, atol=0)


def test_channels_are_repeated_in_turn_and_scaled(tmp_path):
    path, state = saved(tmp_path, "resnet10t")
    first = Timm("resnet10t", checkpoint_path=path, options={"in_chans": 5}).model.conv1[0].weight
    given = state["conv1.0.weight"] * (3 / 5)
    torch.testing.assert_close(first, torch.cat([given, given[:, :2]], 1))


def test_weights_of_five_channels_are_taken_for_three(tmp_path):
    path, state = saved(tmp_path, "resnet10t", in_chans=5)
    own = Timm("resnet10t", checkpoint_path=path).model
    torch.testing.assert_close(own.conv1[0].weight, state["conv1.0.weight"][:, :3] * (5 / 3))
    gray = Timm("resnet10t", checkpoint_path=path, options={"in_chans": 1}).model
    torch.testing.assert_close(gray.conv1[0].weight, state["conv1.0.weight"].sum(1, keepdim=True))


def test_the_names_of_the_first_implementation_are_translated(tmp_path):
    """DINOv2's own file has the class token's position apart, and a token that is of its training."""
    name = "vit_small_patch14_reg4_dinov2"
    _, state = saved(tmp_path, name, **SIZED)
    position = torch.randn(1, 1, 16)
    theirs = {
        **state,
        "register_tokens": state["reg_token"],
        "cls_token": state["cls_token"] - position,
        "pos_embed": torch.cat([position, state["pos_embed"]], 1),
        "mask_token": torch.zeros(1, 16),
    }
    del theirs["reg_token"]
    torch.save(theirs, tmp_path / "theirs.pth")
    loaded = Timm(name, checkpoint_path=str(tmp_path / "theirs.pth"), options=SIZED)
    for key, value in loaded.model.state_dict().items():
        torch.testing.assert_close(value, state[key])


def test_the_image_tower_of_a_clip_of_openai_is_read(tmp_path):
    name = "vit_base_patch32_clip_quickgelu_224"
    _, state = saved(tmp_path, name, **SMALL, img_size=64)
    back = [
        ("blocks.", "transformer.resblocks."),
        ("patch_embed.proj", "conv1"),
        ("norm_pre", "ln_pre"),
        ("attn.qkv.", "attn.in_proj_"),
        ("attn.proj", "attn.out_proj"),
        ("mlp.fc1", "mlp.c_fc"),
        ("mlp.fc2", "mlp.c_proj"),
        ("norm1", "ln_1"),
        ("norm2", "ln_2"),
    ]
    theirs = {"logit_scale": torch.zeros(()), "token_embedding.weight": torch.zeros(3, 4)}
    for key, value in state.items():
        if key == "cls_token":
            theirs["visual.class_embedding"] = value[0, 0]
        elif key == "pos_embed":
            theirs["visual.positional_embedding"] = value[0]
        elif key == "head.weight":
            theirs["visual.proj"] = value.T
        elif key.startswith("norm."):
            theirs[key.replace("norm.", "visual.ln_post.")] = value
        elif key != "head.bias":
            for ours, its in back:
                key = key.replace(ours, its)
            theirs[f"visual.{key}"] = value
    torch.save(theirs, tmp_path / "clip.pt")
    loaded = Timm(
        name, checkpoint_path=str(tmp_path / "clip.pt"), options={**SMALL, "img_size": 64}
    ).model.state_dict()
    for key, value in loaded.items():
        torch.testing.assert_close(value, state[key], rtol=0, atol=0)


def renamed(state):
    """Weights with names of another implementation, in timm's order."""
    return {
        f"_net.{i}.{key.rpartition('.')[2]}": value for i, (key, value) in enumerate(state.items())
    }


@pytest.mark.parametrize("options", [{}, {"in_chans": 5}])
@pytest.mark.parametrize("classes", [0, 7])
def test_weights_of_other_names_are_taken_in_their_order(options, classes, tmp_path, caplog):
    path, state = saved(tmp_path, "resnet10t", num_classes=classes)
    torch.save(renamed(state), tmp_path / "other.pth")
    ours = Timm("resnet10t", checkpoint_path=str(tmp_path / "other.pth"), options=options)
    theirs = Timm("resnet10t", checkpoint_path=path, options=options)
    for key, value in theirs.model.state_dict().items():
        torch.testing.assert_close(ours.model.state_dict()[key], value, rtol=0, atol=0)
    (message,) = caplog.messages
    assert (
        "its 84 weights were taken in their order, from _net.0.weight as conv1.0.weight" in message
    )
    assert ("without _net.84.weight and _net.85.bias." in message) == bool(classes)


def test_weights_of_other_names_are_refused_where_their_order_does_not_fit(tmp_path):
    _, state = saved(tmp_path, "resnet10t", num_classes=0)
    other = renamed(state)
    keys = [*other]
    bias = {**other, keys[1]: other[keys[2]], keys[2]: other[keys[1]]}
    cases = {
        "missing": dict([*other.items()][:-1]),
        "more": {**other, "more.weight": torch.zeros(3, 5), "more.bias": torch.zeros(3)},
        "shape": {**other, keys[0]: other[keys[0]][1:]},
        "swapped": {name: other[name] for name in (keys[0], keys[2], keys[1], *keys[3:])},
        "known": {**bias, "bn1.bias": other.pop(keys[-1])},
    }
    for name, weights in cases.items():
        torch.save(weights, tmp_path / f"{name}.pth")
        with pytest.raises(ValueError, match=rf"{name}\.pth' does not hold the 84 weights"):
            Timm("resnet10t", checkpoint_path=str(tmp_path / f"{name}.pth"))
    save_file(renamed(state), tmp_path / "sorted.safetensors")
    with pytest.raises(ValueError, match="84 are missing"):
        Timm("resnet10t", checkpoint_path=str(tmp_path / "sorted.safetensors"))


def test_the_mean_of_patches_needs_no_weights_of_another_pooling(tmp_path):
    name = "vit_base_patch16_siglip_224"
    path, state = saved(tmp_path, name, **SMALL, img_size=48)
    options = {**SMALL, "img_size": 48}
    ours = Timm(name, checkpoint_path=path, options=options, features="mean").model.state_dict()
    assert {key for key in state if "attn_pool" in key} == state.keys() - ours.keys()


@pytest.mark.parametrize(
    ("name", "made", "wanted", "options", "message"),
    [
        (
            "resnet18",
            {},
            DINOV2,
            SIZED,
            r"w\.safetensors' does not hold the 34 weights of 'vit_small_patch14_dinov2': 34 are missing"
            r" \(cls_token, pos_embed, .*, \.\.\.\); 122 are unknown to it"
            r" \(bn1\.(bias|num_batches_tracked|running_mean|running_var|weight), ",
        ),
        (DINOV2, SIZED, "resnet18", {}, r"120 are missing .*unknown to it \(blocks\.0"),
        ("resnet10t", {}, "resnet14t", {}, r"of 'resnet14t': .* are missing .*of another shape \("),
        (
            DINOV2,
            SIZED,
            DINOV2,
            {**SIZED, "depth": 1},
            r"14 are unknown to it \(blocks\.1\.attn\.proj\.bias, .*with its options",
        ),
        (DINOV2, {**SIZED, "depth": 1}, DINOV2, SIZED, r"': 14 are missing \(blocks\.1\.norm1"),
        (
            DINOV2,
            SIZED,
            DINOV2,
            {**SIZED, "embed_dim": 8},
            r"of another shape \(cls_token \(1, 1, 16\) for \(1, 1, 8\), ",
        ),
        ("resnet10t", {}, "convnext_atto", {}, "'convnext_atto'.*unknown to it"),
        (DINOV2, SIZED, "xcit_nano_12_p16_224", {}, "'xcit_nano_12_p16_224'.*unknown to it"),
    ],
)
def test_weights_of_another_model_are_refused_with_names_and_numbers(
    name, made, wanted, options, message, tmp_path
):
    path, _ = saved(tmp_path, name, **made)
    with pytest.raises(ValueError, match=message):
        Timm(wanted, checkpoint_path=path, options=options)
