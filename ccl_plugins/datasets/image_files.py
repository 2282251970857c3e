"""Data sets whose images are files, and their splits."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from PIL import Image, ImageOps, ImageSequence
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.datasets.annotated import Annotated, rows_of
from ccl_plugins.datasets.splitting import check_fraction, check_split, hold_out
from ccl_plugins.metadata.columns import Encoded
from ccl_plugins.metadata.groups import groups_of

Mode = Literal["RGB", "L", "all"]
OnError = Literal["error", "skip"]

OF_THE_SYSTEM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.EINTR)
"""Errors that say nothing about a file: too many open ones, no memory, a device or server that fails."""

OTHER_COLORS = ("CMYK", "YCbCr", "LAB", "HSV")
"""Pillow's modes whose channels are neither gray nor red, green and blue."""

NAMED = 5
"""The number of files that a warning names."""


class UnreadableImage(OSError):
    """An image that is missing, truncated, or another kind of file."""


class Skipped(NamedTuple):
    """An image that was left out: its row in the source, its file, and why."""

    row: int
    path: str
    reason: str


class ImageFiles(Annotated):
    """Images in files, read when they are indexed; metadata and texts are as `Annotated` takes them.

    Args:
        paths: N files.
        group: As `Annotated` takes it.
        mode: As `ImageFileDataset` takes it.
        levels: As `ImageFileDataset` takes it.
        source: The table or folder that lists the images, for messages.

    Attributes:
        rows: (N,) the images' rows in the source.
        read_as: Mode and levels, which make other images of the same files.
        skipped: Images of the source that were left out, as `Skipped`.
    """

    def __init__(
        self,
        paths: Sequence[str],
        metadata: Mapping[str, Tensor],
        vocabulary: Mapping[str, list[str]],
        texts: Mapping[str, Sequence[str]] | None = None,
        group: str | None = None,
        *,
        mode: Mode,
        levels: tuple[float, float] | None = None,
        source: str,
    ) -> None:
        super().__init__(paths, metadata, vocabulary, None, group)
        # Rows with an empty text are left out by `checked`.
        self.texts = {name: list(column) for name, column in (texts or {}).items()}
        self.paths = list(paths)
        self.mode: Mode = mode
        self.levels = levels
        self.read_as = f"{mode}, {levels and [*map(float, levels)]}"
        self.source = source
        self.rows = list(range(len(paths)))

    def __getitem__(self, index: int) -> tuple[Image.Image | Tensor, int]:
        """The image and its target.

        Raises:
            UnreadableImage: If it cannot be read, naming file and row.
        """
        try:
            image = read_image(self.paths[index], self.mode, self.levels)
        except UnreadableImage as error:
            raise UnreadableImage(f"{self._place(index)}: {error}") from error
        return image, int(self.targets[index])

    def checked(self, on_error: OnError) -> ImageFiles:
        """This split, with its files checked before training.

        Args:
            on_error: As `ImageFileDataset` takes it.

        Raises:
            UnreadableImage: For missing files, naming the first; or if no image can be read.
        """
        if on_error == "error":
            paths = waiting(f"look for the images of {self.source}", self.paths)
            missing = [i for i, path in enumerate(paths) if not os.path.isfile(path)]
            if missing:
                raise UnreadableImage(
                    f"{self._place(missing[0])}: there is no such file ({len(missing)} of"
                    f' {len(self)} are missing; on_error="skip" leaves them out)'
                )
            return self
        if not (skipped := self.unreadable()):
            return self
        first = "; ".join(f"{s.path} (row {s.row}): {s.reason}" for s in skipped[:NAMED])
        more = f"; and {len(skipped) - NAMED} more" if len(skipped) > NAMED else ""
        message = (
            f"{len(skipped)} of {len(self)} images of {self.source} cannot be used: {first}{more}"
        )
        left_out = {each.row for each in skipped}
        kept = [i for i, row in enumerate(self.rows) if row not in left_out]
        if not kept:
            raise UnreadableImage(message)
        warnings.warn(f"{message}; they are left out, and listed in .skipped", stacklevel=3)
        usable = self.select(kept)
        usable.skipped = skipped
        return usable

    def unreadable(self) -> list[Skipped]:
        """The images that cannot be read or have no text; all are decoded."""
        with ThreadPoolExecutor() as pool:  # Pillow decodes without the interpreter's lock
            read = pool.map(self._reason, range(len(self)))
            reasons = waiting(f"read the images of {self.source}", read, len(self))
            each = zip(self.rows, self.paths, reasons, strict=True)
            return [Skipped(row, path, reason) for row, path, reason in each if reason]

    def select(self, rows: Sequence[int]) -> ImageFiles:
        """The images of some rows."""
        paths = [self.paths[row] for row in rows]
        selected = ImageFiles(
            paths, *rows_of(self, rows), mode=self.mode, levels=self.levels, source=self.source
        )
        selected.rows = [self.rows[row] for row in rows]
        return selected

    def _place(self, index: int) -> str:
        return f"image {self.paths[index]} (row {self.rows[index]} of {self.source}, from 0)"

    def _reason(self, index: int) -> str:
        path = self.paths[index]
        if empty := [name for name, column in self.texts.items() if not column[index]]:
            return f"{empty[0]!r} is empty"
        if os.path.exists(path) and not os.path.isfile(path):
            return "it is no file"  # to read a pipe or a device may take for ever
        try:
            read_image(path, self.mode, self.levels)
        except UnreadableImage as error:
            return str(error)
        return ""


class ImageFileDataset:
    """A data set of image files, listed in one source for each split or one for both.

    Args:
        sources: The folder or table of both splits, or those of train and test.

    Args of subclasses:
        test_fraction: The part of each class that is kept for testing, between 0 and 1.
        seed: Of that choice.
        mode: ``"RGB"``, or ``"L"`` for gray images of one channel; images are converted, and turned
            upright as the orientation in their EXIF data says.  ``"all"``: a tensor (channels, height,
            width) of all channels of all pages of a file, such as a TIFF of microscopy, or of an array in
            a ``.npy`` file; the transform's ``mean`` and ``std`` then have as many numbers.
        levels: The values of pixels that become black and white, as ``[0, 4095]`` for 12 bits; those
            outside are cut.  Images of more than 8 bits need it; None: the pixels as they are.
        group: The column of samples that belong together, as ``"patient_id"``: they come into one split,
            are held out for validation together, and intervals are over groups.
        on_error: What to do with images that are missing, unreadable or truncated: ``"error"``: an error,
            before training for missing ones, else when one is read.  ``"skip"``: every image is decoded
            once before training; those that cannot be are left out with a warning, and listed in the
            split's ``skipped``.
    """

    def __init__(
        self,
        sources: Sequence[Path],
        test_fraction: float | None,
        seed: int,
        mode: Mode,
        on_error: OnError,
        group: str | None = None,
        levels: tuple[float, float] | None = None,
    ) -> None:
        check_fraction(test_fraction, seed)
        one_of("mode", mode, get_args(Mode))
        one_of("on_error", on_error, get_args(OnError))
        self.sources = sources
        self.test_fraction = test_fraction
        self.seed = seed
        self.mode: Mode = mode
        self.on_error: OnError = on_error
        self.group = group
        if levels is not None and not (len(levels) == 2 and levels[0] < levels[1]):
            raise ValueError(
                f"levels must be the pixels' values of black and white, as [0, 4095], not {levels!r}"
            )
        self.levels = levels

    def __call__(self, split: str) -> ImageFiles:
        """The ``"train"`` or ``"test"`` split."""
        check_split(split)
        place = int(split == "test" and len(self.sources) > 1)
        paths, encoded = self._read()
        files = ImageFiles(
            paths[place],
            encoded.tables[place],
            encoded.vocabulary,
            self._texts(place),
            self.group,
            mode=self.mode,
            levels=self.levels,
            source=str(self.sources[place]),
        )
        if len(self.sources) == 1:
            files = files.select(self._rows(split, files))
        return files.checked(self.on_error)

    def _read(self) -> tuple[list[list[str]], Encoded]:
        """The files of each source, and their metadata."""
        raise NotImplementedError

    def _texts(self, place: int) -> Mapping[str, Sequence[str]]:
        """The texts of the images in the source of this place among `sources`, by column."""
        return {}

    def _rows(self, split: str, files: ImageFiles) -> list[int]:
        """The rows of a split in the source of both."""
        fraction, groups = self.test_fraction or 0.0, groups_of(files)
        words = files.vocabulary.get("label")
        return hold_out(files.targets, fraction, self.seed, groups, words)[split].tolist()


def waiting(what: str, files: Iterable[Any] | None = None, total: int | None = None) -> Any:
    """A progress bar over files, on a terminal, if it takes more than two seconds."""
    from tqdm import tqdm  # type: ignore[import-untyped]  # it ships no types

    return tqdm(files, what, total, unit=" files", delay=2, disable=None, leave=False)


def read_image(
    path: str, mode: Mode, levels: tuple[float, float] | None = None
) -> Image.Image | Tensor:
    """The decoded image, upright: turned as the orientation in its EXIF data says.

    Args:
        path: The file.
        mode: As `ImageFileDataset` takes it.
        levels: As `ImageFileDataset` takes it.

    Returns:
        A PIL image of 8 bits, or for ``"all"`` a uint8 tensor (channels, height, width).

    Raises:
        UnreadableImage: If it is missing, truncated or another kind of file, or if its pixels have more
            than 8 bits and there are no ``levels``.
        OSError: If the system fails, as with too many open files; the image may be fine.
    """
    try:
        if mode == "all":
            return torch.from_numpy(_in_8_bits(np.concatenate(_channels(path)), levels))
        if path.lower().endswith(".npy"):
            raise UnreadableImage('an array of channels is read with mode = "all"')
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image)
            if levels is not None and not is_deep(upright):
                if upright.mode in OTHER_COLORS:  # an array does not say so
                    upright = upright.convert("RGB")
                upright = Image.fromarray(_in_8_bits(_pixels(upright), levels))
            return as_mode(upright, mode, levels)
    except (UnreadableImage, MemoryError):
        raise
    except OSError as error:
        if error.errno in OF_THE_SYSTEM:
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UnreadableImage(reason) from error
    except Exception as error:
        # Pillow's decoders raise errors of many types for broken files: SyntaxError for PNG, ValueError
        # for TIFF, struct.error for the EXIF data of JPEG.
        raise UnreadableImage(f"{type(error).__name__}: {error}") from error


def is_deep(image: Image.Image) -> bool:
    """Whether the pixels of a PIL image have more than 8 bits."""
    return image.mode.startswith(("I", "F"))


def as_mode(
    image: Image.Image, mode: str, levels: tuple[float, float] | None = None
) -> Image.Image:
    """A PIL image in a mode of 8 bits; what has more bits is brought to them by ``levels``.

    Raises:
        UnreadableImage: For an image of more than 8 bits without ``levels``, which PIL would cut.
    """
    if is_deep(image):
        image = Image.fromarray(_in_8_bits(_pixels(image), levels))
    return image.convert(mode)


def _channels(path: str) -> list[np.ndarray]:
    """The pages of a file, each (channels, height, width), with the numbers that it holds."""
    if path.lower().endswith(".npy"):
        array = np.load(path, allow_pickle=False)
        if array.ndim not in (2, 3):
            raise UnreadableImage(
                f"an array of shape {array.shape} is no (channels, height, width)"
            )
        return [array if array.ndim == 3 else array[None]]
    with Image.open(path) as image:
        pages = [_pixels(ImageOps.exif_transpose(page)) for page in ImageSequence.Iterator(image)]
    return [page[None] if page.ndim == 2 else page.transpose(2, 0, 1) for page in pages]


def _pixels(image: Image.Image) -> np.ndarray:
    """(height, width[, channels]): the values of the pixels, colors in place of a palette's numbers."""
    if image.mode in ("1", "P"):
        image = image.convert("L" if image.mode == "1" else "RGB")
    return np.asarray(image)


def _in_8_bits(pixels: np.ndarray, levels: tuple[float, float] | None) -> np.ndarray:
    """The pixels as uint8: as they are, or with black and white at these levels."""
    if levels is None:
        if pixels.dtype != np.uint8:
            raise UnreadableImage(
                f"its pixels, {pixels.dtype} from {pixels.min()} to {pixels.max()}, have more than 8 bits:"
                " say which are black and white, the same for all images, as levels = [0, 65535]"
            )
        return np.ascontiguousarray(pixels)
    black, white = levels
    shares = (pixels.astype(np.float32) - black) / (white - black)
    return (255 * shares.clip(0, 1)).round().astype(np.uint8)
