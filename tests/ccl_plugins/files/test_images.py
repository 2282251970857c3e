"""One image has the same pixels from its file, opened, decoded and as an array, in every mode."""

from __future__ import annotations

import io
import itertools
import pickle

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from support.image_samples import numbers

from ccl_plugins.files.images import OtherNumbers, read_image, reading, written
from ccl_plugins.files.pixels import UnreadableImage

BY_TYPE = {
    "uint8": (10, 200),
    "int8": (-100, 90),
    "uint16": (300, 60000),
    "float32": (-2.0, 2.0),
    "int16": (-9000, 9000),
}


def file_of(array, path):
    """A file that holds an array (height, width[, channels])."""
    if path.suffix == ".png":
        Image.fromarray(array).save(path)
    else:
        bands = array.ndim == 3 and array.shape[2] not in (3, 4)
        color = "rgb" if array.ndim == 3 and not bands else "minisblack"
        tifffile.imwrite(
            path, array, photometric=color, metadata=None, planarconfig="contig" if bands else None
        )
    return path


KINDS = {
    "gray of 8 bits": ((11, 9), "u1", ".png"),
    "color of 8 bits": ((11, 9, 3), "u1", ".png"),
    "color and alpha": ((11, 9, 4), "u1", ".png"),
    "gray of 16 bits": ((11, 9), "u2", ".png"),
    "color of 16 bits": ((11, 9, 3), "u2", ".tif"),
    "alpha of 16 bits": ((11, 9, 4), "u2", ".tif"),
    "five bands": ((11, 9, 5), "u2", ".tif"),
    "signed of 8 bits": ((11, 9), "i1", ".tif"),
    "signed color of 8 bits": ((11, 9, 3), "i1", ".tif"),
    "signed": ((11, 9), "i2", ".tif"),
    "signed color": ((11, 9, 3), "i2", ".tif"),
    "floats": ((11, 9), "f4", ".tif"),
    "floats in bands": ((11, 9, 6), "f4", ".tif"),
}


UNKNOWN_TO_PILLOW = ("five bands", "signed color", "signed color of 8 bits", "floats in bands")


def expected(array, mode, ends):
    """An independent account: levels, then Pillow's conversion of 8 bits."""
    values = array[..., None] if array.ndim == 2 else array
    if ends is not None:
        shares = (values.astype(np.float32) - ends[0]) / (ends[1] - ends[0])
        values = (255 * shares.clip(0, 1)).round()
    values = values.astype(np.uint8)
    if mode == "all":
        return values.transpose(2, 0, 1)
    return np.asarray(
        Image.fromarray(values.squeeze(2) if values.shape[2] == 1 else values).convert(mode)
    )


@pytest.mark.parametrize("mode", ["RGB", "L", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_image_has_the_same_pixels_whatever_it_is_given_as(tmp_path, kind, mode):
    shape, dtype, ending = KINDS[kind]
    array = numbers(shape, dtype)
    path = file_of(array, tmp_path / f"a{ending}")
    stored = array.transpose(2, 0, 1) if array.ndim == 3 else array
    ends = BY_TYPE[array.dtype.name]
    for levels in (None, ends, BY_TYPE):
        given = [str(path), path, io.BytesIO(path.read_bytes()), stored]
        given += [Image.open(path)] if kind not in UNKNOWN_TO_PILLOW else []
        given += [stored.astype(stored.dtype.newbyteorder(">"))]
        given += [array] if array.ndim == 3 and mode != "all" else []
        if dtype != "u1":
            given += [torch.from_numpy(stored)]
        refused = (levels is None and dtype != "u1") or (mode != "all" and shape[2:] > (4,))
        for each in given:
            if refused:
                with pytest.raises(
                    UnreadableImage, match=r"more than 8 bits|may be negative|bands and no color"
                ):
                    read_image(each, mode, levels)
            else:
                found = read_image(each, mode, levels)
                np.testing.assert_array_equal(
                    np.asarray(found), expected(array, mode, levels and ends)
                )
                assert isinstance(found, torch.Tensor) == (mode == "all")


@pytest.mark.parametrize("mode", ["1", "P", "LA", "CMYK", "YCbCr", "LAB"])
def test_other_colors_of_8_bits_are_those_that_pillow_gives(tmp_path, mode):
    image = Image.fromarray(numbers((11, 9, 3), "u1"))
    image = image if mode == "LAB" else image.convert(mode)
    if mode == "LAB":
        image = Image.frombytes("LAB", image.size, image.tobytes())
    image.save(tmp_path / "a.tif")
    for target in ("RGB", "L"):
        plain = np.asarray(
            image.convert("RGB").convert(target) if mode == "LAB" else image.convert(target)
        )
        for given in (str(tmp_path / "a.tif"), Image.open(tmp_path / "a.tif"), image):
            np.testing.assert_array_equal(np.asarray(read_image(given, target)), plain)
            assert (
                np.abs(np.asarray(read_image(given, target, (0, 255))) - plain.astype(int)).max()
                <= 1
            )


def photo(path, orientation):
    image = Image.fromarray(numbers((5, 7, 3), "u1"))
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(path, exif=exif)
    return path


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("mode", ["RGB", "all", None])
def test_a_photo_is_upright_opened_or_not(tmp_path, mode, ending, orientation):
    path = photo(tmp_path / f"a.{ending}", orientation)
    opened, decoded = Image.open(path), Image.open(path)
    decoded.load()
    found = [np.asarray(read_image(each, mode)) for each in (path, opened, decoded, opened.copy())]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
    turned = orientation >= 5
    assert found[0].shape == (
        (3, *((7, 5) if turned else (5, 7)))
        if mode == "all"
        else (*((7, 5) if turned else (5, 7)), 3)
    )
    again = read_image(read_image(path, mode), mode)
    np.testing.assert_array_equal(np.asarray(again), found[0])


def test_what_is_read_is_not_scaled_once_more(tmp_path):
    Image.fromarray(numbers((6, 5), "u1")).save(tmp_path / "a.png")
    for mode in ("L", "RGB", "all"):
        once = read_image(tmp_path / "a.png", mode, (0, 100))
        given = once.copy() if mode != "all" else once
        twice = read_image(given, mode, (0, 100))
        assert np.array_equal(np.asarray(once), np.asarray(twice))
    mine = Image.fromarray(numbers((6, 5), "u1"))
    read_image(mine, "L", (0, 100))
    assert not mine.info, "an image that was given is left as it was"


def test_wide_numbers_keep_their_differences():
    """float32 has 24 bits: two numbers above 2^31 that differ by 100 would be one."""
    array = np.array([[4_294_900_000, 4_294_900_100]], np.uint32)
    image = read_image(array, "L", (4_294_900_000, 4_294_900_100))
    assert np.asarray(image).tolist() == [[0, 255]]


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "i4", "?"])
def test_levels_are_black_and_white_and_what_lies_outside_is_cut(dtype):
    array = np.array([[0, 1, 0, 1]]).astype(dtype)
    assert np.asarray(read_image(array, "L", (0, 255 if dtype == "?" else 1))).tolist() == [
        [0, 255, 0, 255]
    ]


def test_levels_of_a_deeper_image_are_refused_and_not_a_black_image():
    for dtype in ("u1", "i1"):
        with pytest.raises(
            OtherNumbers, match=r"levels = \[0, 65535\] are for deeper images than this one of"
        ) as refusal:
            read_image(np.zeros((4, 4), dtype), "L", (0, 65535))
        again = pickle.loads(pickle.dumps(refusal.value))  # as a worker process hands it on
        assert (str(again), type(again)) == (str(refusal.value), OtherNumbers)
    plain = numbers((4, 4), "u1")
    image = read_image(plain, "L", {"uint16": (0, 65535)})
    np.testing.assert_array_equal(np.asarray(image), plain)


def test_pixels_that_are_no_numbers_are_counted_and_refused():
    array = np.zeros((4, 4), np.float32)
    array[1, :3] = np.nan
    with pytest.raises(UnreadableImage, match=r"3 of its pixels are not numbers \(NaN\)"):
        read_image(array, "L", (0, 1))
    array[1, :3] = np.inf, -np.inf, 0.5
    assert np.asarray(read_image(array, "L", (0, 1)))[1].tolist() == [255, 0, 128, 0]
    with pytest.raises(UnreadableImage, match="complex64, not numbers from black to white"):
        read_image(array.astype(np.complex64), "L", (0, 1))


def test_levels_are_written_as_a_configuration_reads_them():
    assert written({"uint16": (3, 4012)}) == "[3, 4012]"
    both = {"uint8": (0, 255), "float32": (-2.5, 3.0)}
    assert written(both) == "{uint8 = [0, 255], float32 = [-2.5, 3]}"
    assert reading("L", (0, 4095), None) == reading("L", [0.0, 4095.0], None)
    assert reading("all", both, 2)["levels"] == {"float32": [-2.5, 3.0], "uint8": [0.0, 255.0]}
    with pytest.raises(
        ValueError, match=r"the type of levels must be one of 'uint8', .* not 'int'"
    ):
        reading("L", {"int": (0, 1)}, None)
    with pytest.raises(ValueError, match="page must be 0 or more, not -1"):
        reading("L", None, -1)


@pytest.mark.parametrize(
    ("shape", "channels"), [((11, 9), 1), ((3, 11, 9), 3), ((11, 9, 3), 3), ((11, 9, 1), 1)]
)
def test_an_array_has_its_channels_first_or_a_few_last(shape, channels):
    image = read_image(numbers(shape, "u1"))
    assert (image.size, len(image.getbands())) == ((9, 11), channels)


def test_pages_of_other_sizes_are_no_channels(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for size, dtype in itertools.product((8, 16), ("u1", "u2")):
            writer.write(numbers((size, size), dtype), metadata=None)
    with pytest.raises(
        UnreadableImage, match="its 4 pages are not channels of one image, but 16x16 of uint16"
    ):
        read_image(tmp_path / "a.tif", "all", {"uint16": (0, 65535)})
    assert read_image(tmp_path / "a.tif", "L", page=2).size == (16, 16)


def test_what_is_no_image_is_left_as_it_is():
    for other in (torch.zeros(5), np.zeros(5, np.float32), [1, 2], {"a": 1}, 3):
        assert read_image(other) is other


@pytest.mark.parametrize(
    ("shape", "message"),
    [((16, 12, 3), "has its channels last: write it as"), ((0, 12, 8), "is not \\(channels")],
)
def test_an_array_of_no_channels_or_with_its_channels_last_is_refused(tmp_path, shape, message):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.uint8))
    with pytest.raises(UnreadableImage, match=message):
        read_image(tmp_path / "a.npy", "all")


@pytest.mark.parametrize("shape", [(3, 16, 2), (6, 4, 4), (16, 12, 8)])
def test_an_array_with_its_channels_first_is_read(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.uint8))
    assert tuple(read_image(tmp_path / "a.npy", "all").shape) == shape
