"""Data sets whose images are files, and their splits."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from PIL import Image, ImageOps
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.datasets.annotated import Annotated, rows_of
from ccl_plugins.datasets.splitting import check_fraction, check_split, hold_out
from ccl_plugins.metadata.columns import Encoded
from ccl_plugins.metadata.groups import groups_of

Mode = Literal["RGB", "L"]
OnError = Literal["error", "skip"]

OF_THE_SYSTEM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.EINTR)
"""Errors that say nothing about a file: too many open ones, no memory, a device or server that fails."""

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
        mode: ``"RGB"``, or ``"L"`` for gray images of one channel; images are converted.
        source: The table or folder that lists the images, for messages.

    Attributes:
        rows: (N,) the images' rows in the source.
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
        source: str,
    ) -> None:
        super().__init__(paths, metadata, vocabulary, texts, group)
        self.paths = list(paths)
        self.mode: Mode = mode
        self.source = source
        self.rows = list(range(len(paths)))

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        """The image and its target.

        Raises:
            UnreadableImage: If it cannot be read, naming file and row.
        """
        try:
            image = read_image(self.paths[index], self.mode)
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
            f"{len(skipped)} of {len(self)} images of {self.source} cannot be read: {first}{more}"
        )
        left_out = {each.row for each in skipped}
        kept = [i for i, row in enumerate(self.rows) if row not in left_out]
        if not kept:
            raise UnreadableImage(message)
        warnings.warn(f"{message}; they are left out, and listed in .skipped", stacklevel=3)
        found = self.select(kept)
        found.skipped = skipped
        return found

    def unreadable(self) -> list[Skipped]:
        """The images that cannot be read; all are decoded."""
        with ThreadPoolExecutor() as pool:  # Pillow decodes without the interpreter's lock
            read = pool.map(self._reason, self.paths)
            reasons = waiting(f"read the images of {self.source}", read, len(self))
            each = zip(self.rows, self.paths, reasons, strict=True)
            return [Skipped(row, path, reason) for row, path, reason in each if reason]

    def select(self, rows: Sequence[int]) -> ImageFiles:
        """The images of some rows."""
        paths = [self.paths[row] for row in rows]
        found = ImageFiles(paths, *rows_of(self, rows), mode=self.mode, source=self.source)
        found.rows = [self.rows[row] for row in rows]
        return found

    def _place(self, index: int) -> str:
        return f"image {self.paths[index]} (row {self.rows[index]} of {self.source}, from 0)"

    def _reason(self, path: str) -> str:
        if os.path.exists(path) and not os.path.isfile(path):
            return "it is no file"  # to read a pipe or a device may take for ever
        try:
            read_image(path, self.mode)
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
            upright as the orientation in their EXIF data says.
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
        return hold_out(files.targets, fraction, self.seed, groups)[split].tolist()


def waiting(what: str, files: Iterable[Any] | None = None, total: int | None = None) -> Any:
    """A progress bar over files, on a terminal, if it takes more than two seconds."""
    from tqdm import tqdm  # type: ignore[import-untyped]  # it ships no types

    return tqdm(files, what, total, unit=" files", delay=2, disable=None, leave=False)


def read_image(path: str, mode: Mode) -> Image.Image:
    """The decoded image, upright: turned as the orientation in its EXIF data says.

    Raises:
        UnreadableImage: If it is missing, truncated or another kind of file, or if its pixels have more
            than 8 bits.
        OSError: If the system fails, as with too many open files; the image may be fine.
    """
    try:
        with Image.open(path) as image:
            if image.mode.startswith(("I", "F")):
                raise UnreadableImage(
                    f"its pixels, of mode {image.mode}, have more than 8 bits: convert it to 8 bits"
                )
            return ImageOps.exif_transpose(image).convert(mode)
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
