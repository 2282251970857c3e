"""Drawn shapes: the columns are what is drawn."""

from __future__ import annotations

import math

import pytest
import torch

from ccl_plugins.datasets import Sprites
from ccl_plugins.datasets.sprites import DARKEST, SCALES, SHAPES, draw

AREAS = {"triangle": 1.02, "ell": 0.9 + 0.35, "tee": 0.8 + 0.65}
"""Of each shape of half side 1; the ell's and the tee's are of two boxes, less what both cover."""


def one(shape=0, scale=0.5, turn=0.0, place=(0.0, 0.0), color=(1.0, 1.0, 1.0), size=128):
    angle = torch.tensor([[math.cos(turn), math.sin(turn)]])
    given = (torch.tensor([shape]), torch.tensor([scale]), angle, torch.tensor([place]))
    return draw(*given, torch.tensor([color]), size=size)[0]


def ink(image):
    """The part of an image that a white shape covers, in square half sides."""
    return float(image[0].double().sum() / 255 * 4 / image[0].numel())


def center(image):
    weight = image.double().sum(0)
    line = (2 * torch.arange(len(weight)).double() + 1) / len(weight) - 1
    return torch.stack([(weight.sum(0) * line).sum(), (weight.sum(1) * line).sum()]) / weight.sum()


@pytest.mark.parametrize("shape", range(3), ids=SHAPES)
def test_a_shape_has_its_area_at_any_scale_and_angle(shape):
    for scale in (0.3, 0.6):
        for turn in (0.0, 0.7, 2.0):
            covered = ink(one(shape, scale, turn))
            assert covered == pytest.approx(AREAS[SHAPES[shape]] * scale**2, rel=0.03)


@pytest.mark.parametrize("shape", range(3), ids=SHAPES)
def test_a_shape_moves_with_its_place_and_turns_about_it(shape):
    still, moved = center(one(shape)), center(one(shape, place=(0.25, -0.125)))
    torch.testing.assert_close(
        moved - still, torch.tensor([0.25, -0.125]).double(), atol=1e-3, rtol=0
    )
    turned = center(one(shape, turn=math.pi / 2))
    torch.testing.assert_close(turned, torch.stack([-still[1], still[0]]), atol=2e-3, rtol=0)


@pytest.mark.parametrize("shape", range(3), ids=SHAPES)
def test_no_turn_but_a_whole_one_leaves_a_shape_as_it_was(shape):
    still = one(shape).int()
    assert torch.equal(still, one(shape, turn=2 * math.pi).int())
    for degrees in range(30, 331, 15):
        other = one(shape, turn=math.radians(degrees)).int()
        assert (still - other).abs().float().mean() > 3, degrees


def test_the_color_is_the_shapes_and_the_ground_is_black():
    image = one(color=(0.2, 0.6, 1.0))
    assert image[:, 64, 64].tolist() == [51, 153, 255]
    assert image[:, 0, 0].tolist() == [0, 0, 0]


def test_numbers_are_in_their_ranges_and_independent():
    split = Sprites(train=20_000)("train")
    columns = split.metadata
    low, high = SCALES
    assert low <= columns["scale"].min() < low + 0.01 < high - 0.01 < columns["scale"].max() <= high
    assert (columns["place"].abs().amax(1) + columns["scale"] <= 1 + 1e-6).all()
    torch.testing.assert_close(columns["angle"].norm(dim=1), torch.ones(20_000))
    brightest = columns["color"].amax(1)
    assert brightest.min() >= DARKEST - 1e-6
    assert brightest.max() <= 1
    wide = torch.cat(
        [columns[n].reshape(20_000, -1) for n in ("shape", "scale", "angle", "color")], dim=1
    )
    off = torch.corrcoef(wide.T.float())[:4, 4:]
    assert off.abs().max() < 0.03
    assert columns["shape"].bincount().min() > 6000


def test_images_do_not_depend_on_how_many_there_are_or_are_read():
    train, test = (Sprites(train=50, test=40, size=16)(split) for split in ("train", "test"))
    several = train.__getitems__([7, 3])
    for (image, label), index in zip(several, (7, 3), strict=True):
        assert torch.equal(image, train[index][0])
        assert label == train.metadata["label"][index]
    assert image.shape == (3, 16, 16)
    assert not torch.equal(train.metadata["scale"][:40], test.metadata["scale"])
    other = Sprites(50, 40, 16, seed=1)("train")
    assert not torch.equal(other.metadata["scale"], train.metadata["scale"])
    assert sum(1 for _ in train) == 50
