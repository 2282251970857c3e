"""Images as instruments give them: more than 8 bits, more than three channels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from support.image_samples import write_image

import ccl_plugins as ccl
from ccl_plugins.datasets import ImageFolder
from ccl_plugins.datasets.image_files import UnreadableImage, read_image


def pixels(seed=0, shape=(6, 5), dtype=np.uint16, most=4096):
    return np.random.default_rng(seed).integers(0, most, shape).astype(dtype)


def write_pages(path, pages):
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *rest = [Image.fromarray(page) for page in pages]
    first.save(path, save_all=True, append_images=rest)
    return path


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_pixels_of_16_bits_are_scaled_between_two_levels(tmp_path, ending):
    path, array = tmp_path / f"a.{ending}", pixels()
    Image.fromarray(array).save(path)
    with pytest.raises(
        UnreadableImage, match=rf"uint16 from {array.min()} to {array.max()}, have m"
    ):
        read_image(str(path), "L")
    image = read_image(str(path), "L", (100, 3000))
    expected = ((array.clip(100, 3000) - 100.0) / 2900 * 255).round()
    assert image.mode == "L"
    np.testing.assert_array_equal(np.asarray(image), expected)
    assert read_image(str(path), "RGB", (100, 3000)).getpixel((2, 3)) == (expected[3, 2],) * 3


def test_levels_scale_images_of_8_bits_and_of_palettes_too(tmp_path):
    path = tmp_path / "a.png"
    colors = Image.fromarray(pixels(shape=(6, 5, 3), dtype=np.uint8, most=256))
    colors.quantize(16).save(path)
    plain, half = (np.asarray(read_image(str(path), "RGB", up)) for up in ((0, 255), (0, 127.5)))
    np.testing.assert_array_equal(plain, np.asarray(Image.open(path).convert("RGB")))
    np.testing.assert_array_equal(half, (2 * plain.astype(int)).clip(0, 255))


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "LAB"])
def test_levels_leave_the_colors_of_other_modes(tmp_path, mode):
    path = str(tmp_path / "other.tif")
    Image.new(mode, (4, 4), (200, 60, 90, 0) if mode == "CMYK" else (200, 60, 90)).save(path)
    plain, scaled = read_image(path, "RGB"), read_image(path, "RGB", (0, 255))
    assert plain.tobytes() == scaled.tobytes()


def test_a_tensor_of_all_channels_of_all_pages(tmp_path):
    pages = [pixels(page) for page in range(5)]
    image = read_image(str(write_pages(tmp_path / "a.tif", pages)), "all", (0, 4095))
    assert image.dtype == torch.uint8
    np.testing.assert_array_equal(image, (np.stack(pages) / 4095 * 255).astype("f4").round())


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 4), ("CMYK", 4)])
def test_other_files_have_the_channels_of_their_mode(tmp_path, mode, channels):
    path = write_image(tmp_path / ("a.tif" if mode == "CMYK" else "a.png"), 9, mode)
    assert read_image(str(path), "all").shape == (channels, 8, 8)
    assert read_image(str(path), "all").unique().tolist() == [9]


@pytest.mark.parametrize("shape", [(7, 6, 5), (6, 5)])
def test_arrays_in_npy_files_are_images(tmp_path, shape):
    array = pixels(shape=shape, dtype=np.float32)
    np.save(tmp_path / "a.npy", array)
    image = read_image(str(tmp_path / "a.npy"), "all", (0, 4096))
    assert image.shape == (shape if len(shape) == 3 else (1, *shape))
    np.testing.assert_array_equal(image.squeeze(0), (array / 4096 * 255).round())


def test_arrays_that_are_no_images_say_so(tmp_path):
    np.save(tmp_path / "c.npy", np.zeros((3, 4, 4), dtype=np.uint8))
    with pytest.raises(UnreadableImage, match='is read with mode = "all"'):
        read_image(str(tmp_path / "c.npy"), "RGB")
    np.save(tmp_path / "a.npy", np.zeros((2, 2, 2, 2), dtype=np.uint8))
    with pytest.raises(
        UnreadableImage, match=r"shape \(2, 2, 2, 2\) is no \(channels, height, width"
    ):
        read_image(str(tmp_path / "a.npy"), "all")
    np.save(tmp_path / "b.npy", np.array([{}, {}]))
    with pytest.raises(UnreadableImage, match="allow_pickle"):
        read_image(str(tmp_path / "b.npy"), "all")


@pytest.mark.parametrize("levels", [(3, 3), (5, 1), (1,)])
def test_levels_must_be_two_that_rise(tmp_path, levels):
    with pytest.raises(ValueError, match=r"black and white, as \[0, 4095\], not "):
        ImageFolder(tmp_path, levels=levels)


@pytest.mark.filterwarnings("ignore")
def test_five_channels_train_and_are_shown(tmp_path):
    for row in range(24):
        write_pages(
            tmp_path / "plates" / "ab"[row % 2] / f"{row}.tif",
            [pixels(5 * row + c) for c in range(5)],
        )
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset(
            "image_folder",
            root=tmp_path / "plates",
            test_fraction=0.3,
            mode="all",
            levels=[0, 4095],
        ),
        transform=ccl.transform(
            "simclr", size=32, jitter=0.0, gray=0.0, blur=0.0, mean=[0.5] * 5, std=[0.3] * 5
        ),
        backbone=ccl.backbone("lenet5", in_channels=5),
        method=ccl.method("simclr", hidden=8, dim=8, batch_norm=False),
        objective="supcon",
        condition="label",
        evaluate=[ccl.evaluator("knn", k=3)],
    )
    run = pipeline.fit(epochs=1, batch_size=8, seed=0, out=tmp_path / "run")
    found = run.evaluate()
    assert 0 <= found["knn/top1"] <= 1
    file = tmp_path / "plates" / "a" / "0.tif"
    torch.testing.assert_close(
        run.encode([file]), run.encode(read_image(str(file), "all", (0, 4095))[None])
    )
    assert ccl.create("figure", "anchor")({"run": run}) is not None
