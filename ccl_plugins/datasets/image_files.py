"""Data sets whose images are files, and their splits."""

from __future__ import annotations

import contextlib
import os
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from PIL import Image
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.datasets.annotated import Annotated, annotations_of
from ccl_plugins.datasets.splitting import check_fraction, check_split
from ccl_plugins.files.images import (
    Levels,
    Mode,
    OtherNumbers,
    Range,
    deep_ranges,
    look_into,
    naming_errors,
    number_type,
    ranges_of,
    read_image,
    reading,
    written,
)
from ccl_plugins.files.looks import Look, Looks
from ccl_plugins.files.pixels import UnreadableImage
from ccl_plugins.files.tables import row_of
from ccl_plugins.metadata.columns import Encoded

OnError = Literal["error", "skip"]

NAMED = 5
"""The number of files that a warning names."""

TRIED = 16
"""The number of images, evenly spaced, that are compared with levels before training."""

RANGED = 64
"""The number of images from which levels are proposed."""


class Skipped(NamedTuple):
    """An image that was left out: its row in the source, from 0, its file, and the reason."""

    row: int
    path: str
    reason: str


class ImageFiles(Annotated):
    """Images in files, read when they are indexed, with the metadata and texts of `Annotated`.

    Args:
        paths: N files.
        group: An argument of `Annotated`.
        reading: The arguments mode, levels and page of `read_image`.
        source: The table or folder that lists the images, for messages.

    Attributes:
        rows: (N,) the images' rows in the source, from 0.
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
        reading: Mapping[str, Any],
        source: str,
    ) -> None:
        self.source = source
        self.rows = list(range(len(paths)))
        super().__init__(paths, metadata, vocabulary, None, group)
        # Rows with an empty text are left out by `checked`.
        self.texts = {name: list(column) for name, column in (texts or {}).items()}
        self.paths = list(paths)
        self.reading = dict(reading)
        self._looks: Looks | None = None

    def __getitem__(self, index: int) -> tuple[Image.Image | Tensor, int]:
        """The image and its target.

        Raises:
            UnreadableImage: If it cannot be read; the message names file and row.
        """
        try:
            image = read_image(self.paths[index], **self.reading)
        except OtherNumbers as error:
            raise UnreadableImage(f"{self._place(index)}: {error.what}: {self._cure()}") from error
        except UnreadableImage as error:
            raise UnreadableImage(f"{self._place(index)}: {error}") from error
        return image, self._target(index)

    def checked(self, on_error: OnError) -> ImageFiles:
        """This split, with its files checked before training.

        Args:
            on_error: An argument of `ImageFileDataset`.

        Raises:
            UnreadableImage: For missing files (the message names the first), if no image can be
                read, or if images hold numbers of several types and levels are given for one.
        """
        if on_error == "error":
            paths = waiting(f"look for the images of {self.source}", self.paths)
            missing = [i for i, path in enumerate(paths) if not os.path.isfile(path)]
            if missing:
                cure = 'on_error="skip" leaves them out'
                if len(missing) == len(self):
                    cure = 'root = "FOLDER" names the folder that the files are relative to'
                cure = _of_almost_this_name(self.paths[missing[0]]) or cure
                raise UnreadableImage(
                    f"{self._place(missing[0])}: there is no such file ({len(missing)} of"
                    f" {len(self)} are missing; {cure})"
                )
            self._check_levels()
            return self
        looks = self.examined()
        if not looks.unreadable:
            self._check_levels()
            return self
        skipped = [Skipped(self.rows[i], self.paths[i], why) for i, why in looks.unreadable.items()]
        first = "; ".join(f"{s.path}{self._listed(s.row)}: {s.reason}" for s in skipped[:NAMED])
        more = f"; and {len(skipped) - NAMED} more" if len(skipped) > NAMED else ""
        message = (
            f"{len(skipped)} of {len(self)} images of {self.source} cannot be used: {first}{more}"
        )
        if not len(looks):
            raise UnreadableImage(message)
        warnings.warn(f"{message}; they are left out, and listed in .skipped", stacklevel=3)
        usable = self.select(looks.rows)
        usable.skipped, usable._looks = skipped, looks.readable()
        usable._check_levels()
        return usable

    def examined(self) -> Looks:
        """The images' types, and the images that cannot be used, with the reason; all are decoded once."""
        if self._looks is None:
            with ThreadPoolExecutor() as pool:  # Pillow decodes without the interpreter's lock
                read = pool.map(self._examine, range(len(self)))
                found = waiting(f"read the images of {self.source}", read, len(self))
                looks, cure = Looks(), ""
                for index, seen in enumerate(found):
                    if isinstance(seen, Look):
                        looks.add(index, seen)
                    elif isinstance(seen, OtherNumbers):
                        cure = cure or self._cure()
                        looks.unreadable[index] = f"{seen.what}: {cure}"
                    else:
                        looks.unreadable[index] = str(seen)
            self._looks = looks
        return self._looks

    def ranges(self, most: int) -> tuple[dict[str, Range], int]:
        """The least and the greatest number in some images, by type, and the number of these images.

        Args:
            most: The number of images, evenly spaced among all.
        """
        rows = {*np.linspace(0, len(self) - 1, min(most, len(self))).round().astype(int)}
        mode, page = self.reading["mode"], self.reading["page"]
        return ranges_of((self.paths[row] for row in rows), mode, page)

    def select(self, rows: Sequence[int]) -> ImageFiles:
        """The images of some rows."""
        selected = ImageFiles(
            [self.paths[row] for row in rows],
            *annotations_of(self, rows),
            reading=self.reading,
            source=self.source,
        )
        selected.rows = [self.rows[row] for row in rows]
        return selected

    def _check_levels(self) -> None:
        """Refuse levels that lack a type of the images, and warn of levels that show almost nothing."""
        levels = self.reading["levels"]
        if levels is None:
            return
        if not isinstance(levels, Mapping):
            with ThreadPoolExecutor() as pool:
                types = pool.map(_type_of, self.paths)
                types = waiting(f"look at the images of {self.source}", types, len(self))
                example = dict(zip(types, self.paths, strict=True))
            example.pop("", None)
            if len(example) > 1:
                named = ", ".join(f"{each} in {path}" for each, path in sorted(example.items()))
                raise UnreadableImage(
                    f"the images of {self.source} have several depths, {named}, but levels = "
                    f"{written({'': levels})} are for one: {self._cure(by_type=True)}"
                )
        for numbers, (low, high) in self.ranges(TRIED)[0].items():
            black, white = (
                levels.get(numbers, (low, high)) if isinstance(levels, Mapping) else levels
            )
            if high - black < (white - black) / 8 or white - low < (white - black) / 8:
                warnings.warn(
                    f"levels = {written({'': (black, white)})} leave little to see: the {numbers} of"
                    f" {self.source} are from {low:.6g} to {high:.6g}",
                    stacklevel=4,
                )

    def _cure(self, by_type: bool = False) -> str:
        """The levels to give, proposed from some images."""
        ranges, count = self.ranges(RANGED)
        deep, plain = deep_ranges(ranges)
        if not deep:
            return "leave levels out, because the images have 8 bits"
        if by_type and plain:
            deep = {"uint8": (0, 255), **deep}
        proposed = written(deep, by_type=by_type or plain)
        unchanged = "; images of 8 bits stay as they are" if plain and not by_type else ""
        return (
            f"give the values of black and white, the same for all images: the range of {count} of "
            f"{len(self)} images is levels = {proposed}{unchanged}"
        )

    def place(self, index: int) -> str:
        """A sample's name in messages: its row in the source, or its file in a folder."""
        row = row_of(self.source, self.rows[index])
        return f"{row} of {self.source}" if self._is_table else self.paths[index]

    @property
    def _is_table(self) -> bool:
        return self.source.lower().endswith((".csv", ".tsv", ".parquet"))

    def _listed(self, row: int) -> str:
        return f" ({row_of(self.source, row)})" if self._is_table else ""

    def _place(self, index: int) -> str:
        place = f" ({self.place(index)})" if self._is_table else ""
        return f"image {self.paths[index]}{place}"

    def _examine(self, index: int) -> Look | UnreadableImage:
        """The type of an image, or the reason why it cannot be used."""
        path = self.paths[index]
        if empty := [name for name, column in self.texts.items() if not column[index]]:
            return UnreadableImage(f"{empty[0]!r} is empty")
        # To read a pipe or a device may take for ever.
        if os.path.exists(path) and not os.path.isfile(path):
            return UnreadableImage("it is not a file")
        try:
            return look_into(path, **self.reading)
        except UnreadableImage as error:
            return error


class ImageFileDataset:
    """A data set of image files, listed in one source for each split or one for both.

    Args:
        sources: The folder or table of both splits, or two: of train and of test.

    Args of subclasses:
        test_fraction: The part of each class that is kept for testing, between 0 and 1.
        seed: Seed of that choice.
        mode: ``"RGB"``, or ``"L"`` for gray images of one channel; images are converted, and turned
            upright by the orientation in their EXIF data. ``"all"``: a tensor (channels, height,
            width) of all channels of all pages of a file, such as a TIFF of microscopy, or of an
            array in a ``.npy`` file; the transform's ``mean`` and ``std`` then have as many
            numbers.
        levels: The values of pixels that become black and white, such as ``[0, 4095]`` for 12 bits;
            values outside are clipped. Images of more than 8 bits need levels; None: pixels do not
            change. For images of several depths, give levels by the type of their numbers, such as
            ``{uint8 = [0, 255], uint16 = [0, 4095]}``; images of 8 bits need none.
        page: The page to read, from 0, of files with several pages; None: files have one page, or
            ``mode = "all"`` reads all.
        group: The column of samples that belong together, such as ``"patient_id"``: they come into
            one split, are held out for validation together, and intervals are over groups.
        on_error: What to do with images that are missing, unreadable or truncated: ``"error"``: an
            error, before training for missing images, otherwise when an image is read. ``"skip"``:
            every image is decoded once before training; images that cannot be decoded are left out
            with a warning, and listed in the split's ``skipped``.
    """

    def __init__(
        self,
        sources: Sequence[Path],
        test_fraction: float | None,
        seed: int,
        mode: Mode,
        on_error: OnError,
        group: str | None = None,
        levels: Levels = None,
        page: int | None = None,
    ) -> None:
        check_fraction(test_fraction, seed)
        one_of("on_error", on_error, get_args(OnError))
        self.sources = sources
        self.test_fraction = test_fraction
        self.seed = seed
        self.mode: Mode = mode
        self.on_error: OnError = on_error
        self.group = group
        self.reading = reading(mode, levels, page)

    def __call__(self, split: str) -> ImageFiles:
        """The ``"train"`` or ``"test"`` split."""
        return self.unchecked(split).checked(self.on_error)

    def unchecked(self, split: str) -> ImageFiles:
        """A split whose files may be missing or unreadable."""
        check_split(split)
        place = int(split == "test" and len(self.sources) > 1)
        paths, encoded = self._read()
        files = ImageFiles(
            paths[place],
            encoded.tables[place],
            encoded.vocabulary,
            self._texts(place),
            self.group,
            reading=self.reading,
            source=str(self.sources[place]),
        )
        if len(self.sources) == 1:
            files = files.select(self._rows(split, files))
        return files

    def _read(self) -> tuple[list[list[str]], Encoded]:
        """The files of each source, and their metadata."""
        raise NotImplementedError

    def _texts(self, place: int) -> Mapping[str, Sequence[str]]:
        """The texts of the images in the source of this place among `sources`, by column."""
        return {}

    def _rows(self, split: str, files: ImageFiles) -> list[int]:
        """The rows of a split in the source of both."""
        return files.held_out(self.test_fraction or 0.0, self.seed)[split].tolist()


def _type_of(path: str) -> str:
    """The type of an image's numbers; empty if it cannot be read, which raises an error later."""
    with contextlib.suppress(UnreadableImage), naming_errors():
        return number_type(path)
    return ""


def _of_almost_this_name(path: str) -> str:
    """A remedy for a missing file, if there is one of almost the same name; else empty."""
    if "\\" in path and os.path.isfile(path.replace("\\", "/")):
        return "write / between folders"
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for other in sorted(os.listdir(folder or ".")):
            if _letters(other) == _letters(name):
                return (
                    f"{other!r} is there, whose name differs in case, blanks or the form of its letters:"
                    " write names in the table as files have them"
                )
    return ""


def _letters(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def waiting(what: str, files: Iterable[Any] | None = None, total: int | None = None) -> Any:
    """A progress bar over files, on a terminal, if it takes more than two seconds."""
    from tqdm import tqdm  # type: ignore[import-untyped]  # it ships no types

    return tqdm(files, what, total, unit=" files", delay=2, disable=None, leave=False)
