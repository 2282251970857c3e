"""The channels of the views and those that a backbone takes, compared when a pipeline is composed."""

from __future__ import annotations

from typing import Any

import pytest

import ccl_plugins as ccl

FIVE = {"mean": [0.1] * 5, "std": [0.2] * 5, "jitter": 0.0, "gray": 0.0, "blur": 0.0}


def compose(backbone: Any, **transform: Any) -> ccl.Pipeline:
    return ccl.Pipeline(
        dataset="color_digits",
        backbone=backbone,
        objective="infonce",
        transform=ccl.transform("simclr", size=32, **transform),
    )


@pytest.mark.parametrize(
    ("name", "options", "transform", "message"),
    [
        ("resnet10t", {}, FIVE, r"5 channels, .*'resnet10t' takes 3: .* {in_chans = 5}"),
        ("resnet10t", {"in_chans": 5}, {}, r"3 channels, .* takes 5: .* a std of 5 numbers each"),
        ("resnet10t", {"in_chans": 4}, FIVE, r"5 channels, .* takes 4"),
        ("hf-hub:timm/resnet10t", {"in_chans": 4}, FIVE, r"5 channels, .* takes 4"),
        ("resnet10t", {}, {**FIVE, "std": None}, r"mean has 5 numbers: give std as many"),
    ],
)
def test_other_channels_are_refused_with_the_settings_of_both(name, options, transform, message):
    with pytest.raises(ValueError, match=message):
        compose(ccl.backbone("timm", name=name, options=options), **transform)


@pytest.mark.parametrize("name", ["resnet10t", "hf-hub:timm/resnet10t"])
def test_equal_channels_pass(name):
    compose(ccl.backbone("timm", name=name, options={"in_chans": 5}), **FIVE)
    compose(ccl.backbone("timm", name=name))
