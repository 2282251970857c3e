"""Some images say how all are read."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from ccl_plugins.start.pixels import look_at


@pytest.fixture
def save(tmp_path):
    """Write images, given as lists of pages, and return their paths."""

    def write(*images, ending="tif"):
        paths = []
        for i, pages in enumerate(images):
            first, *rest = [Image.fromarray(page) for page in pages]
            path = tmp_path / f"{i}.{ending}"
            more = {"save_all": True, "append_images": rest} if rest else {}
            first.save(path, **more)
            paths.append(str(path))
        return paths

    return write


def page(low, high, dtype=np.uint16, shape=(8, 12)):
    return np.linspace(low, high, np.prod(shape)).reshape(shape).astype(dtype)


def test_color_images_of_8_bits_are_left_as_they_are(save):
    paths = save(*[[page(0, 200, np.uint8, (8, 12, 3))]] * 3, ending="png")
    sample = look_at(paths, "t.csv")
    assert (sample.reading, sample.channels, sample.mean, sample.notes) == ({}, 3, [], [])
    assert (sample.width, sample.height) == (12, 8)


def test_gray_images_of_8_bits_have_their_own_mean(save):
    sample = look_at(save([page(0, 0, np.uint8)], [page(51, 51, np.uint8)], ending="png"), "t.csv")
    assert sample.reading == {}
    assert sample.mean == [0.1] * 3
    assert sample.std == [0.1] * 3


def test_mean_and_std_are_of_each_channel_after_levels(save):
    paths = save([page(0, 0), page(1000, 3000)], [page(2000, 2000), page(4000, 4000)])
    sample = look_at(paths, "t.csv")
    assert sample.reading == {"mode": "all", "levels": (0, 4000)}
    assert sample.mean == pytest.approx([0.25, 0.75], abs=0.01)
    assert sample.std[0] == pytest.approx(0.25, abs=0.01)
    wider = look_at(paths, "t.csv", levels=(0, 8000))
    assert wider.mean == pytest.approx([0.125, 0.375], abs=0.01)


def test_a_channel_of_one_value_is_said_and_can_be_divided(save):
    sample = look_at(save(*[[page(5, 5), page(0, 9)]] * 3), "t.csv")
    assert sample.std[0] == 1.0
    assert "channel 0 (from 0) has one value in all images that were looked at" in sample.notes


def test_a_bounded_number_of_images_is_read(save, monkeypatch):
    from ccl_plugins.start import pixels

    paths = save(*[[page(0, 9)]] * 100)
    read = []
    monkeypatch.setattr(
        pixels, "read_image", lambda path, **_: read.append(path) or Image.new("L", (2, 2))
    )
    look_at(paths, "t.csv")
    assert len(read) == 64
    assert {paths[0], paths[-1]} <= {*read}


def test_photographs_are_read_once(tmp_path, monkeypatch):
    from ccl_plugins.start import pixels

    paths = [str(tmp_path / f"{i}.png") for i in range(3)]
    for i, path in enumerate(paths):
        noise = Image.effect_noise((8, 6), 40 * (i + 1))
        Image.merge("RGB", [noise, noise, Image.new("L", (8, 6))]).save(path)
    read = []
    pages_in = pixels.pages_in
    monkeypatch.setattr(pixels, "pages_in", lambda *given: read.append(given) or pages_in(*given))
    monkeypatch.setattr(pixels, "read_image", None)
    sample = look_at(paths, "t.csv")
    assert len(read) == len(paths)
    assert (sample.channels, sample.width, sample.height) == (3, 8, 6)
    assert sample.notes == ["channel 2 (from 0) has one value in all images that were looked at"]


def test_one_readable_image_among_many_is_found(save, tmp_path):
    paths = save([page(0, 9)], [page(0, 9)])
    wrong = tmp_path / "wrong.tif"
    wrong.write_bytes(b"II*")
    sample = look_at([str(wrong)] * 2 + [paths[0]] + [str(wrong)] * 99, "t.csv")
    assert sample.reading == {"levels": (0, 9)}
    with pytest.raises(ValueError, match=r"1 of 1 images of t.csv cannot be read: .*wrong.tif: "):
        look_at([str(wrong)], "t.csv")


@pytest.mark.parametrize(("hot", "white"), [(1, 4000), (200, 60000)])
def test_a_few_hot_pixels_are_not_white(save, hot, white):
    images = [[page(100, 4000, shape=(64, 64))] for _ in range(4)]
    images[0][0].flat[:hot] = 60000
    sample = look_at(save(*images), "t.csv")
    low, high = sample.reading["levels"]
    assert low == pytest.approx(100, abs=10)
    assert high == pytest.approx(white, rel=0.01)
