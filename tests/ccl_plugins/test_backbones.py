from __future__ import annotations

import pytest
import timm
import torch

from ccl_plugins.backbones import LeNet5, Timm


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
    with pytest.raises(ValueError, match=r"no model 'resnett18'; did you mean resnet18,"):
        Timm("resnett18")
    with pytest.raises(ValueError, match=r"see timm.list_models"):
        Timm("nothing like it")


def test_options_reach_the_model_or_are_refused():
    model = Timm("resnet10t", options={"in_chans": 1}).eval()
    assert model(torch.randn(2, 1, 64, 64)).shape == (2, 512)
    with pytest.raises(TypeError, match=r"\['in_chanels'\]; ResNet takes .*in_chans"):
        Timm("resnet10t", options={"in_chanels": 1})
    with pytest.raises(ValueError, match="num_classes"):
        Timm("resnet10t", options={"num_classes": 10})
    with pytest.raises(ValueError, match="'default', 'cifar', not 'small'"):
        Timm("resnet10t", stem="small")
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
    with pytest.raises(RuntimeError, match=r"conv1\.weight"):
        Timm("resnet18", stem="cifar", checkpoint_path=str(path))
    torch.save({"state_dict": torch.nn.Linear(1, 1)}, path)
    with pytest.raises(RuntimeError, match="weights_only"):
        Timm("resnet18", checkpoint_path=str(path))


def test_lenet5_maps_32_pixels_to_84_features():
    model = LeNet5()
    assert model(torch.randn(4, 3, 32, 32)).shape == (4, model.num_features) == (4, 84)
    assert LeNet5(in_channels=1)(torch.randn(4, 1, 32, 32)).shape == (4, 84)
    # Filters and two numbers for each normalised channel; matrices with their biases.
    expected = 25 * (3 * 6 + 6 * 16) + 2 * (6 + 16) + 401 * 120 + 121 * 84
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (2, 1, 32, 32), (3, 32, 32)])
def test_lenet5_quotes_images_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"\(n, 3, 32, 32\), not \(\d, "):
        LeNet5()(torch.randn(shape))


def test_lenet5_needs_a_channel():
    with pytest.raises(ValueError, match="in_channels"):
        LeNet5(in_channels=0)


def test_every_weight_of_lenet5_gets_a_gradient():
    model = LeNet5()
    model(torch.randn(8, 3, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
