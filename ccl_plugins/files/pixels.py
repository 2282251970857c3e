"""The numbers in image files: of any depth, with all bands and pages, upright."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

from ccl_registry.errors import Mistake

Source: TypeAlias = str | BinaryIO | Image.Image
"""An image: the path of a file, an open file, or an image of PIL."""

WITHOUT_PAGES = ("JPEG", "MPO", "PSD", "ICNS")
"""Formats whose further frames are previews, layers or sizes of the one image."""

UNPACKED = {"1": "L", "P": "RGB", "PA": "RGBA", "La": "LA", "RGBa": "RGBA", "RGBX": "RGB"}
"""Pillow's modes that are packed, indexed, premultiplied or padded, with a mode that has the values."""


CUT = ("PNG", "PPM", "SGI", "JPEG2000")
"""Formats other than TIFF whose colors of 16 bits Pillow reduces to 8."""

TIFF = re.compile(rb"II[*+]\0|MM\0[*+]")
"""The first bytes of a TIFF."""

SUBFILE, BITS, PHOTOMETRIC, DESCRIPTION, ORIENTATION = 254, 258, 262, 270, 274
SAMPLES, PLANAR, EXTRA, FORMAT = 277, 284, 338, 339
"""The tags of a TIFF that are read here."""

NO_PAGE = 1 | 4
"""The values of a TIFF page's tag for a smaller copy, or a mask, of another page."""

ALPHA = ((1,), (2,))
"""The values of a TIFF's tag for an alpha sample; 1: colors are multiplied by alpha."""

GRAY, WHITE_IS_ZERO, PALETTE = (0, 1), 0, 3
COLORS = {0: "L", 1: "L", 2: "RGB", 3: "RGB", 5: "CMYK"}
"""The meaning of the first samples, by a TIFF's photometric interpretation."""


STACK = re.compile(r"ImageJ=.*^images=(?!1$)|.*\"truncated\": true", re.DOTALL | re.MULTILINE)
"""The description of a TIFF that declares several pages but has only the first page's header."""


class UnreadableImage(OSError, Mistake):
    """An image that is missing, truncated, another kind of file, or that cannot be read right."""


class Pixels(NamedTuple):
    """A page of an image.

    Args:
        values: (height, width, channels), with the numbers that the file holds.
        color: The color of the first channels, as a mode of Pillow, such as ``"RGB"``; empty for
            bands without a color.
    """

    values: np.ndarray[Any, Any]
    color: str


def is_plain(image: Image.Image) -> bool:
    """Whether an image of PIL is one page of at most 8 bits, which PIL reads completely."""
    if (
        image.mode.startswith(("I", "F", "La", "LAB", "RGBa"))
        or _has_pages(image)
        or _is_cut(image)
    ):
        return False
    return image.format != "TIFF" or (_type(image) == np.uint8 and _reads_tiff(image, every=False))


def read_pages(source: Source, page: int | None = None, every: bool = False) -> list[Pixels]:
    """The pages of an image, upright, with the numbers that it holds.

    The smaller levels of a pyramid, thumbnails and masks do not count as pages.

    Args:
        source: The image; a PIL image that shows another page than the first stands for that page.
        page: The number of the page to read, from 0; None: the only one.
        every: Whether all pages and all bands are read, also bands that are not shown.

    Raises:
        UnreadableImage: If it cannot be read right.  Decoders raise other errors, too.
    """
    with opened(source) as (image, file):
        frame = image.tell() if image is source and not every else 0
        found = None if image is None else _by_pillow(image, page, every, frame)
        if found is not None:
            return found
        if image is not None and isinstance(image, ImageFile.ImageFile) and not image.tile:
            raise UnreadableImage(
                "Pillow has decoded it, and kept less than its file holds: give the file, or the result of"
                " Image.open before it is decoded"
            )
        if image is None or image.format == "TIFF":
            return _by_tifffile(file, page, every, frame)
        if image.format in ("PNG", "PPM") and not _has_pages(image):
            return [_of_16_bits(file)]
        raise UnreadableImage(
            f"Pillow cuts the numbers of a {image.format} of its kind to 8 bits: write it as TIFF or PNG"
        )


def type_in_head(source: Source) -> str:
    """The type of the numbers of an image, such as ``"uint16"``, from the head of its file."""
    with opened(source) as (image, file):
        if image is None or (image.format == "TIFF" and not _reads_tiff(image, every=False)):
            with _tifffile(file) as tiff:
                return str(tiff.pages[0].dtype)
        return "uint16" if _is_cut(image) else _type(image).name


def chosen(count: int, page: int | None, every: bool) -> Sequence[int]:
    """The pages to read, of the given number.

    Raises:
        UnreadableImage: If there is no such page, or if there are several and neither one nor all
            are asked for.
    """
    if page is not None and page >= count:
        raise UnreadableImage(f"it has no page {page}, but {count}, counted from 0")
    if page is None and count > 1 and not every:
        raise UnreadableImage(
            f'it has {count} pages: page = 0 reads the first, and mode = "all" all of them as channels'
        )
    return range(count) if page is None else [page]


def upright(image: Image.Image) -> Image.Image:
    """The image, turned as the orientation in its EXIF data says."""
    turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
    return ImageOps.exif_transpose(image) if turned else image


@contextmanager
def opened(source: Source) -> Iterator[tuple[Image.Image | None, Any]]:
    """The image opened by PIL (None for a type of TIFF that PIL does not know), and its file.

    A given PIL image stays open, and its file keeps its position.
    """
    if isinstance(source, Image.Image):
        file = getattr(source, "fp", None)
        place = file.tell() if file else 0
        try:
            yield source, file
        finally:
            if file and not file.closed:
                file.seek(place)
        return
    try:
        image = Image.open(source)
    except UnidentifiedImageError:
        if not TIFF.match(_bytes(source, 4)):
            raise
        yield None, source
        return
    with image:
        yield image, source


def _bytes(file: Any, most: int = -1) -> bytes:
    """The first bytes of a file, all for -1."""
    if isinstance(file, str):
        with open(file, "rb") as opened_file:
            return opened_file.read(most)
    file.seek(0)
    content: bytes = file.read(most)
    return content


def _by_pillow(image: Any, page: int | None, every: bool, frame: int) -> list[Pixels] | None:
    """The pages of an image of PIL; None if PIL does not return the file's numbers."""
    before = image.tell()
    try:
        frames = [frame] if frame else _frames(image)
        wanted = [0] if frame else chosen(len(frames), page, every)
        found = []
        for number in wanted:
            if frames[number] != image.tell():
                image.seek(frames[number])
            whole = _reads_tiff(image, every) if image.format == "TIFF" else not _is_cut(image)
            if not whole:
                return None
            found.append(_of_pil(image))
        return found
    except SyntaxError:  # a page of a TIFF of a kind that PIL does not know
        if image.format != "TIFF":
            raise
        return None
    finally:
        if image.tell() != before:
            image.seek(before)


def _frames(image: Any) -> Sequence[int]:
    """The frames of an image of PIL that are pages."""
    if not _has_pages(image):
        return [image.tell()]
    if image.format != "TIFF":
        return range(image.n_frames)
    full = []
    for frame in range(image.n_frames):
        image.seek(frame)
        if not image.tag_v2.get(SUBFILE, 0) & NO_PAGE:
            full.append(frame)
    return full or [0]


def _has_pages(image: Any) -> bool:
    return image.format not in WITHOUT_PAGES and getattr(image, "is_animated", False)


def _of_pil(image: Any) -> Pixels:
    """The page that an image of PIL shows."""
    numbers, tags = _type(image), getattr(image, "tag_v2", {})
    inverted = numbers != np.uint8 and tags.get(PHOTOMETRIC) == WHITE_IS_ZERO
    bits = max(tags.get(BITS, (8,)))
    page = upright(image)
    if page.mode in UNPACKED:
        page = page.convert(UNPACKED[page.mode])
    values = np.asarray(page)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    # PIL takes the bits of signed numbers for unsigned ones, and the other way round.
    same = values.itemsize == numbers.itemsize
    values = values.view(numbers) if same else values.astype(numbers)
    values = values[..., None] if values.ndim == 2 else values
    color = "L" if page.mode.startswith(("I", "F")) else page.mode
    return Pixels(_inverted(values, bits) if inverted else values, color)


def _type(image: Any) -> np.dtype[Any]:
    """The type of the numbers of an image that PIL returns unchanged."""
    tags = getattr(image, "tag_v2", {})
    bits, (kind, *_) = max(tags.get(BITS, (8,))), tags.get(FORMAT, (1,))
    if bits > 8 or kind != 1:
        return np.dtype(f"{'?uif'[kind]}{-(-bits // 8)}")
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        return np.dtype(np.uint16)
    return np.dtype({"I": np.int32, "F": np.float32}.get(image.mode, np.uint8))


def _inverted(values: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Numbers with white at 0, inverted so that 0 is black."""
    if values.dtype.kind not in "iu":
        raise UnreadableImage(f"0 is its white (WhiteIsZero), and {values.dtype} has no black")
    white = (1 << bits) - 1 if values.dtype.kind == "u" else -1
    return white - values


def _is_cut(image: Any) -> bool:
    """Whether PIL reduces the numbers of an image, which is not a TIFF, to fewer bits."""
    if image.format not in CUT:
        return False
    if not image.tile:  # a decoded image does not tell, but its file may
        try:
            with Image.open(image.filename) as again:
                return (
                    isinstance(again, ImageFile.ImageFile) and bool(again.tile) and _is_cut(again)
                )
        except (OSError, AttributeError):
            return False
    if image.format == "JPEG2000":
        head = _bytes_of(image, 4096)
        start = head.find(b"\xff\x4f\xff\x51")
        return image.mode != "I;16" and start >= 0 and head[start + 42] & 127 > 7
    codec, _, _, arguments = image.tile[0]
    if codec.startswith("ppm"):
        return bool(arguments[1] > 255)
    raw = arguments if isinstance(arguments, str) else arguments[0]
    return codec == "SGI16" or (raw.endswith(";16B") and not image.mode.startswith("I"))


def _bytes_of(image: Any, most: int) -> bytes:
    place = image.fp.tell()
    head = _bytes(image.fp, most)
    image.fp.seek(place)
    return head


def _of_16_bits(file: Any) -> Pixels:
    """A PNG or a portable map of 16 bits, of which PIL returns the high bytes.

    With the byte order swapped, PIL returns the low bytes.
    """
    content = _bytes(file)
    image: Any = Image.open(io.BytesIO(content))
    codec, extents, offset, raw = image.tile[0]
    if codec == "ppm":
        codec, raw = "raw", "I;16B" if image.mode == "I" else f"{raw[0]};16B"
    if not isinstance(raw, str):
        raise UnreadableImage("it is a portable map of 16 bits in words: write it as PNG or TIFF")

    def unpacked(raw: str) -> np.ndarray[Any, Any]:
        again: Any = Image.open(io.BytesIO(content))
        with again:
            again.tile = [(codec, extents, offset, raw)]
            values = np.asarray(again).astype(np.uint16)
            return _turned(values, again.getexif().get(ORIENTATION, 1))

    if raw == "LA;16B":  # both bytes of both channels fit into four of 8 bits
        four = unpacked("RGBA")
        values = four[..., ::2] << 8 | four[..., 1::2]
    elif raw == "I;16B":
        values = unpacked(raw)[..., None]
    else:
        values = unpacked(raw) << 8 | unpacked(raw.replace("16B", "16L"))
    return Pixels(values, raw.partition(";")[0].replace("I", "L"))


def _turned(values: np.ndarray[Any, Any], orientation: int) -> np.ndarray[Any, Any]:
    """(height, width[, channels]), turned upright like an image by `upright`."""
    if orientation in (5, 6, 7, 8):
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    return values[:, ::-1] if orientation in (2, 3, 6, 7) else values


def _reads_tiff(image: Any, every: bool) -> bool:
    """Whether PIL returns the numbers of a TIFF's page unchanged, for every band or all shown bands."""
    tags = image.tag_v2
    bits, formats = tags.get(BITS, (1,)), tags.get(FORMAT, (1,))
    samples, light = tags.get(SAMPLES, 1), tags.get(PHOTOMETRIC)
    described = str(tags.get(DESCRIPTION, ""))
    if not image.is_animated and STACK.match(described):
        return False
    if max(bits) > 8 or {*formats} != {1}:
        # Compressed numbers of the other byte order are turned by libtiff, and by Pillow once more, unless
        # they are unsigned and of 16 bits.
        turned = tags.prefix == b"MM" and image.info.get("compression") != "raw"
        plain_format = formats[0] == 1 or (formats[0] in (2, 3) and not turned)
        return samples == 1 and light in GRAY and plain_format
    extra, whole = tags.get(EXTRA, ()), len(image.getbands()) == samples
    if light in GRAY and samples > 1:
        return extra in ALPHA
    if tags.get(PLANAR) == 2 and extra:
        return whole and extra in ALPHA[1:]
    return whole or not every


@contextmanager
def _tifffile(file: Any) -> Iterator[Any]:
    try:
        from tifffile import TiffFile  # late: an extra
    except ModuleNotFoundError as error:
        raise UnreadableImage(
            "it is a damaged TIFF, or one that Pillow does not read right, such as with several bands,"
            " colors of 16 bits or numbers of 64 bits: pip install 'ccl-plugins[tiff]'"
        ) from error
    if not isinstance(file, str):
        file.seek(0)
    with TiffFile(file) as tiff:
        yield tiff


def _by_tifffile(file: Any, page: int | None, every: bool, frame: int) -> list[Pixels]:
    """The pages of a TIFF of any kind."""
    with _tifffile(file) as tiff:
        if not tiff.pages:
            raise UnreadableImage("it is a TIFF without a page")
        pages = [tiff.pages[frame]] if frame else [*tiff.pages]
        full = [each for each in pages if not each.subfiletype & NO_PAGE] or pages[:1]
        if len(tiff.pages) == 1 and (tiff.is_imagej or tiff.is_shaped):
            (first,), series = full, tiff.series[0]
            if series.size > first.size:  # several pages stand behind the one head
                stack = series.asarray().reshape(-1, *first.shape)
                return [_of_tiff(first, stack[i]) for i in chosen(len(stack), page, every)]
        wanted = [0] if frame else chosen(len(full), page, every)
        return [_of_tiff(full[each], _decoded(full[each])) for each in wanted]


def _decoded(page: Any) -> np.ndarray[Any, Any]:
    try:
        values: np.ndarray[Any, Any] = page.asarray()
    except (ImportError, KeyError, ValueError) as error:
        if isinstance(error, ImportError) or "imagecodecs" in str(error):
            raise UnreadableImage(
                f"its compression, {page.compression.name} with predictor {page.predictor}, needs"
                " imagecodecs: pip install imagecodecs"
            ) from error
        raise
    return values


def _of_tiff(page: Any, values: np.ndarray[Any, Any]) -> Pixels:
    light, extra = int(page.photometric), tuple(map(int, page.extrasamples))
    if page.axes not in ("YX", "YXS", "SYX") or light not in COLORS or page.bitspersample < 8:
        raise UnreadableImage(
            f"it is a TIFF of axes {page.axes} in {page.photometric.name}, of {page.bitspersample} bits:"
            " write it in gray, in RGB or as bands"
        )
    if page.axes != "YXS":
        values = values[..., None] if page.axes == "YX" else values.transpose(1, 2, 0)
    if light == WHITE_IS_ZERO:
        values = _inverted(values, page.bitspersample)
    elif light == PALETTE:
        values = (page.colormap[:, values[..., 0]] >> 8).astype(np.uint8).transpose(1, 2, 0)
    color = COLORS[light]
    if extra[:1] == (1,):
        raise UnreadableImage(
            "its colors are multiplied by alpha: write it with unmultiplied colors"
        )
    if extra in ALPHA and light in (*GRAY, 2):
        color += "A"
    elif light in GRAY and values.shape[-1] > 1:
        color = ""
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    orientation = page.tags.valueof(ORIENTATION, default=1)
    return Pixels(_turned(values, orientation), color)
