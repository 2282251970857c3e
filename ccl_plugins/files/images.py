"""The conversion of a file, a PIL image or an array to an image of 8 bits."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, get_args

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ccl_plugins.arguments import one_of, whole
from ccl_plugins.files.looks import Look, look
from ccl_plugins.files.pixels import (
    Pixels,
    Source,
    UnreadableImage,
    is_plain,
    read_pages,
    type_in_head,
    upright,
)

Mode = Literal["RGB", "L", "all"]
Range: TypeAlias = tuple[float, float]
Levels: TypeAlias = Range | Mapping[str, Range] | None
"""The numbers that become black and white: for all images, or by the type of their numbers."""

OF_THE_SYSTEM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.EINTR)
"""Errors that are not a file's fault: too many open files, no memory, a failing device or server."""

OTHER_COLORS = ("CMYK", "YCbCr", "LAB", "HSV")
"""Pillow's modes whose channels are neither gray nor red, green and blue."""

TYPES = (
    *(f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64"),
)
"""The types that the numbers of pixels may have."""

READ = "ccl_plugins: read"
"""The key in a PIL image's ``info`` which says that levels were applied and must not be applied again."""


class OtherNumbers(UnreadableImage):
    """An image whose numbers are not of 8 bits, or do not fit the given levels.

    Args:
        what: The problem.
        cure: The remedy; empty if ``what`` includes it, such as in an error from a worker process.
    """

    def __init__(self, what: str, cure: str = "") -> None:
        super().__init__(f"{what}: {cure}" if cure else what)
        self.what = what


def read_image(
    image: Any, mode: Mode | None = None, levels: Levels = None, page: int | None = None
) -> Any:
    """An image of 8 bits, upright: turned as the orientation in its EXIF data says.

    Data sets, ``encode``, transforms and frozen encoders all read images by this function, so that
    an image has the same pixels from its file, as an open image, and as an array.

    Args:
        image: A file, its path or open; an image of PIL; or a numpy array, (height, width), (channels,
            height, width) or, of at most four channels, (height, width, channels), with the numbers that
            the file holds. A tensor of uint8, and a sample of a data set, is already such an image.
        mode: See `ImageFileDataset`; None: gray images become gray and others RGB; arrays of other
            numbers than uint8, and objects that are not images, do not change.
        levels: See `ImageFileDataset`.
        page: See `ImageFileDataset`.

    Returns:
        A PIL image of 8 bits, or for ``"all"`` a uint8 tensor (channels, height, width).

    Raises:
        UnreadableImage: If it is missing, truncated or another kind of file; if its pixels have more than 8
            bits and there are no ``levels`` for them; if it has several pages and ``page`` is not
            given; or if it cannot be read right.
        OSError: If the system fails, such as with too many open files; the image may be fine.
    """
    if isinstance(image, Tensor):
        if mode is None or image.dtype == torch.uint8:
            return image
        image = image.detach().cpu().numpy()
    if isinstance(image, np.ndarray):
        if mode is None and image.dtype != np.uint8:
            return image
        return _finished([_of_array(image, mode)], mode, levels)
    if not isinstance(image, str | Path | Image.Image) and not hasattr(image, "read"):
        return image
    try:
        return _read(str(image) if isinstance(image, Path) else image, mode, levels, page)
    except Exception as error:
        raise _named(error) from error


@contextmanager
def naming_errors() -> Iterator[None]:
    """Turn decoders' errors about broken files into an `UnreadableImage`; errors of the system stay."""
    try:
        yield
    except Exception as error:
        if (named := _named(error)) is error:
            raise
        raise named from error


def _named(error: Exception) -> Exception:
    """An error that names the fault of a file; the same error if it does so, or is the system's."""
    if isinstance(error, UnreadableImage | MemoryError):
        return error
    if isinstance(error, OSError):
        if error.errno in OF_THE_SYSTEM:
            return error
        return UnreadableImage(os.strerror(error.errno) if error.errno else str(error))
    # Pillow's decoders raise errors of many types for broken files: SyntaxError for PNG, ValueError
    # for TIFF, struct.error for the EXIF data of JPEG.
    return UnreadableImage(f"{type(error).__name__}: {error}")


def pages_in(image: str | BinaryIO, mode: Mode | None, page: int | None) -> list[Pixels]:
    """The pages of a file to read, with the file's numbers; for a ``.npy`` file, its array."""
    if not (isinstance(image, str) and image.lower().endswith(".npy")):
        return read_pages(image, page, mode == "all")
    if mode != "all":
        raise UnreadableImage('an array of channels is read with mode = "all"')
    return [_of_array(np.load(image, allow_pickle=False), mode)]


def reading(mode: Mode, levels: Levels, page: int | None) -> dict[str, Any]:
    """The checked arguments of `read_image`, without the image, as plain data.

    Raises:
        ValueError: If levels are not of two numbers that rise, or of a type that pixels do not have, or if
            the page is below 0.
    """
    one_of("mode", mode, get_args(Mode))
    if page is not None:
        whole("page", page, 0)
    by_type = levels if isinstance(levels, Mapping) else {"": levels}
    plain: dict[str, Any] = {}
    for numbers, ends in sorted(by_type.items()):
        if numbers:
            one_of("the type of levels", numbers, TYPES)
        if ends is not None and not (len(ends) == 2 and ends[0] < ends[1]):
            raise ValueError(
                f"levels must be the pixels' values of black and white, such as [0, 4095], not {ends!r}"
            )
        plain[numbers] = ends and [*map(float, ends)]
    return {
        "mode": mode,
        "levels": plain if isinstance(levels, Mapping) else plain[""],
        "page": page,
    }


def look_into(path: str, mode: Mode, levels: Levels, page: int | None) -> Look:
    """The look of a file, which is read as an image.

    Raises:
        UnreadableImage: See `read_image`.
    """
    with naming_errors():
        pages = pages_in(path, mode, page)
        image = _finished(pages, mode, levels)
    channels = sum(values.shape[-1] for values, _ in pages)
    several = f"{channels} channels" if channels > 1 else "1 channel"
    in_pages = f" in {len(pages)} pages" if len(pages) > 1 else ""
    seen = look(image, f"{pages[0].values.dtype}, {several}{in_pages}")
    assert seen is not None
    return seen


def ranges_of(paths: Iterable[str], mode: Mode, page: int | None) -> tuple[dict[str, Range], int]:
    """The least and the greatest number in files, by type, and the number of readable files."""
    found: dict[str, Range] = {}
    count = 0
    for path in paths:
        with suppress(OSError), naming_errors():
            for values, _ in pages_in(path, mode, page):
                finite = values[np.isfinite(values)]
                low, high = found.get(values.dtype.name, (np.inf, -np.inf))
                ends = min(low, finite.min().item()), max(high, finite.max().item())
                found[values.dtype.name] = ends
            count += 1
    return found, count


def deep_ranges(ranges: Mapping[str, Range]) -> tuple[dict[str, Range], bool]:
    """The ranges of images of more than 8 bits, as levels, and whether other images have 8 bits."""
    deep = {
        name: (low, max(high, low + 1)) for name, (low, high) in ranges.items() if name != "uint8"
    }
    return deep, "uint8" in ranges and bool(deep)


def proposed_levels(ranges: Mapping[str, Range]) -> Levels:
    """The levels of images with these ranges; None if all have 8 bits."""
    deep, plain = deep_ranges(ranges)
    return deep if plain or len(deep) > 1 else next(iter(deep.values()), None)


def number_type(path: str) -> str:
    """The type of the numbers in a file, such as ``"uint16"``, from its head."""
    if path.lower().endswith(".npy"):
        return str(np.load(path, mmap_mode="r", allow_pickle=False).dtype)
    return type_in_head(path)


def _read(image: Source, mode: Mode | None, levels: Levels, page: int | None) -> Any:
    if isinstance(image, str) and image.lower().endswith(".npy"):
        return _finished(pages_in(image, mode, page), mode, levels)
    if isinstance(image, Image.Image):
        return _of_picture(image, mode, levels, page)
    try:
        picture = Image.open(image)
    except UnidentifiedImageError:  # or a kind of TIFF that is read in another way
        return _finished(read_pages(image, page, mode == "all"), mode, levels)
    with picture:
        return _of_picture(picture, mode, levels, page)


def _of_picture(image: Image.Image, mode: Mode | None, levels: Levels, page: int | None) -> Any:
    if READ in image.info:
        levels = None
    if mode == "all" or page or _range_of("uint8", levels) or not is_plain(image):
        return _finished(read_pages(image, page, mode == "all"), mode, levels)
    return _in_mode(upright(image), mode, levels)


def _finished(pages: list[Pixels], mode: Mode | None, levels: Levels) -> Any:
    """An image of 8 bits, as `read_image` returns it."""
    if mode == "all":
        values = _in_8_bits(_as_channels([each.values for each in pages]), levels, mode)
        # A copy: PIL's arrays are read-only.
        return torch.from_numpy(np.array(values.transpose(2, 0, 1), order="C"))
    ((values, color),) = pages
    if not color:
        raise UnreadableImage(
            f'it has {values.shape[-1]} bands and no color: mode = "all" reads all as channels'
        )
    if color in OTHER_COLORS and values.dtype == np.uint8:  # levels are of red, green and blue
        values, color = np.asarray(_picture(values, color).convert("RGB")), "RGB"
    return _in_mode(_picture(_in_8_bits(values, levels, mode), color), mode, levels)


def _as_channels(pages: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    if len(pages) == 1:
        return pages[0]
    kinds = {f"{each.shape[1]}x{each.shape[0]} of {each.dtype}" for each in pages}
    if len(kinds) > 1:
        raise UnreadableImage(
            f"its {len(pages)} pages are not channels of one image, but {', '.join(sorted(kinds))}: page ="
            " 0 reads the first"
        )
    return np.concatenate(pages, axis=2)


def _picture(values: np.ndarray[Any, Any], color: str) -> Image.Image:
    bands = values[..., : Image.getmodebands(color)]
    return Image.frombytes(color, (values.shape[1], values.shape[0]), bands.tobytes())


def _in_mode(image: Image.Image, mode: Mode | None, levels: Levels) -> Image.Image:
    """A PIL image of 8 bits in a mode; None: gray or RGB, as the image is."""
    target = mode or ("L" if Image.getmodebase(image.mode) == "L" else "RGB")
    # An image of a file is copied, since it holds the file.
    read = image if type(image) is Image.Image and image.mode == target else image.convert(target)
    if levels is not None:
        read = read.copy() if read is image else read
        read.info[READ] = True
    return read


def _of_array(array: np.ndarray[Any, Any], mode: Mode | None) -> Pixels:
    """The pixels of an array, (height, width) or with the channels first or, for a few, last."""
    if array.dtype == bool:
        array = array.astype(np.uint8) * 255
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or not array.size:
        raise UnreadableImage(f"an array of shape {array.shape} is not (channels, height, width)")
    last = array.shape[0] > 4 >= array.shape[2]
    if last and mode == "all":  # all channels are kept, and stand first
        if array.shape[1] > 4:
            raise UnreadableImage(
                f"an array of shape {array.shape} has its channels last: write it as (channels, height,"
                " width)"
            )
        last = False
    values = array if last else array.transpose(1, 2, 0)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    return Pixels(values, {1: "L", 3: "RGB", 4: "RGBA"}.get(values.shape[-1], ""))


def _range_of(numbers: str, levels: Levels) -> Range | None:
    """The levels of numbers of a type."""
    return levels.get(numbers) if isinstance(levels, Mapping) else levels


def _in_8_bits(
    values: np.ndarray[Any, Any], levels: Levels, mode: Mode | None
) -> np.ndarray[Any, Any]:
    """The pixels as uint8, unchanged or with black and white at these levels."""
    numbers, kind = values.dtype, values.dtype.kind
    if levels is None and numbers == np.uint8:
        return values
    if kind not in "uif":
        raise UnreadableImage(f"its pixels are {numbers}, not numbers from black to white")
    range_ = _range_of(numbers.name, levels)
    if range_ is None:
        if numbers == np.uint8:
            return values
        ends = (values.min().item(), values.max().item())
        cure = f"the same for all images, as levels = {written({numbers.name: ends})}"
        raise OtherNumbers(
            f"its pixels, {numbers} from {_short(ends[0])} to {_short(ends[1])}, "
            + ("have more than 8 bits" if numbers.itemsize > 1 else "may be negative"),
            f"say which are black and white, {cure}"
            if mode
            else "bring it to 8 bits, with the same black and white as all others",
        )
    black, white = range_
    if kind in "iu" and levels is range_ and white > 2 * np.iinfo(numbers).max:
        raise OtherNumbers(
            f"levels = {written({'': range_})} are for deeper images than this one of {numbers}",
            "give them by type, as levels = {uint8 = [0, 255], uint16 = "
            + f"{written({'': range_})}}}",
        )
    wide = numbers.itemsize > (2 if kind in "iu" else 4)
    given: Any = values.astype(np.float64 if wide else np.float32)
    shares = (given - black) / (white - black)
    if kind == "f" and (unknown := int(np.isnan(shares).sum())):
        raise UnreadableImage(f"{unknown} of its pixels are not numbers (NaN)")
    return (255 * shares.clip(0, 1)).round().astype(np.uint8)


def written(levels: Mapping[str, Range], by_type: bool = False) -> str:
    """Levels in the form of a configuration: by type, or those of a single type without its name."""
    ends = {name: f"[{_short(low)}, {_short(high)}]" for name, (low, high) in levels.items()}
    if len(ends) == 1 and not by_type:
        return next(iter(ends.values()))
    return f"{{{', '.join(f'{name} = {each}' for name, each in ends.items())}}}"


def _short(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() else f"{number:.6g}"
