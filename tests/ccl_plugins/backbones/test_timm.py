from __future__ import annotations

import copy

import pytest
import safetensors.torch
import timm
import torch
from torch import nn

from ccl_plugins.backbones import Timm
from ccl_plugins.methods import DINO, MoCoV2


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050", "test_vit"])
def test_features_have_the_length_announced(name):
    model = Timm(name).eval()
    size = model.model.default_cfg["input_size"][-1]
    assert model(torch.randn(2, 3, size, size)).shape == (2, model.num_features)


def test_timm_gives_the_features_that_timm_gives_before_its_classifier():
    torch.manual_seed(0)
    ours = Timm("resnet10t").eval()
    torch.manual_seed(0)
    theirs = timm.create_model("resnet10t", num_classes=0).eval()
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_cifar_stem_keeps_the_resolution_of_small_images():
    x = torch.randn(2, 3, 32, 32)
    small, default = Timm("resnet18", stem="cifar").eval(), Timm("resnet18").eval()
    assert small.model.forward_features(x).shape == (2, 512, 4, 4)
    assert default.model.forward_features(x).shape == (2, 512, 1, 1)
    assert small(x).shape == (2, 512)
    convolution = small.model.conv1
    assert (convolution.kernel_size, convolution.stride) == ((3, 3), (1, 1))


@pytest.mark.parametrize("name", ["resnet50d", "test_vit"])
def test_a_model_without_a_resnet_stem_refuses_the_cifar_stem(name):
    with pytest.raises(ValueError, match=f"'resnet18'; '{name}' does not"):
        Timm(name, stem="cifar")


def test_an_unknown_name_is_quoted_with_its_nearest():
    with pytest.raises(ValueError, match=r"no model 'resnett18'. Did you mean 'resnet18' or "):
        Timm("resnett18")
    with pytest.raises(ValueError, match=r"See timm.list_models"):
        Timm("nothing like it")


def test_options_reach_the_model_or_are_refused():
    model = Timm("resnet10t", options={"in_chans": 1}).eval()
    assert model(torch.randn(2, 1, 64, 64)).shape == (2, 512)
    with pytest.raises(TypeError, match=r"\['in_chanels'\]; ResNet takes .*in_chans"):
        Timm("resnet10t", options={"in_chanels": 1})
    with pytest.raises(ValueError, match="num_classes"):
        Timm("resnet10t", options={"num_classes": 10})
    unpooled = Timm("resnet10t", options={"global_pool": ""})
    with pytest.raises(ValueError, match=r"\(2, 512, 2, 2\); an option such as global_pool"):
        unpooled(torch.randn(2, 3, 64, 64))


def test_parameters_without_weight_decay_are_named_as_this_module_has_them():
    model = Timm("test_vit")
    named = model.no_weight_decay()
    assert {"model.pos_embed", "model.cls_token"} <= named
    assert named <= dict(model.named_parameters()).keys()
    assert Timm("resnet10t").no_weight_decay() == set()


def test_a_checkpoint_is_loaded_without_its_classifier(tmp_path):
    source = timm.create_model("resnet10t")
    path = tmp_path / "weights.pt"
    torch.save(source.state_dict(), path)
    loaded = Timm("resnet10t", checkpoint_path=str(path)).model.state_dict()
    assert "fc.weight" not in loaded
    for name, tensor in loaded.items():
        torch.testing.assert_close(tensor, source.state_dict()[name])


def test_a_checkpoint_that_does_not_fit_or_is_not_plain_weights_is_refused(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save(timm.create_model("resnet18").state_dict(), path)
    with pytest.raises(
        ValueError, match=r"1 is of another shape \(conv1\.weight \(64, 3, 7, 7\) for"
    ):
        Timm("resnet18", stem="cifar", checkpoint_path=str(path))
    torch.save({"state_dict": torch.nn.Linear(1, 1)}, path)
    with pytest.raises(ValueError, match=r"holds more than weights: .*\(weights_only=True blocked"):
        Timm("resnet18", checkpoint_path=str(path))
    for name, held in (("a.pt", "<html>not found"), ("a.safetensors", "<html>"), ("b.pt", "")):
        (tmp_path / name).write_text(held)
        with pytest.raises(
            ValueError, match=rf"{name}' is damaged, or holds more than weights: it must"
        ):
            Timm("resnet18", checkpoint_path=str(tmp_path / name))
    with pytest.raises(FileNotFoundError, match=r"no file of weights 'other\.pt'"):
        Timm("resnet18", checkpoint_path="other.pt")


def weights_of(path, name):
    """Weights of a model with a classifier, as ``pretrained=True`` gets them without a download."""
    source = timm.create_model(name)
    safetensors.torch.save_file(source.state_dict(), path)
    return source.state_dict(), {"pretrained_cfg_overlay": {"file": str(path)}}


@pytest.mark.parametrize("name", ["resnet10t", "test_vit"])
@pytest.mark.parametrize("freeze", [0, 1, "all"])
def test_pretrained_weights_are_never_drawn_again(name, freeze, tmp_path):
    source, options = weights_of(tmp_path / "weights.safetensors", name)
    loaded = Timm(name, pretrained=True, options=options, freeze=freeze).model.state_dict()
    assert loaded.keys() <= source.keys()
    for key, tensor in loaded.items():
        torch.testing.assert_close(tensor, source[key], rtol=0, atol=0)


def test_pretrained_weights_and_the_cifar_stem_exclude_each_other():
    with pytest.raises(
        ValueError, match="would leave it random: use stem='default', or a checkpoint"
    ):
        Timm("resnet18", pretrained=True, stem="cifar")


@pytest.mark.parametrize(
    ("name", "freeze", "trained"),
    [
        ("resnet18", 1, ["layer1", "layer2", "layer3", "layer4"]),
        ("resnet18", 3, ["layer2", "layer3", "layer4"]),
        ("test_vit", 3, ["blocks.2", "blocks.3", "blocks.4", "blocks.5", "norm"]),
        ("resnet18", "all", []),
    ],
)
def test_the_first_layers_are_frozen_with_their_batch_statistics(name, freeze, trained):
    model = Timm(name, freeze=freeze)
    assert [m for m in model.modules() if not m.training], "from the first, not only after train()"
    model.train()
    learns = {n for n, p in model.model.named_parameters() if p.requires_grad}
    first = {part for part in trained if any(n.startswith(part) for n in learns)}
    assert first == set(trained)
    assert not any(n.startswith(("conv1", "bn1", "patch_embed", "pos_embed")) for n in learns)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    size = model.model.default_cfg["input_size"][-1] if name == "test_vit" else 64
    model(torch.randn(2, 3, size, size))
    state = model.state_dict()
    changed = {key.removeprefix("model.") for key in state if not state[key].equal(before[key])}
    norms = {key.removeprefix("model.") for key in state if "running" in key or "batches" in key}
    assert changed == {key for key in norms if key.startswith(tuple(trained))}


def test_a_copy_without_gradient_still_has_its_own_batch_statistics():
    model = copy.deepcopy(Timm("resnet18", freeze=1)).requires_grad_(False).train()
    assert not model.model.bn1.training
    assert model.model.layer1[0].bn1.training


def statistics(model):
    """The running statistics of a model's batch normalizations."""
    named = ("running_mean", "running_var", "num_batches_tracked")
    return {k: v.clone() for k, v in model.state_dict().items() if k.endswith(named)}


@pytest.mark.parametrize("freeze", [0, 3])
def test_batch_statistics_are_kept_while_scales_and_shifts_learn(freeze):
    model = Timm("resnet10t", batch_statistics="kept", freeze=freeze)
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    moving = Timm("resnet10t", freeze=freeze)
    moving.load_state_dict(model.state_dict())
    x = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    expected, before = moving.eval()(x), statistics(model)
    twice = nn.Sequential(copy.deepcopy(model)).eval().train()[0]
    shared = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(model))
    for each in (model, twice, shared, shared.train()):
        assert each.training
        learn = {name for name, p in each.named_parameters() if p.requires_grad}
        assert any(name.endswith("bn2.weight") for name in learn)
        if each is not shared:  # whose forward pass needs a GPU, except in evaluation mode
            each(x).sum().backward()
            assert {name for name, p in each.named_parameters() if p.grad is not None} == learn
        torch.testing.assert_close(each(x), expected)
        torch.testing.assert_close(statistics(each), before, rtol=0, atol=0)
    moving.train()(x)
    assert not statistics(moving)["model.layer4.0.bn1.running_mean"].equal(
        before["model.layer4.0.bn1.running_mean"]
    )


def test_momentum_encoders_keep_batch_statistics_too():
    backbone = Timm("resnet10t", options={"channels": [8, 8, 16, 16]}, batch_statistics="kept")
    method = MoCoV2(hidden=8, dim=4, queue_size=8, backbone=backbone).train()
    teacher = DINO(hidden=8, bottleneck=4, dim=4, backbone=copy.deepcopy(backbone)).train()
    for each in (method, teacher):
        before = statistics(each)
        assert len(before) == 2 * len(statistics(backbone))
        each.embed([torch.randn(4, 3, 32, 32)] * 2)
        torch.testing.assert_close(statistics(each), before, rtol=0, atol=0)


def test_a_model_without_batch_normalization_has_no_statistics_to_keep():
    with pytest.raises(ValueError, match="is for batch normalizations, and 'test_vit' has none"):
        Timm("test_vit", batch_statistics="kept")
    with pytest.raises(
        ValueError, match="batch_statistics must be one of 'moving', 'kept', not 'froz"
    ):
        Timm("resnet10t", batch_statistics="frozen")


def test_blocks_with_kept_statistics_are_computed_twice():
    x = torch.randn(4, 3, 64, 64)
    model = Timm("resnet10t", batch_statistics="kept", checkpointing=True)
    before = statistics(model)
    model(x).sum().backward()
    torch.testing.assert_close(statistics(model), before, rtol=0, atol=0)


@pytest.mark.parametrize("freeze", [-1, 11])
def test_more_layers_than_there_are_cannot_be_frozen(freeze):
    with pytest.raises(ValueError, match=f"freeze must be 0 to 9, the .* or 'all', not {freeze}"):
        Timm("resnet18", freeze=freeze)


def test_patterns_of_timm_name_parameters_without_weight_decay():
    model = Timm("resnet10t")
    model.model.no_weight_decay = lambda: {"layer1.*"}
    named = model.no_weight_decay()
    assert named == {n for n, _ in model.named_parameters() if n.startswith("model.layer1.")}
    assert named


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet18", {"layers": [2, 2, 2, 10**14]}),
        ("vit_small_patch16_224", {"depth": 10**14}),
        ("convnext_atto", {"depths": [10**14] * 4}),
    ],
)
def test_a_number_of_layers_out_of_all_range_is_refused_at_once(name, options):
    (key,) = options
    with pytest.raises(
        ValueError, match=rf"^options\['{key}'\] must be at most 1024, not 10{{14}}$"
    ):
        Timm(name, options=options)
