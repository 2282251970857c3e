"""``load.py`` reads images as the run did, without this library."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
import torch
from PIL import Image

from ccl_plugins.files.images import read_image, reading
from ccl_plugins.sharing.loader import timm_loader
from ccl_plugins.transforms import SimCLRTransform


def prepared(folder, way, channels=3):
    """The function ``prepare`` of a run that read images so, and what the run itself makes of one."""
    transform = SimCLRTransform(
        size=32, mean=[0.4] * channels, std=[0.2] * channels, jitter=0.0, gray=0.0, blur=0.0
    )
    images = {"input_size": [channels, 32, 32], "mean": [0.4] * channels, "std": [0.2] * channels}
    config = {"num_features": 8, "pretrained_cfg": images, "ccl_plugins": {"reading": way}}
    (folder / "load.py").write_text(timm_loader(config))
    prepare = runpy.run_path(str(folder / "load.py"))["prepare"]
    return prepare, lambda image: transform.plain(read_image(image, **way))


def numbers(shape, dtype):
    r, most = np.random.default_rng(0), 255 if dtype == "u1" else 4095
    return r.integers(0, most, shape).astype(dtype)


LEVELS = {"u1": (10, 200), "u2": (100, 4000), "f4": (0.0, 4000.0)}


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(
    ("shape", "dtype"), [((40, 50), "u1"), ((40, 50, 3), "u1"), ((40, 50), "u2"), ((40, 50), "f4")]
)
@pytest.mark.parametrize("by_type", [False, True])
def test_an_image_is_prepared_as_in_training(tmp_path, mode, shape, dtype, by_type):
    array = numbers(shape, dtype)
    levels = {np.dtype(dtype).name: LEVELS[dtype]} if by_type else LEVELS[dtype]
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(array).save(tmp_path / "a.tif", exif=exif)
    for way in (reading(mode, levels, None), reading(mode, None, None)):
        prepare, expected = prepared(tmp_path, way)
        image = Image.open(tmp_path / "a.tif")
        if way["levels"] is None and dtype != "u1":
            with pytest.raises(ValueError, match="knew no levels of these"):
                prepare(image)
            continue
        torch.testing.assert_close(prepare(image), expected(tmp_path / "a.tif")[None])


def test_all_channels_of_all_pages_are_prepared_as_in_training(tmp_path):
    pages = [Image.fromarray(numbers((40, 50), "u2") // (page + 1)) for page in range(5)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    prepare, expected = prepared(tmp_path, reading("all", (0, 4095), None), channels=5)
    given = (Image.open(tmp_path / "a.tif"), np.stack([np.asarray(page) for page in pages]))
    for image in given:
        torch.testing.assert_close(prepare(image), expected(tmp_path / "a.tif")[None])
    once = read_image(tmp_path / "a.tif", "all", (0, 4095))
    torch.testing.assert_close(prepare(once), expected(tmp_path / "a.tif")[None])
    prepare, expected = prepared(tmp_path, reading("L", (0, 4095), 3))
    torch.testing.assert_close(prepare(given[0]), expected(tmp_path / "a.tif")[None])
    prepare, _ = prepared(tmp_path, reading("L", (0, 4095), None))
    with pytest.raises(ValueError, match="it has 5 pages"):
        prepare(given[0])


def test_levels_of_deeper_images_and_cut_colors_are_refused(tmp_path):
    prepare, _ = prepared(tmp_path, reading("L", (0, 65535), None))
    with pytest.raises(ValueError, match="are of deeper images than uint8"):
        prepare(Image.fromarray(numbers((40, 50), "u1")))
    import tifffile

    tifffile.imwrite(tmp_path / "a.tif", numbers((40, 50, 3), "u2"), photometric="rgb")
    with pytest.raises(ValueError, match="cuts the 16 bits of its colors"):
        prepare(Image.open(tmp_path / "a.tif"))


@pytest.mark.parametrize("way", [{}, None])
def test_without_files_images_are_gray_or_in_color_as_the_backbone_takes_them(tmp_path, way):
    image = Image.fromarray(numbers((40, 50, 4), "u1"))
    for channels, mode in ((1, "L"), (3, "RGB")):
        prepare, expected = prepared(tmp_path, way or {}, channels)
        torch.testing.assert_close(prepare(image), expected(image.convert(mode))[None])
