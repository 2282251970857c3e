from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from lightly.transforms.byol_transform import BYOLView1Transform, BYOLView2Transform
from lightly.transforms.moco_transform import MoCoV2Transform as TheirMoCoV2
from lightly.transforms.simclr_transform import SimCLRViewTransform
from lightly.transforms.torchvision_v2_compatibility import torchvision_transforms
from torchvision.transforms.v2 import functional as pixels

import ccl_plugins as ccl
from ccl_plugins.training.loader import Items
from ccl_plugins.transforms import (
    BYOLTransform,
    LightlyTransform,
    MoCoV2Transform,
    MultiTransform,
    SimCLRTransform,
)
from ccl_plugins.transforms.lightly import IMAGENET_MEAN, IMAGENET_STD

CROP_ONLY = {"flip": 0.0, "jitter": 0.0, "gray": 0.0, "blur": 0.0}


def image(height=40, width=48, channels=3):
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (channels, height, width), dtype=torch.uint8, generator=generator)


def seeded(function, *args):
    torch.manual_seed(0)
    np.random.seed(0)
    return function(*args)


def lightly_view(size=32, **settings):
    off = {"hf_prob": 0.0, "cj_prob": 0.0, "random_gray_scale": 0.0, "gaussian_blur": 0.0}
    return SimCLRViewTransform(input_size=size, **(off | settings))


@pytest.mark.parametrize("kind", ["pil", "tensor"])
def test_crops_equal_those_of_lightly_for_equal_seeds(kind):
    views = SimCLRTransform(size=32, min_scale=0.3, **CROP_ONLY)
    reference = lightly_view(min_scale=0.3)
    pil = pixels.to_pil_image(image())
    given = image() if kind == "tensor" else pil
    for seed in range(20):
        torch.manual_seed(seed)
        ours = views(given)
        torch.manual_seed(seed)
        # lightly's inert flips draw from torch between the views, so only the first is comparable.
        torch.testing.assert_close(ours[0], torch.as_tensor(reference(pil)))


@pytest.mark.parametrize("settings", [CROP_ONLY, {}, {"jitter": 0.0, "blur": 1.0}])
def test_pil_images_and_tensors_give_the_same_views(settings):
    views = SimCLRTransform(size=32, **settings)
    from_pil = seeded(views, pixels.to_pil_image(image()))
    from_tensor = seeded(views, image())
    torch.testing.assert_close(from_tensor, from_pil, rtol=0, atol=0)


def test_steps_are_those_of_lightly_without_the_inert_ones():
    steps = SimCLRTransform(size=32, jitter=0.5, flip=0.3, gray=0.1, blur=0.4).steps[0]
    reference = lightly_view(
        cj_prob=0.8, cj_strength=0.5, hf_prob=0.3, random_gray_scale=0.1, gaussian_blur=0.4
    )
    kept = [reference.transform.transforms[i] for i in (0, 1, 4, 5, 6)]
    assert type(kept[-1]).__name__ == "GaussianBlur"
    # Modules print their settings; lightly's blur is no module.
    assert [repr(step) for step in steps[:-1]] == [repr(step) for step in kept[:-1]]
    assert vars(steps[-1]) == vars(kept[-1])


def test_all_steps_of_lightly_in_a_row_give_its_view():
    reference = lightly_view(cj_prob=0.8, hf_prob=0.5, random_gray_scale=0.2, gaussian_blur=0.5)
    everything = reference.transform.transforms[:-2]
    views = LightlyTransform([everything], size=32, mean=IMAGENET_MEAN, std=IMAGENET_STD)
    views.steps = [everything]  # with the inert ones, so that both draw the same numbers
    given = pixels.to_pil_image(image())
    torch.testing.assert_close(seeded(views, given)[0], seeded(reference, given))


def settings_of(steps):
    """What a row of steps does; lightly's own steps are no modules, which print their settings."""
    kept = [step for step in steps if getattr(step, "p", getattr(step, "prob", 1)) > 0]
    own = [step for step in kept if not isinstance(step, torch.nn.Module)]
    return [repr(s) for s in kept if s not in own], [(type(s).__name__, vars(s)) for s in own]


def test_moco_v2_and_byol_are_the_recipes_of_lightly():
    moco, byol = MoCoV2Transform(size=32, count=3), BYOLTransform(size=32, count=3)
    first = TheirMoCoV2(input_size=32).transforms[0]
    one, two = BYOLView1Transform(input_size=32), BYOLView2Transform(input_size=32)
    for views, references in ((moco, [first] * 3), (byol, [one, two, one])):
        assert views.count == len(views(image())) == 3
        for steps, reference in zip(views.steps, references, strict=True):
            *expected, _to_tensor, _normalize = reference.transform.transforms
            assert settings_of(steps) == settings_of(expected)
    kinds = [{type(step).__name__ for step in steps} for steps in byol.steps]
    assert "RandomSolarization" not in kinds[0] | kinds[2]
    assert "RandomSolarization" in kinds[1]


def test_a_color_jitter_may_be_given_as_torchvision_has_it():
    views = MultiTransform(count=2, size=32, jitter=(0.4, 0.4, 0.4, 0.4), jitter_chance=1.0)
    jitter = torchvision_transforms.ColorJitter(0.4, 0.4, 0.4, 0.4)
    (found,) = [step for step in views.steps[1] if type(step).__name__ == "RandomApply"]
    assert found.p == 1
    assert repr(found.transforms[0]) == repr(jitter)
    assert MultiTransform(size=32, jitter=(0.0, 0.0, 0.2, 0.0)).steps
    for wrong in ((0.4, 0.4, 0.4), (0.4, 0.4, 0.4, 0.6), (-0.1, 0.4, 0.4, 0.1)):
        with pytest.raises(ValueError, match="jitter must be a strength, or four numbers"):
            MultiTransform(jitter=wrong)


def test_a_view_does_not_depend_on_how_many_others_there_are():
    def drawn(count):
        return Items([(image(),)], BYOLTransform(size=32, count=count), seed=0)[0, 0, 0][0]

    torch.testing.assert_close(drawn(4)[:2], drawn(2), rtol=0, atol=0)


def test_asymmetric_views_are_rebuilt_from_their_record():
    choice = ccl.transform("byol", count=3, size=32, blur=[0.9, 0.3], solarize=[0.1, 0.4])
    record = json.loads(json.dumps(choice.record()))
    assert {"count": 3, "blur": [0.9, 0.3], "solarize": [0.1, 0.4]}.items() <= record.items()
    rebuilt = ccl.create("transform", "byol", **{k: v for k, v in record.items() if k != "use"})
    assert [settings_of(s) for s in rebuilt.steps] == [settings_of(s) for s in choice.build().steps]


def test_views_are_independent_draws():
    views = MultiTransform(count=5, size=32, **CROP_ONLY)
    drawn = views(image())
    assert views.count == len(drawn) == 5
    assert all(view.shape == (3, 32, 32) and view.dtype == torch.float32 for view in drawn)
    assert not any(torch.equal(drawn[0], other) for other in drawn[1:])
    two = SimCLRTransform(size=32, **CROP_ONLY)
    torch.testing.assert_close(
        torch.stack(seeded(views, image())[:2]), torch.stack(seeded(two, image()))
    )


def test_plain_only_normalizes_an_image_of_the_right_size():
    views = SimCLRTransform(size=32)
    given = image(32, 32)
    mean, std = (torch.tensor(x)[:, None, None] for x in (IMAGENET_MEAN, IMAGENET_STD))
    expected = (given / 255 - mean) / std
    torch.testing.assert_close(views.plain(given), expected)
    torch.testing.assert_close(views.plain(pixels.to_pil_image(given)), expected)
    batch = torch.stack([given, given])
    torch.testing.assert_close(views.plain(batch), torch.stack([expected, expected]))


def test_plain_resizes_the_shorter_side_and_takes_the_center():
    views = SimCLRTransform(size=16, mean=(0.0,) * 3, std=(1.0,) * 3)
    wide = torch.zeros(3, 32, 96, dtype=torch.uint8)
    wide[:, :, 32:64] = 200
    assert views.plain(wide).shape == (3, 16, 16)
    torch.testing.assert_close(views.plain(wide)[:, :, 2:-2], torch.full((3, 16, 12), 200 / 255))
    assert views.plain(torch.stack([wide] * 2)).shape == (2, 3, 16, 16)


def test_gray_images_are_repeated_to_three_channels():
    gray = image(32, 32, channels=1)
    views = SimCLRTransform(size=32)
    for given in (gray, pixels.to_pil_image(gray)):
        torch.testing.assert_close(views.plain(given), views.plain(gray.expand(3, -1, -1)))
        assert seeded(views, given)[0].shape == (3, 32, 32)


@pytest.mark.parametrize("settings", [CROP_ONLY, {"jitter": 1.0, "gray": 1.0, "blur": 1.0}])
def test_gray_images_stay_gray_where_the_mean_has_one_channel(settings):
    views = SimCLRTransform(size=32, mean=(0.5,), std=(0.5,), **settings)
    gray = image(32, 32, channels=1)
    assert [view.shape for view in views(gray)] == [(1, 32, 32)] * 2
    assert views(pixels.to_pil_image(gray))[0].shape == (1, 32, 32)


def test_other_numbers_of_channels_can_be_cropped_flipped_and_jittered_alone():
    five = {"mean": (0.5,) * 5, "std": (0.5,) * 5}
    views = SimCLRTransform(size=16, **five, **{**CROP_ONLY, "min_scale": 1.0, "flip": 1.0})
    given = torch.rand(5, 16, 16).mul(255).byte()
    for view in views(given):
        torch.testing.assert_close(view, views.plain(given.flip(-1)))
    with pytest.raises(ValueError, match="5 channels can only be cropped, flipped and jittered"):
        SimCLRTransform(size=16, **five)
    with pytest.raises(ValueError, match="std has 5 numbers: give mean the same number"):
        SimCLRTransform(size=16, std=five["std"], **CROP_ONLY)


@pytest.mark.parametrize("batched", [False, True])
def test_each_of_many_channels_has_a_brightness_and_a_contrast_of_its_own(batched):
    zero = {"mean": (0.0,) * 5, "std": (1.0,) * 5}
    still = {"min_scale": 1.0, "flip": 0.0, "gray": 0.0, "blur": 0.0}
    views = MultiTransform(
        size=16, count=1, jitter=0.25, jitter_chance=1.0, batched=batched, **still, **zero
    )
    given = (torch.linspace(60, 120, 256).reshape(16, 16)).byte().expand(64, 5, 16, 16)
    if batched:
        found = views.batch_transforms[0](given, torch.arange(64))
    else:
        found = torch.stack([views(each)[0] for each in given])
    before = given.float() / 255
    brighter = found.mean((2, 3)) / before.mean((2, 3))
    sharper = found.std((2, 3)) / before.std((2, 3)) / brighter
    for factor in (brighter, sharper):
        assert factor.min() > 0.79
        assert factor.max() < 1.21
        assert factor.std(0).min() > 0.08  # of one channel, among images
        assert factor.std(1).min() > 0.01  # of one image, among channels
        assert factor.mean() == pytest.approx(1, abs=0.03)
    assert torch.corrcoef(torch.stack([brighter.flatten(), sharper.flatten()]))[0, 1].abs() < 0.2


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (image(channels=2), ValueError, "2 channels, but mean and std have 3"),
        (image()[0], ValueError, r"not \(40, 48\)"),
        (image()[None], ValueError, r"an image must be \(channels, h, w\)"),
        (image().float(), TypeError, "torch.float32"),
        (image().numpy(), TypeError, "ndarray"),
        (pixels.to_pil_image(image()).convert("RGBA"), ValueError, "not RGBA"),
    ],
)
def test_an_image_that_does_not_fit_is_quoted(given, error, words):
    with pytest.raises(error, match=words):
        SimCLRTransform(size=32)(given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"jitter": 3.0},
        {"std": (1.0, 0.0, 1.0)},
        {"mean": (0.5,)},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    most = {"jitter": 5.1} if wrong.get("jitter", 0) > 0 else {}
    for views in (SimCLRTransform, MultiTransform, MoCoV2Transform, BYOLTransform):
        halved = most if views in (MoCoV2Transform, BYOLTransform) else {}
        with pytest.raises(ValueError, match=next(iter(wrong))):
            views(**wrong | halved)


def test_no_views_and_half_a_pair_of_probabilities_are_refused():
    for views in (MultiTransform, MoCoV2Transform, BYOLTransform):
        with pytest.raises(ValueError, match="count"):
            views(count=0)
    with pytest.raises(ValueError, match=r"solarize must be two probabilities, not \(0.2,\)"):
        BYOLTransform(solarize=(0.2,))
    with pytest.raises(ValueError, match="solarize must be a probability, 0 to 1, not 2"):
        BYOLTransform(solarize=(0.0, 2))
