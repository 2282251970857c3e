"""Digits on gratings: the columns are what is drawn."""

from __future__ import annotations

import math

import pytest
import torch

from ccl_plugins.datasets import ColorDigits, GratingDigits
from ccl_plugins.datasets.grating_digits import wave


def of(n=1, angle=0.0, phase=0.0, period=5.0, size=20):
    return wave(torch.full((n,), angle), torch.full((n,), phase), period, size)[0]


@pytest.mark.parametrize("angle", [0.0, 0.4, math.pi / 2, 2.0])
def test_a_wave_is_the_sine_of_the_way_along_its_angle(angle):
    found = of(angle=angle, phase=0.3, period=7.0)
    for y, x in ((0, 0), (3, 11), (19, 4)):
        way = x * math.cos(angle) + y * math.sin(angle)
        assert float(found[y, x]) == pytest.approx(math.sin(2 * math.pi * way / 7 + 0.3), abs=1e-4)


def test_the_angle_of_each_image_is_the_direction_in_which_its_ground_changes():
    """By the image's own frequencies: the largest one but the constant lies at twice the angle."""
    split = GratingDigits(contrast=0.4, period=4.0)("test")
    images = torch.stack([split[i][0][0] for i in range(40)]).double()
    power = torch.fft.fft2(images - images.mean((1, 2), keepdim=True)).abs()
    line = torch.fft.fftfreq(32, dtype=torch.float64)
    radius = (line[:, None].square() + line.square()).sqrt()
    power *= (radius > 0.17) & (radius < 0.33)  # near one in four pixels
    down, across = (line[i] for i in torch.unravel_index(power.flatten(1).argmax(1), (32, 32)))
    turned = 2 * torch.atan2(down, across)
    cosine, sine = split.metadata["angle"][:40].double().T
    near = cosine * turned.cos() + sine * turned.sin()
    assert (near > 0.9).double().mean() > 0.85


def test_digits_split_and_weak_labels_are_those_of_color_digits():
    for split in ("train", "test"):
        ours, other = GratingDigits(seed=3)(split), ColorDigits(seed=3)(split)
        for name in ("label", "holes", "ink", "slant", "width", "side", "balance"):
            assert torch.equal(ours.metadata[name], other.metadata[name])
        assert len(ours) == len(other)


def test_without_contrast_grounds_are_even_and_strokes_as_on_color():
    image = GratingDigits(contrast=0.0)("test")[0][0]
    assert image.shape == (3, 32, 32)
    assert int(image.max()) == round(255 * 0.6)
    assert torch.equal(image[0], image[1])


def test_angles_are_even_and_tell_nothing_of_the_digit():
    split = GratingDigits()("train")
    angle, label = split.metadata["angle"], split.metadata["label"]
    assert torch.allclose(angle.square().sum(1), torch.ones(len(angle)))
    assert float(angle.mean(0).norm()) < 4 / math.sqrt(len(angle))
    for digit in range(10):
        some = angle[label == digit]
        assert float(some.mean(0).norm()) < 4 / math.sqrt(len(some))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"contrast": 0.5}, "contrast must be from 0 to 0.4, .*, not 0.5"),
        ({"period": 1.5}, "period must be 2 pixels or more, not 1.5"),
    ],
)
def test_what_is_out_of_range_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        GratingDigits(**given)
