"""Mean and standard deviation of views: those of the backbone's weights, unless others are given."""

from __future__ import annotations

import json
import warnings

import pytest
import timm
import torch
from safetensors.torch import save_file

import ccl_plugins as ccl
from ccl_plugins.backbones import Timm
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.transforms.lightly import IMAGENET_MEAN, IMAGENET_STD

CLIP = "vit_base_patch32_clip_quickgelu_224"
SIZED = {"embed_dim": 16, "depth": 1, "num_heads": 2, "img_size": 32}


def compose(transform="simclr", **backbone):
    return Composition(
        dataset="color_digits",
        transform=ccl.transform(transform, size=32) if isinstance(transform, str) else transform,
        backbone=ccl.backbone("timm", **{"name": CLIP, "options": SIZED, **backbone}),
        objective="infonce",
    )


def of(pipeline):
    """Mean and standard deviation, in the record and in the built transform."""
    record = pipeline.to_dict()["transform"]
    record = record.get("of", {}).get("image", record)
    built = getattr(pipeline.transform, "of", {}).get("image", pipeline.transform)
    for name in ("mean", "std"):
        torch.testing.assert_close(torch.tensor(record[name]), getattr(built, name).flatten())
    return tuple(record["mean"]), tuple(record["std"])


def of_timm(name):
    config = timm.get_pretrained_cfg(name)
    return tuple(config.mean), tuple(config.std)


@pytest.mark.parametrize("transform", ["simclr", "moco_v2", "byol", "multi"])
def test_views_are_normalized_for_the_weights_and_the_record_says_how(transform):
    assert of(compose(transform, pretrained=True)) == of_timm(CLIP)
    assert of_timm(CLIP) != (IMAGENET_MEAN, IMAGENET_STD)


def test_the_image_of_several_modalities_is_too():
    pipeline = Composition(
        dataset=ccl.dataset("color_digits", captions=True),
        transform={"image": {"use": "simclr", "size": 32}, "text": "tokens"},
        method={"use": "dual", "towers": {"text": "text_transformer"}},
        backbone=ccl.backbone("timm", name=CLIP, options=SIZED, pretrained=True),
        objective="infonce",
    )
    assert of(pipeline) == of_timm(CLIP)


def test_without_weights_they_are_those_of_imagenet():
    assert of(compose()) == (IMAGENET_MEAN, IMAGENET_STD)


def test_a_choice_that_is_used_twice_is_not_changed():
    transform = ccl.transform("simclr", size=32)
    compose(transform, pretrained=True)
    assert transform.params["mean"] is None
    assert of(compose(transform)) == (IMAGENET_MEAN, IMAGENET_STD)


def test_a_record_is_read_as_it_was_written():
    first = compose(pretrained=True)
    assert Composition.from_dict(json.loads(first.to_json())) == first


def test_numbers_of_others_are_said_with_the_setting():
    given = ccl.transform("simclr", size=32, mean=IMAGENET_MEAN, std=IMAGENET_STD)
    message = (
        r"images with mean \[0\.4815, 0\.4578, 0\.4082\] and std \[0\.2686, 0\.2613, 0\.2758\], and the"
        r" views have mean \[0\.485, 0\.456, 0\.406\] and .*: leave both out of the transform, or give it"
        r" mean = \[0\.4815, 0\.4578, 0\.4082\], std ="
    )
    with pytest.warns(UserWarning, match=message):
        assert of(compose(given, pretrained=True)) == (IMAGENET_MEAN, IMAGENET_STD)


@pytest.mark.parametrize(
    ("given", "backbone"),
    [
        ({"mean": IMAGENET_MEAN}, {}),  # no weights
        ({"mean": (0.4815, 0.4578, 0.4082), "std": (0.27, 0.26, 0.276)}, {"pretrained": True}),
        (
            {"mean": (0.5,) * 5, "std": (0.2,) * 5, "jitter": 0.0, "gray": 0.0, "blur": 0.0},
            {"pretrained": True, "options": {**SIZED, "in_chans": 5}},
        ),
    ],
)
def test_what_goes_together_is_not_mentioned(given, backbone):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compose(ccl.transform("simclr", size=32, **given), **backbone)


@pytest.mark.parametrize(
    ("parameters", "known"),
    [
        ({"name": "vit_base_patch16_siglip_224", "pretrained": True}, ((0.5,) * 3, (0.5,) * 3)),
        ({"name": CLIP, "checkpoint_path": "w.safetensors"}, None),
        ({"name": f"{CLIP}.openai", "checkpoint_path": "w.safetensors"}, of_timm(CLIP)),
        ({"name": "hf-hub:timm/resnet18.a1_in1k", "pretrained": True}, None),
        (
            {
                "name": CLIP,
                "pretrained": True,
                "options": {"pretrained_cfg_overlay": {"mean": (0.1,) * 3}},
            },
            ((0.1,) * 3, of_timm(CLIP)[1]),
        ),
    ],
)
def test_what_is_known_of_weights(parameters, known):
    usual = {"pretrained": False, "options": None, "checkpoint_path": None}
    assert Timm.image_statistics({**usual, **parameters}) == known


def test_an_exported_folder_says_what_its_weights_know(tmp_path):
    torch.manual_seed(0)
    save_file(timm.create_model("test_vit").state_dict(), tmp_path / "model.safetensors")
    config = {
        "architecture": "test_vit",
        "pretrained_cfg": {"mean": [0.1, 0.2, 0.3], "std": [0.4] * 3},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    known = (0.1, 0.2, 0.3), (0.4, 0.4, 0.4)
    file = str(tmp_path / "model.safetensors")
    assert of(compose(name="test_vit", options={}, checkpoint_path=file)) == known
    folder = {"name": f"local-dir:{tmp_path}", "options": {}}
    assert of(compose(**folder, pretrained=True)) == known
    assert of(compose(**folder)) == (IMAGENET_MEAN, IMAGENET_STD)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(
        ValueError, match=r"config\.json, which describes the weights .* is no JSON"
    ):
        compose(name="test_vit", options={}, checkpoint_path=file)
