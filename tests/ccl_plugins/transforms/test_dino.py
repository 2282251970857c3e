"""DINO's views are lightly's, of two sizes, and go through the loader and the methods."""

from __future__ import annotations

import pytest
import torch
from lightly.transforms.dino_transform import DINOTransform as Theirs
from torch import nn

import ccl_plugins as ccl
from ccl_plugins.methods import Dual, MoCoV3, SimCLR
from ccl_plugins.training.loader import Batch, Items, augment, collate
from ccl_plugins.transforms import DINOTransform

SHAPES = [(3, 16, 16)] * 2 + [(3, 8, 8)] * 3


def images(n=3):
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (n, 3, 20, 24), dtype=torch.uint8, generator=generator)


def small(**settings):
    return DINOTransform(small=3, size=16, small_size=8, **settings)


def settings_of(steps):
    """What a row of steps does; lightly's own steps are no modules, which print their settings."""
    kept = [step for step in steps if getattr(step, "p", getattr(step, "prob", 1)) > 0]
    own = [step for step in kept if not isinstance(step, nn.Module)]
    return [repr(s) for s in kept if s not in own], [(type(s).__name__, vars(s)) for s in own]


def test_it_is_the_recipe_of_lightly():
    ours, theirs = DINOTransform(), Theirs()
    assert ours.count == len(theirs.transforms) == 8
    for steps, reference in zip(ours.steps, theirs.transforms, strict=True):
        *expected, _to_tensor, _normalize = reference.transform.transforms
        assert settings_of(steps) == settings_of(expected)
    kinds = [{type(step).__name__ for step in steps} for steps in ours.steps]
    assert ["RandomSolarization" in kind for kind in kinds] == [False, True] + [False] * 6


def test_views_are_of_two_sizes_and_features_of_the_large_one():
    transform = small()
    assert [tuple(view.shape) for view in transform(images()[0])] == SHAPES
    assert [(3, size, size) for size in transform.sizes] == SHAPES
    assert transform.plain(images()).shape == (3, 3, 16, 16)
    assert DINOTransform(small=0, size=16).sizes == (16, 16)


@pytest.mark.parametrize("batched", [False, True])
def test_a_batch_has_each_view_stacked(batched):
    transform = small(batched=batched)
    items = Items([(image, 0) for image in images()], transform, 0, batched)
    batch = augment(transform, collate(items.__getitems__([(0, i, i) for i in range(3)])))
    assert isinstance(batch, Batch)
    assert [tuple(view.shape) for view in batch.views] == [(3, *shape) for shape in SHAPES]


@pytest.mark.parametrize(
    "settings",
    [
        {"blur": (1.0, 0.1)},
        {"small_min_scale": 0.5},
    ],
)
def test_a_setting_out_of_range_is_named(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
        DINOTransform(**settings)


class Pooled(nn.Sequential):
    num_features = 4

    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def test_every_method_takes_views_of_two_sizes():
    views = [torch.randn(5, *shape) for shape in SHAPES]
    torch.manual_seed(0)
    methods = [
        SimCLR(8, 4, backbone=Pooled()),
        SimCLR(8, 4, joint=False, backbone=Pooled()),
        MoCoV3(8, 4, backbone=Pooled()),
        Dual(
            {"other": Pooled()},
            queue_size=8,
            backbone=Pooled(),
            modalities=["image"] * 4 + ["other"],
        ),
    ]
    for method in methods:
        method.eval()
        embedded = method.embed(views)
        for i in (0, 4 if not isinstance(method, Dual) else 3):
            torch.testing.assert_close(embedded.features[i], method.encode(views[i]))


def test_a_network_of_one_size_is_refused_before_data_is_read():
    vit = {"use": "timm", "name": "vit_tiny_patch16_224", "options": {"img_size": 32}}
    table = {
        "dataset": "color_digits",
        "method": {"use": "simclr", "hidden": 8, "dim": 4},
        "transform": {"use": "dino", "size": 32, "small_size": 16},
        "objective": "infonce",
    }
    with pytest.raises(ValueError, match=r"not of 16x16: .* dynamic_img_size = true it takes sev"):
        ccl.Pipeline.from_dict({**table, "backbone": vit})
    vit["options"]["dynamic_img_size"] = True
    ccl.Pipeline.from_dict({**table, "backbone": vit})
