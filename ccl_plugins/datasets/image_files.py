"""A split of a data set whose images are files."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

from PIL import Image
from torch import Tensor, tensor
from torch.utils import data

Mode = Literal["RGB", "L"]
OnError = Literal["error", "skip"]

SHOWN = 5
"""How many files a warning names."""


class UnreadableImage(OSError):
    """An image that is missing, no image, or truncated."""


class Skipped(NamedTuple):
    """An image that was left out: its row in the source, its file, and why."""

    row: int
    path: str
    reason: str


class ImageFiles(data.Dataset[tuple[Image.Image, int]]):
    """Images in files, with their metadata; read when they are asked for.

    Args:
        paths: N files.
        metadata: Columns with one row per image, always with ``label``, class ids.
        vocabulary: For columns of words, the word of each id.
        mode: ``"RGB"``, or ``"L"`` for gray images of one channel; images are converted.
        source: Where the rows are from, for messages.
        rows: (N,) the images' rows in the source; None: 0 to N - 1.
        skipped: Images of the source that were left out.
    """

    def __init__(
        self,
        paths: Sequence[str],
        metadata: Mapping[str, Tensor],
        vocabulary: Mapping[str, list[str]],
        *,
        mode: Mode = "RGB",
        source: str,
        rows: Sequence[int] | None = None,
        skipped: Sequence[Skipped] = (),
    ) -> None:
        self.paths = list(paths)
        self.metadata = dict(metadata)
        self.vocabulary = dict(vocabulary)
        self.mode: Mode = mode
        self.source = source
        self.rows = list(range(len(self.paths)) if rows is None else rows)
        self.skipped = list(skipped)
        self.targets = self.metadata["label"]

    def __len__(self) -> int:
        """Number of images."""
        return len(self.paths)

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
        """This split, looked through before training.

        Args:
            on_error: ``"error"``: every file must be there; what cannot be decoded is an error when it
                is asked for.  ``"skip"``: every file is decoded once, which takes its time, and those
                that cannot be are left out, with a warning; they are listed in ``skipped``.

        Raises:
            UnreadableImage: For missing files, naming the first; or if no image can be read.
        """
        if on_error == "error":
            missing = [i for i, path in enumerate(self.paths) if not os.path.isfile(path)]
            if missing:
                raise UnreadableImage(
                    f"{self._place(missing[0])}: there is no such file ({len(missing)} of"
                    f' {len(self)} are missing; on_error="skip" leaves them out)'
                )
            return self
        with ThreadPoolExecutor() as pool:  # decoding leaves Python to other threads
            reasons = list(pool.map(self._reason, self.paths))
        skipped = [
            Skipped(self.rows[i], self.paths[i], reason)
            for i, reason in enumerate(reasons)
            if reason
        ]
        if not skipped:
            return self
        first = "; ".join(f"{s.path} (row {s.row}): {s.reason}" for s in skipped[:SHOWN])
        more = f"; and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        message = (
            f"{len(skipped)} of {len(self)} images of {self.source} cannot be read: {first}{more}"
        )
        kept = [i for i, reason in enumerate(reasons) if not reason]
        if not kept:
            raise UnreadableImage(message)
        warnings.warn(f"{message}; they are left out, and listed in .skipped", stacklevel=3)
        return ImageFiles(
            [self.paths[i] for i in kept],
            {name: column[tensor(kept)] for name, column in self.metadata.items()},
            self.vocabulary,
            mode=self.mode,
            source=self.source,
            rows=[self.rows[i] for i in kept],
            skipped=skipped,
        )

    def _place(self, index: int) -> str:
        return f"image {self.paths[index]} (row {self.rows[index]} of {self.source}, from 0)"

    def _reason(self, path: str) -> str:
        try:
            read_image(path, self.mode)
        except UnreadableImage as error:
            return str(error)
        return ""


def read_image(path: str, mode: Mode) -> Image.Image:
    """The decoded image.

    Raises:
        UnreadableImage: If it is missing, no image, truncated, or has pixels of more than 8 bits.
        OSError: If the system fails, as with too many open files, which says nothing of the image.
    """
    try:
        with Image.open(path) as image:
            if image.mode.startswith(("I", "F")):
                raise UnreadableImage(f"its pixels, of mode {image.mode}, have more than 8 bits")
            return image.convert(mode)
    except UnreadableImage:
        raise
    except OSError as error:
        if error.errno not in (None, errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EISDIR):
            raise
        what = os.strerror(error.errno) if error.errno else str(error)
        raise UnreadableImage(what) from error
    except (SyntaxError, ValueError, Image.DecompressionBombError) as error:
        # What Pillow's decoders say of broken PNG, TIFF and GIF files, and of ones too large.
        raise UnreadableImage(f"{type(error).__name__}: {error}") from error
