"""The numbers of an image file are those that tifffile, or numpy, finds in it; or it is refused."""

from __future__ import annotations

import io
import itertools
import struct
import sys
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image
from support.image_samples import numbers

from ccl_plugins.files import pixels
from ccl_plugins.files.pixels import UnreadableImage, read_pages, type_in_head

TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "f2", "f4", "f8")
LAYOUTS = [
    *itertools.product((1, 2, 3, 4, 6), ("contig",), (None, (16, 32)), (None, "zlib", "lzma")),
    *itertools.product((2, 3, 6), ("separate",), (None, (16, 32)), (None, "zlib")),
]


def tiff(array, **options):
    """A TIFF in memory."""
    file = io.BytesIO()
    tifffile.imwrite(file, array, metadata=None, **options)
    return file.getvalue()


def read(content, page=None, every=True):
    """(height, width, channels) as a file has them, opened or not; an array of each page side by side."""
    closed = read_pages(io.BytesIO(content), page, every)
    try:
        opened = Image.open(io.BytesIO(content))
    except OSError:  # of a kind that Pillow does not know
        opened = None
    if opened is not None:
        place = opened.fp.tell()
        for again in (read_pages(opened, page, every), read_pages(opened, page, every)):
            for a, b in zip(closed, again, strict=True):
                np.testing.assert_array_equal(a.values, b.values)
                assert a.color == b.color
        assert opened.fp is None or opened.fp.tell() == place or not opened.tile
    return np.concatenate([values for values, _ in closed], axis=2)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", TYPES)
def test_the_numbers_of_a_tiff_are_those_that_it_holds(dtype, order):
    for bands, planar, tile, compression in LAYOUTS:
        array = numbers((19, 37, bands), dtype)
        layout = {"planarconfig": planar} if bands > 1 else {}
        stored = array[..., 0] if bands == 1 else array
        stored = stored.transpose(2, 0, 1) if planar == "separate" else stored
        kinds = ("minisblack", "rgb") if bands in (3, 4) else ("minisblack",)
        for photometric in kinds:
            content = tiff(
                stored,
                byteorder=order,
                photometric=photometric,
                tile=tile,
                compression=compression,
                **layout,
            )
            found = read(content)
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)
            assert type_in_head(io.BytesIO(content)) == array.dtype.name


@pytest.mark.parametrize("dtype", TYPES)
def test_without_the_extra_a_tiff_is_read_right_or_refused_by_its_name(dtype, monkeypatch):
    known = 0
    for order, (bands, planar, tile, compression) in itertools.product("<>", LAYOUTS):
        array = numbers((19, 37, bands), dtype)
        layout = {"planarconfig": planar} if bands > 1 else {}
        stored = array[..., 0] if bands == 1 else array
        stored = stored.transpose(2, 0, 1) if planar == "separate" else stored
        options = {"photometric": "rgb" if bands == 3 else "minisblack", **layout}
        content = tiff(stored, byteorder=order, tile=tile, compression=compression, **options)
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "tifffile", None)
            try:
                found, refusal = read(content), ""
            except UnreadableImage as error:
                refusal = str(error)
        if refusal:
            assert "pip install 'ccl-plugins[tiff]'" in refusal
            continue
        known += 1
        np.testing.assert_array_equal(found, array)
    assert known >= 6 or dtype in ("u8", "f2", "f8")


@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "f4"])
def test_a_tiff_of_more_than_4_gb_is_another_format_and_read(dtype, bigtiff):
    array = numbers((9, 8, 5), dtype)
    content = tiff(array, bigtiff=bigtiff, photometric="minisblack", planarconfig="contig")
    np.testing.assert_array_equal(read(content), array)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i2"])
def test_zero_is_white_at_every_depth_where_a_tiff_says_so(dtype):
    array = numbers((9, 8), dtype)
    plain, inverted = (
        read(tiff(array, photometric=p))[..., 0] for p in ("minisblack", "miniswhite")
    )
    ends = np.iinfo(dtype)
    np.testing.assert_array_equal(inverted, (ends.min + ends.max - plain.astype(np.int64)))
    bands = tiff(numbers((9, 8, 3), "u2"), photometric="miniswhite", planarconfig="contig")
    np.testing.assert_array_equal(read(bands), 65535 - numbers((9, 8, 3), "u2"))


def test_numbers_without_a_black_are_refused_where_zero_is_white():
    content = tiff(numbers((9, 8), "f4"), photometric="miniswhite")
    with pytest.raises(UnreadableImage, match=r"0 is its white \(WhiteIsZero\), and float32"):
        read(content)


@pytest.mark.parametrize("white", [0, 1])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_few_bits_go_from_black_to_white(bits, white):
    """Written by hand: neither library writes all of them."""
    most = (1 << bits) - 1
    rows = np.arange(6 * 8).reshape(6, 8) % (most + 1)
    packed = np.packbits(
        np.unpackbits(rows[..., None].astype(np.uint8), axis=2)[..., 8 - bits :].reshape(6, -1)
    )
    data = packed.tobytes()
    tags = [
        (256, 8),
        (257, 6),
        (258, bits),
        (259, 1),
        (262, white),
        (273, 8),
        (277, 1),
        (278, 6),
        (279, len(data)),
    ]
    head = struct.pack("<2sHI", b"II", 42, 8 + len(data))
    entries = b"".join(
        struct.pack("<HHII", tag, 4 if tag in (273, 279) else 3, 1, v) for tag, v in tags
    )
    content = head + data + struct.pack("<H", len(tags)) + entries + bytes(4)
    shares = (rows if white else most - rows) / most
    np.testing.assert_array_equal(read(content)[..., 0], (255 * shares).round())


def test_twelve_bits_are_numbers_up_to_4095():
    array = np.arange(6 * 8, dtype=np.uint16).reshape(6, 8) * 87
    halves = array.reshape(6, 4, 2).astype(np.uint32)
    three = halves[..., 0] << 12 | halves[..., 1]
    data = np.stack([three >> 16, three >> 8 & 255, three & 255], 2).astype(np.uint8).tobytes()
    tags = [
        (256, 8),
        (257, 6),
        (258, 12),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, 6),
        (279, len(data)),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    head = struct.pack("<2sHI", b"II", 42, 8 + len(data))
    np.testing.assert_array_equal(
        read(head + data + struct.pack("<H", len(tags)) + entries + bytes(4))[..., 0], array
    )


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_colors_have_the_names_that_a_tiff_gives_them(dtype):
    def color(channels, photometric, **options):
        return read_pages(
            io.BytesIO(tiff(numbers((9, 8, channels), dtype), photometric=photometric, **options)),
            None,
            True,
        )[0].color

    contiguous = {"planarconfig": "contig"}
    assert color(3, "rgb") == "RGB"
    assert color(4, "rgb", extrasamples=["unassalpha"]) == "RGBA"
    assert color(4, "rgb", extrasamples=["unspecified"]) == "RGB"
    assert color(4, "separated") == "CMYK"
    assert color(2, "minisblack", extrasamples=["unassalpha"], **contiguous) == "LA"
    assert color(2, "minisblack", extrasamples=["unspecified"], **contiguous) == ""
    assert color(5, "minisblack", **contiguous) == ""


def test_a_palette_gives_the_colors_that_it_stands_for():
    colors = numbers((3, 256), "u2")
    ids = numbers((9, 8), "u1")
    found = read(tiff(ids, photometric="palette", colormap=colors))
    np.testing.assert_array_equal(found, (colors >> 8)[:, ids].transpose(1, 2, 0))


def test_colors_multiplied_by_alpha_are_refused_at_16_bits():
    content = tiff(numbers((9, 8, 4), "u2"), photometric="rgb", extrasamples=["assocalpha"])
    with pytest.raises(UnreadableImage, match="multiplied by alpha"):
        read(content)


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_lzw_is_read_or_names_the_decoder_that_it_needs(dtype, tmp_path):
    """Pillow decodes one band; for several of 16 bits tifffile needs imagecodecs."""
    image = Image.fromarray(numbers((19, 37), dtype))
    image.save(tmp_path / "a.tif", compression="tiff_lzw")
    np.testing.assert_array_equal(
        read((tmp_path / "a.tif").read_bytes())[..., 0], np.asarray(image)
    )
    bands = lzw_of_bands(numbers((5, 4, 3), "u2"))
    try:
        import imagecodecs  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(
            UnreadableImage, match=r"LZW .* needs imagecodecs: pip install imagecodecs"
        ):
            read(bands)
    else:
        np.testing.assert_array_equal(read(bands), numbers((5, 4, 3), "u2"))


def lzw_of_bands(array):
    """A TIFF of bands in LZW, of single bytes at 9 bits, with a clear code often enough."""
    codes = [256]
    for place, byte in enumerate(array.tobytes()):
        codes += [256] * (place % 200 == 199) + [byte]
    bits = "".join(f"{code:09b}" for code in [*codes, 257])
    bits += "0" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big")
    content = bytearray(tiff(array, photometric="minisblack", planarconfig="contig"))
    with tifffile.TiffFile(io.BytesIO(content)) as file:
        tags = file.pages[0].tags
        for name, value in (
            ("Compression", 5),
            ("StripOffsets", len(content)),
            ("StripByteCounts", len(data)),
        ):
            tag = tags[name]
            content[tag.valueoffset : tag.valueoffset + 2] = struct.pack("<H", value)
    return bytes(content) + data


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("bands", [1, 3])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_every_kind_is_turned_upright_alike(bands, compression, orientation):
    array = numbers((3, 5, bands), "u1")
    stored = array[..., 0] if bands == 1 else array
    tag = [(274, "H", 1, orientation, True)]
    eight, sixteen = (
        read(
            tiff(
                each,
                photometric="rgb" if bands == 3 else None,
                extratags=tag,
                compression=compression,
            )
        )
        for each in (stored, stored.astype(np.uint16))
    )
    np.testing.assert_array_equal(eight, sixteen)
    assert eight.shape[:2] == ((3, 5) if orientation < 5 else (5, 3))


def pages(*arrays, **options):
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        for array in arrays:
            writer.write(array, metadata=None, contiguous=False, **options)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["u1", "u2", "f8"])
@pytest.mark.parametrize("bands", [1, 3])
def test_pages_are_channels_in_their_order(dtype, bands):
    arrays = [numbers((9, 8, bands), dtype, seed) for seed in range(5)]
    stored = [a[..., 0] if bands == 1 else a for a in arrays]
    content = pages(*stored, photometric="minisblack" if bands == 1 else "rgb")
    np.testing.assert_array_equal(read(content), np.concatenate(arrays, axis=2))
    np.testing.assert_array_equal(read(content, page=3), arrays[3])
    with pytest.raises(UnreadableImage, match="it has 5 pages: page = 0 reads the first"):
        read(content, every=False)
    with pytest.raises(UnreadableImage, match="it has no page 5, but 5, counted from 0"):
        read(content, page=5)


def test_a_page_that_is_shown_is_the_one_that_is_read():
    arrays = [numbers((9, 8), "u2", seed) for seed in range(3)]
    image = Image.open(io.BytesIO(pages(*arrays)))
    image.seek(2)
    ((values, _),) = read_pages(image)
    np.testing.assert_array_equal(values[..., 0], arrays[2])
    assert image.tell() == 2


@pytest.mark.parametrize("dtype", ["u1", "u2", "f8"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_pyramid_is_one_page_at_full_resolution(dtype, inside):
    array = numbers((64, 48), dtype)
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        writer.write(array, subifds=2 * inside, tile=(16, 16), metadata=None)
        for step in (2, 4):
            writer.write(array[::step, ::step], subfiletype=1, tile=(16, 16), metadata=None)
    found = read(file.getvalue(), every=False)
    np.testing.assert_array_equal(found[..., 0], array)
    thumbnail_first = io.BytesIO()
    with tifffile.TiffWriter(thumbnail_first) as writer:
        writer.write(array[::4, ::4], subfiletype=1, metadata=None)
        writer.write(array, metadata=None)
    np.testing.assert_array_equal(read(thumbnail_first.getvalue(), every=False)[..., 0], array)


def test_microscopes_formats_give_their_planes_as_channels():
    array = numbers((5, 9, 8), "u2")
    for options in (
        {"ome": True, "metadata": {"axes": "CYX"}},
        {"imagej": True},
        {"imagej": True, "truncate": True},
        {"photometric": "minisblack"},
        {"photometric": "minisblack", "truncate": True},
    ):
        file = io.BytesIO()
        tifffile.imwrite(file, array, **options)
        np.testing.assert_array_equal(read(file.getvalue()), array.transpose(1, 2, 0))
        with pytest.raises(UnreadableImage, match="it has 5 pages"):
            read(file.getvalue(), every=False)


def png(array):
    """A PNG of 16 bits, whose rows take turns with the five filters."""
    height, width, channels = array.shape
    size = 2 * channels
    rows = array.astype(">u2").view(np.uint8).reshape(height, -1).astype(int)
    above, out = np.zeros_like(rows[0]), []
    for y, row in enumerate(rows):
        left = np.concatenate([np.zeros(size, int), row[:-size]])
        corner = np.concatenate([np.zeros(size, int), above[:-size]])
        guess = left + above - corner
        near = np.stack([abs(guess - left), abs(guess - above), abs(guess - corner)]).argmin(0)
        paeth = np.choose(near, [left, above, corner])
        less = [0, left, above, (left + above) // 2, paeth][y % 5]
        out.append(bytes([y % 5]) + ((row - less) % 256).astype(np.uint8).tobytes())
        above = row

    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    color = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    head = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(*each)
        for each in ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(out))), (b"IEND", b""))
    )


@pytest.mark.parametrize(("channels", "color"), [(1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")])
def test_a_png_of_16_bits_keeps_them_in_every_color(channels, color):
    array = numbers((11, 8, channels), "u2")
    content = png(array)
    np.testing.assert_array_equal(read(content), array)
    assert read_pages(io.BytesIO(content))[0].color == color
    assert type_in_head(io.BytesIO(content)) == "uint16"


@pytest.mark.parametrize("most", [255, 4095, 65535])
@pytest.mark.parametrize("channels", [1, 3])
def test_portable_maps_keep_the_numbers_of_16_bits(channels, most):
    array = numbers((9, 8, channels), "u2") & most
    head = f"P{5 if channels == 1 else 6}\n# a note\n8 9\n{most}\n".encode()
    content = head + array.astype(">u2" if most > 255 else "u1").tobytes()
    np.testing.assert_array_equal(read(content), array)


def test_an_image_that_pillow_has_cut_is_refused_once_it_is_decoded(tmp_path):
    (tmp_path / "a.png").write_bytes(png(numbers((9, 8, 3), "u2")))
    (tmp_path / "a.tif").write_bytes(tiff(numbers((9, 8, 3), "u2"), photometric="rgb"))
    for name in ("a.png", "a.tif"):
        image = Image.open(tmp_path / name)
        image.load()
        with pytest.raises(UnreadableImage, match="kept less than its file holds: give the file"):
            read_pages(image)


def test_a_damaged_tiff_says_so_whatever_reads_it():
    whole = tiff(
        numbers((64, 64, 6), "u2"),
        photometric="minisblack",
        planarconfig="contig",
        compression="zlib",
    )
    for content in (whole[: len(whole) // 2], whole[:60], b"II*\0" + bytes(20)):
        with pytest.raises(Exception, match=r"\w"):
            read_pages(io.BytesIO(content), None, True)


def test_frames_that_are_previews_are_no_pages(tmp_path):
    first, second = (Image.fromarray(numbers((9, 8, 3), "u1", seed)) for seed in range(2))
    first.save(tmp_path / "a.jpg", "MPO", save_all=True, append_images=[second])
    assert Image.open(tmp_path / "a.jpg").n_frames == 2
    assert len(read_pages(str(tmp_path / "a.jpg"), None, True)) == 1
    assert pixels.is_plain(Image.open(tmp_path / "a.jpg"))
    first.save(tmp_path / "a.webp", save_all=True, append_images=[second])
    with pytest.raises(UnreadableImage, match="it has 2 pages"):
        read_pages(str(tmp_path / "a.webp"))
