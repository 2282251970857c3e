"""LoRA on backbones of timm: what learns, what is kept, what is written, what is refused."""

from __future__ import annotations

import copy
import runpy
import subprocess
import sys
from typing import Any

import pytest
import safetensors.torch
import timm
import torch
from support.training_fakes import FakeDataset

import ccl_plugins as ccl
from ccl_plugins.backbones import LoRA, Timm
from ccl_plugins.experiments.export import export
from ccl_plugins.methods import BYOL, MoCoV2, MoCoV3, SimCLR
from ccl_plugins.sharing.folder import write_folder
from ccl_plugins.training.parameter_groups import parameter_groups

peft = pytest.importorskip("peft", reason="the extra 'lora' is not installed")

NAME = "vit_tiny_patch16_224"
SMALL = {"img_size": 8, "patch_size": 4, "embed_dim": 32, "depth": 2, "num_heads": 2}
QKV = {"rank": 4, "on": "qkv"}
ADAPTERS = [
    f"model.blocks.{i}.attn.qkv.lora_{x}.default.weight" for i in (0, 1) for x in ("A", "B")
]


def vit(lora: Any = QKV, **more: Any) -> Timm:
    torch.manual_seed(0)
    return Timm(NAME, options=SMALL, lora=lora, **more)


def moved(backbone: Timm) -> Timm:
    """With matrices B that are not 0."""
    torch.manual_seed(1)
    for name, parameter in backbone.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    return backbone


def learning(model: torch.nn.Module) -> list[str]:
    return [name for name, p in model.named_parameters() if p.requires_grad]


IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_only_adapters_learn_and_at_first_the_features_are_the_old_ones():
    plain, adapted = vit(None), vit()
    assert learning(adapted) == ADAPTERS
    assert torch.equal(adapted(IMAGES), plain(IMAGES))
    adapted(IMAGES).sum().backward()
    assert [n for n, p in adapted.named_parameters() if p.grad is not None] == ADAPTERS
    assert not torch.equal(moved(adapted)(IMAGES), plain(IMAGES))


def test_the_gradient_is_that_of_the_product_added_to_the_weight():
    adapted, plain = moved(vit({**QKV, "alpha": 12.0})).double(), vit(None).double()
    (adapted(IMAGES.double()) ** 2).sum().backward()
    weight = plain.model.blocks[0].attn.qkv.weight
    layers = [each.attn.qkv for each in adapted.model.blocks]
    with torch.no_grad():
        for block, layer in zip(plain.model.blocks, layers, strict=True):
            a, b = layer.lora_A.default.weight, layer.lora_B.default.weight
            block.attn.qkv.weight += 3 * b @ a
    (plain(IMAGES.double()) ** 2).sum().backward()
    a, b = layers[0].lora_A.default.weight, layers[0].lora_B.default.weight
    torch.testing.assert_close(a.grad, 3 * b.T @ weight.grad)
    torch.testing.assert_close(b.grad, 3 * weight.grad @ a.T)


@pytest.mark.parametrize(
    ("on", "adapted"),
    [
        ("fc1", ["blocks.0.mlp.fc1", "blocks.1.mlp.fc1"]),
        ("blocks.1.*.fc*", ["blocks.1.mlp.fc1", "blocks.1.mlp.fc2"]),
        (["patch_embed.proj", "blocks.0.attn.qkv"], ["patch_embed.proj", "blocks.0.attn.qkv"]),
    ],
)
def test_layers_are_named_by_ends_patterns_and_lists(on, adapted):
    model = moved(vit({"rank": 2, "on": on}))
    found = {name.partition(".lora_")[0].removeprefix("model.") for name in learning(model)}
    assert found == {*adapted}
    torch.testing.assert_close(model.eval().plain()(IMAGES), model(IMAGES))


def test_norms_learn_if_asked_and_frozen_layers_get_nothing():
    model = vit(LoRA(4, "qkv", norms=True), freeze=2)
    norms = [f"model.{n}.{x}" for n in ("blocks.1.norm1", "norm") for x in ("weight", "bias")]
    second = [f"model.blocks.1.norm2.{x}" for x in ("weight", "bias")]
    assert {*learning(model)} == {*ADAPTERS[2:], *norms, *second}


def test_batch_statistics_stay_and_dropout_is_off_in_what_is_frozen():
    options = {"channels": (8, 8, 16, 16)}
    model = Timm("resnet10t", options=options, lora={"rank": 2, "on": "layer4.*.conv2"})
    before = {k: v.clone() for k, v in model.state_dict().items()}
    model.train()(torch.randn(2, 3, 32, 32))
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert model.layer_numbers().keys() == dict(model.named_parameters()).keys()


def test_layer_decay_reaches_the_adapters_of_each_layer():
    method = SimCLR(hidden=8, dim=4, backbone=vit())
    groups = parameter_groups(method, torch.nn.Identity(), layer_decay=0.5)
    names = {id(p): n for n, p in method.named_parameters()}
    found = {names[id(p)]: group["lr_scale"] for group in groups for p in group["params"]}
    rates = {n.removeprefix("backbone."): rate for n, rate in found.items() if "lora_" in n}
    # The norm after the blocks is of the last one's layer; heads are one above.
    assert rates == dict(zip(ADAPTERS, (0.25, 0.25, 0.5, 0.5), strict=True))
    assert {n for n in found if "lora_" not in n} == {
        n for n, _ in method.named_parameters() if not n.startswith("backbone.")
    }


@pytest.mark.parametrize(
    ("method", "more"), [(MoCoV2, {"queue_size": 8}), (MoCoV3, {}), (BYOL, {})]
)
def test_a_momentum_encoder_follows_the_adapters_alone(method, more):
    made = method(hidden=8, dim=4, momentum=0.5, backbone=vit(), **more)
    copied = made.key_encoder.backbone
    torch.testing.assert_close(copied(IMAGES), made.backbone(IMAGES))
    before = copy.deepcopy(copied.state_dict())
    made.after_step(0, 2)
    torch.testing.assert_close(copied.state_dict(), before)
    moved(made.backbone)
    made.after_step(0, 2)
    now = copied.state_dict()
    changed = {name for name in now if not torch.allclose(now[name], before[name])}
    assert changed == {name for name in ADAPTERS if "lora_B" in name}
    assert not learning(copied)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"on": "qvk"}, r"'qvk', which names no linear layer .*: it has proj, qkv, fc1, fc2$"),
        ({"on": ["qkv", "norm"]}, r"on of lora is 'norm', which names no linear layer"),
        ({"on": "kv"}, r"on of lora is 'kv', which names no"),
        ({"on": []}, r"must be names of layers, such as 'qkv', not \[\]"),
        ({"on": 3}, r"must be names of layers, such as 'qkv', not 3"),
        ({"rank": 0}, "rank of lora must be 1 or more, not 0"),
        ({"rank": 2.5}, "rank of lora must be a whole number, not 2.5"),
        (
            {"rank": 33},
            r"must be 1 to 32, the smaller side of .*blocks\.0\.attn\.qkv of .*, not 33",
        ),
        ({"alpha": 0.0}, "alpha of lora must be a finite number above 0, not 0"),
        ({"norms": 1}, "norms of lora must be true or false, not 1"),
        (
            {"ranks": 4},
            "lora takes rank and on, and optionally alpha and norms, not 'rank', 'on', 'ranks'",
        ),
    ],
)
def test_lora_that_does_not_fit_is_refused_in_a_sentence(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        vit({**QKV, **changes})


def test_lora_that_is_no_table_or_leaves_out_a_key_is_refused():
    with pytest.raises(
        TypeError, match=r'must be a table, such as \{rank = 16, on = "qkv"\}, not 16'
    ):
        vit(16)
    with pytest.raises(TypeError, match=r"lora takes rank and on, .*, not 'rank'$"):
        vit({"rank": 4})


@pytest.mark.parametrize(("freeze", "on"), [("all", "qkv"), (2, "blocks.0.attn.qkv")])
def test_layers_that_are_frozen_cannot_be_adapted(freeze, on):
    with pytest.raises(ValueError, match="that freeze excludes: freeze fewer layers, or none"):
        vit({"rank": 4, "on": on}, freeze=freeze)


def test_a_layer_whose_weights_are_read_without_it_is_refused():
    options = {"embed_dim": 32, "depth": 1, "num_heads": 2, "img_size": 32}
    with pytest.raises(
        ValueError, match=r"cannot adapt blocks\.0\.attn\.qkv of .*1 of [0-9]+ layers"
    ):
        Timm("beitv2_base_patch16_224", options=options, lora=QKV)
    Timm("beitv2_base_patch16_224", options=options, lora={"rank": 4, "on": "proj"})


def test_without_peft_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r'is not installed: pip install "ccl-plugins\[lora\]"'):
        vit()


def pipeline(**changes: Any) -> Any:
    given = {"name": NAME, "options": SMALL, "lora": {**QKV, "norms": True}, **changes}
    return ccl.Pipeline(
        dataset=FakeDataset(16),
        backbone=ccl.backbone("timm", **given),
        method=ccl.method("moco_v2", hidden=16, dim=8, queue_size=16, momentum=0.5),
        transform=ccl.transform("simclr", size=8, blur=0.0),
        objective="infonce",
        evaluate=[{"use": "knn", "k": 3}],
    )


@pytest.mark.parametrize(
    "name",
    [
        "vit_small_patch14_dinov2",
        "vit_small_patch14_reg4_dinov2",
        "vit_small_patch16_dinov3",
        "vit_base_patch16_siglip_224",
        "vit_base_patch16_clip_224",
    ],
)
def test_the_towers_of_foundation_models_take_adapters_and_lose_them_in_plain_weights(name):
    torch.manual_seed(0)
    options = {"embed_dim": 16, "depth": 2, "num_heads": 2, "in_chans": 5, "img_size": 112}
    lora = {"rank": 2, "on": ["qkv", "patch_embed.proj"]}
    backbone = Timm(name, options=options, lora=lora, checkpointing=True)
    x = torch.randn(2, 5, 112, 112)
    backbone(x).sum().backward()
    learn = {n: p for n, p in backbone.named_parameters() if p.requires_grad}
    assert len(learn) == 6
    assert all(parameter.grad is not None for parameter in learn.values())
    moved(backbone).eval()
    plain = backbone.plain().eval()
    assert {*plain.state_dict()} == {*Timm(name, options=options).state_dict()}
    torch.testing.assert_close(plain(x), backbone(x), rtol=1e-4, atol=1e-5)


FIT = {"batch_size": 8, "workers": 0, "schedule": "constant", "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return pipeline().fit(out=folder, epochs=4, layer_decay=0.5, **FIT)


def test_a_trained_run_is_read_back_and_exported_merged_and_as_adapters(run, tmp_path):
    folder = export(run, tmp_path)
    x = IMAGES
    with torch.no_grad():
        expected = run.backbone.eval()(x)
        by_folder = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
        assert {*by_folder.state_dict()} == {*vit(None).model.state_dict()}
        torch.testing.assert_close(by_folder(x), expected, rtol=1e-6, atol=1e-6)
        # The weights before training, from which adapters and norms lead to the same features.
        start = Timm(NAME, options=SMALL).model
        frozen = {
            k.replace(".base_layer", ""): v
            for k, v in run.backbone.model.state_dict().items()
            if ".lora_" not in k and "norm" not in k
        }
        assert not start.load_state_dict(frozen, strict=False).unexpected_keys
        assert (start.eval()(x) - expected).abs().max() > 1e-3
        adapted = peft.PeftModel.from_pretrained(start, folder).eval()
        torch.testing.assert_close(adapted(x), expected, rtol=1e-6, atol=1e-6)
    kept = safetensors.torch.load_file(folder / "adapter_model.safetensors")
    whole = safetensors.torch.load_file(folder / "model.safetensors")
    assert sum(t.numel() for t in kept.values()) < sum(t.numel() for t in whole.values()) / 10
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder, capture_output=True)
    assert b"adapter_model.safetensors: OK\nadapter_config.json: OK\n" in done.stdout


def test_a_program_of_torch_holds_the_adapters(run, tmp_path):
    folder = export(run, tmp_path, format="torch")
    program = torch.export.load(folder / "backbone.pt2").module()
    with torch.no_grad():
        torch.testing.assert_close(program(IMAGES), run.backbone.eval()(IMAGES))


def test_what_is_shared_of_a_run_has_the_adapters_in_its_weights(run, tmp_path):
    write_folder(run, tmp_path / "shared")
    assert (tmp_path / "shared" / "adapter_model.safetensors").exists()
    model = runpy.run_path(str(tmp_path / "shared" / "load.py"))["load"]()
    with torch.no_grad():
        expected = run.backbone.eval()(IMAGES)
        torch.testing.assert_close(model(IMAGES), expected, rtol=1e-6, atol=1e-6)


def test_weights_of_a_run_load_in_a_pipeline_of_the_same_parts(run):
    saved = torch.load(run.path / "weights.pt", weights_only=True)["method"]
    method = pipeline().build().method
    method.load_state_dict(saved)
    with torch.no_grad():
        expected = run.backbone.eval()(IMAGES)
        torch.testing.assert_close(method.backbone.eval()(IMAGES), expected, rtol=0, atol=0)


def test_a_resumed_run_equals_an_unbroken_one(run, tmp_path):
    pipeline().fit(out=tmp_path, epochs=2, layer_decay=0.5, **FIT)
    longer = pipeline().fit(out=tmp_path, epochs=4, layer_decay=0.5, resume=True, **FIT)
    first, second = (
        torch.load(each.path / "weights.pt", weights_only=True) for each in (run, longer)
    )
    torch.testing.assert_close(first["method"], second["method"], rtol=0, atol=0)


@pytest.mark.parametrize("lora", [None, {**QKV, "norms": True}])
def test_checkpointing_gives_the_same_gradients_from_two_passes(lora):
    plain, twice = (moved(vit(lora, checkpointing=on)).train() for on in (False, True))
    passes = []
    twice.model.blocks[0].register_forward_pre_hook(lambda *_: passes.append(1))
    for model in (plain, twice):
        (model(IMAGES) ** 2).sum().backward()
    assert len(passes) == 2
    for (name, one), two in zip(plain.named_parameters(), twice.parameters(), strict=True):
        assert one.requires_grad == (one.grad is not None), name
        torch.testing.assert_close(one.grad, two.grad, rtol=0, atol=0)


def test_checkpointing_that_the_model_cannot_have_is_refused():
    with pytest.raises(ValueError, match="timm has no gradient checkpointing for 'convit_tiny'"):
        Timm("convit_tiny", checkpointing=True)
    with pytest.raises(ValueError, match=r"14 batch normalizations would count every batch twice"):
        Timm("resnet10t", checkpointing=True)
    Timm("resnet10t", checkpointing=True, freeze="all")
