"""What is seen of images once they are decoded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from ccl_plugins.files.looks import Looks, look

NOISE = np.random.default_rng(0).integers(0, 200, (8, 6, 3)).astype(np.uint8)


def test_the_same_pixels_are_equal_and_others_differ():
    image = Image.fromarray(NOISE)
    assert look(image) == look(image.copy())
    assert look(image).shape == (3, 8, 6)
    tensor = torch.from_numpy(NOISE).permute(2, 0, 1)
    assert look(tensor) == look(tensor.contiguous())
    assert look(tensor)[:3] == look(image)[:3]
    for other in (tensor.flip(1), tensor[:2], tensor.float(), tensor.reshape(3, 6, 8)):
        assert look(other).digest != look(tensor).digest


@pytest.mark.parametrize(
    ("pixels", "flaw"),
    [
        (np.zeros((4, 4, 3)), "black"),
        (np.full((4, 4, 3), [1, 2, 3]), "of one color"),
        (np.full((4, 4, 3), 255), "of one color"),
        (np.where(np.arange(16).reshape(4, 4, 1) < 9, 255, NOISE[:4, :4]), "saturated"),
        (np.where(np.arange(16).reshape(4, 4, 1) < 4, 255, NOISE[:4, :4]), ""),
        (NOISE, ""),
    ],
)
def test_images_that_tell_nothing_have_a_flaw(pixels, flaw):
    assert look(Image.fromarray(pixels.astype(np.uint8))).flaw == flaw


def test_what_is_no_image_is_not_looked_at():
    assert look(torch.zeros(5)) is None
    assert look("a.png") is None


def test_numbers_of_any_type_are_looked_at():
    for kind in (torch.bfloat16, torch.float32, torch.int64, torch.bool):
        assert look(torch.ones(1, 2, 2, dtype=kind)).flaw == "of one color"
    assert look(torch.zeros(3, 0, 4)).flaw == "without a pixel"


def looks(images: list[torch.Tensor], rows: list[int]) -> Looks:
    made = Looks()
    for row, image in zip(rows, images, strict=True):
        made.add(row, look(image))
    return made


def test_equal_images_are_found_in_a_split_and_in_another():
    images = [torch.full((1, 2, 2), float(i)) for i in (1, 2, 1, 3, 1)]
    train = looks(images, [0, 2, 4, 6, 8])
    assert [*train.repeated()] == [(4, 0), (8, 0)]
    test = looks(images[1:4], [0, 1, 2])
    assert [*test.repeated(train)] == [(0, 2), (1, 0), (2, 6)]
    assert [*looks(images[:2], [0, 1]).repeated()] == []


def test_of_unlike_images_each_number_of_channels_and_the_ends_of_sizes_are_given():
    shapes = [(3, 4, 4), (3, 5, 5), (3, 2, 2), (5, 4, 4), (3, 9, 9), (3, 4, 4)]
    made = looks([torch.rand(shape) for shape in shapes], [*range(10, 16)])
    assert made.extremes() == [10, 12, 13, 14]
    assert made.readable().extremes() == [0, 2, 3, 4]
    assert Looks().extremes() == []
