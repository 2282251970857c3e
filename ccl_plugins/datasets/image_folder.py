"""Images in a folder per class."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ccl_plugins.datasets.image_files import ImageFileDataset, OnError, waiting
from ccl_plugins.files.images import Levels, Mode
from ccl_plugins.metadata.columns import Encoded, encode
from ccl_plugins.protocols import ValueType

OTHER_ENDINGS = (
    ".npy",
    ".npz",
    ".heic",
    ".heif",
    ".jxl",
    ".dcm",
    ".czi",
    ".nd2",
    ".lif",
    ".svs",
    ".exr",
    ".nii",
    ".mha",
    ".nrrd",
)
"""Endings of image files that Pillow does not read."""

NO_IMAGES = (".pdf", ".ps", ".mpg", ".mpeg", ".h5", ".hdf", ".bufr", ".grib", ".emf", ".wmf")
"""Endings that Pillow knows but that are seldom images."""


class ImageFolder(ImageFileDataset):
    """Images in a folder per class: ``root/train/cat/1.jpg``, ``root/test/cat/2.jpg``.

    Each class is a folder in the folder of a split, with images at any depth: files that end in .jpg,
    .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff or .webp, or with ``mode = "all"`` in .npy. A warning
    counts images with other endings. Hidden files and folders are left out. Links are followed; a
    file or folder that several links lead to is read once. Columns: ``label``, the place of the
    class's name in sorted order, over both splits; -1, a missing class, if the folder has images
    but no folders of classes.

    Args:
        root: The folder.
        train: The folder in it to train on.
        test: The folder in it to test on; often called ``val``.
        test_fraction: The part of each class that is kept for testing, between 0 and 1, if one folder holds
            both splits: ``root/cat/1.jpg``.  ``train`` and ``test`` are then ignored.

    Raises:
        ValueError: If a parameter is out of its range.
        FileNotFoundError: On use, if a folder is missing or empty, or a class has no images.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"root": "images"}

    def __init__(
        self,
        root: str | Path,
        train: str = "train",
        test: str = "test",
        test_fraction: float | None = None,
        seed: int = 0,
        mode: Mode = "RGB",
        on_error: OnError = "error",
        levels: Levels = None,
        page: int | None = None,
    ) -> None:
        root = Path(root).expanduser()
        folders = [root / train, root / test] if test_fraction is None else [root]
        super().__init__(folders, test_fraction, seed, mode, on_error, levels=levels, page=page)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return {"label": "categorical"}

    def _read(self) -> tuple[list[list[str]], Encoded]:
        listed = [list_images(folder, self.mode == "all") for folder in self.sources]
        said = [line for each in listed for line in each.said]
        if len(listed) > 1 and any(each.linked for each in listed):
            train, test = ({_file(path): path for path, _ in each.images} for each in listed)
            if both := sorted(train.keys() & test.keys()):
                said.append(
                    f"{len(both)} images are both in train and in test, through links: "
                    f"{test[both[0]]} is {train[both[0]]}"
                )
        for line in said:
            warnings.warn(line, stacklevel=3)
        paths = [[path for path, _ in each.images] for each in listed]
        return paths, encode(*({"label": [name for _, name in each.images]} for each in listed))


class Listing(NamedTuple):
    """The images in a folder of classes.

    Args:
        images: The path of each and its class, sorted; the empty name if there are no classes.
        linked: Whether some are reached through links.
        said: A line for each warning about files that were left out.
    """

    images: list[tuple[str, str]]
    linked: bool
    said: list[str]


def find_images(folder: Path, arrays: bool = False) -> list[tuple[str, str]]:
    """The images of `list_images`, after its warnings."""
    listing = list_images(folder, arrays)
    for line in listing.said:
        warnings.warn(line, stacklevel=2)
    return listing.images


def list_images(folder: Path, arrays: bool = False) -> Listing:
    """The images in a folder of classes, with ``arrays`` also ``.npy`` files.

    Unlike torchvision's ImageFolder, hidden files and folders, which file managers and notebooks write
    beside images, are left out.  Links are followed, and each folder and file is read once.

    Raises:
        FileNotFoundError: If there is no such folder, it is empty, or a class has no images.
    """
    from torchvision.datasets.folder import IMG_EXTENSIONS  # late: torchvision takes a second

    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}")
    endings = (*IMG_EXTENSIONS, ".npy") if arrays else IMG_EXTENSIONS
    with os.scandir(folder) as entries:
        inside = {each.name: each.is_dir() for each in entries if not each.name.startswith(".")}
    classes = sorted(name for name, is_folder in inside.items() if is_folder)
    with waiting(f"list {folder}") as bar:
        search = _Search(str(folder), classes, endings, bar.update)
    loose = [str(folder / name) for name, is_folder in inside.items() if not is_folder]
    search.passed.update(each for each in map(_ending, loose) if each not in endings)
    loose = sorted(path for path in loose if path.lower().endswith(endings))
    said = [*search.said(folder)]
    there = f"; {'; '.join(said)}" if said else ""
    if not classes:
        if not loose:
            raise FileNotFoundError(
                f"{str(folder)!r} has no folders, one per class, and no images; images end in"
                f" {' '.join(endings)}{there}"
            )
        return Listing([(path, "") for path in loose], False, said)
    images, doubled = search.images()
    if empty := sorted({*classes} - {name for _, name in images}):
        raise FileNotFoundError(
            f"{str(folder)!r} has no images in {', '.join(empty)}; images end in {' '.join(endings)}{there}"
        )
    if loose:
        said.append(
            f"{len(loose)} images in {folder} are not in a folder of a class and are left out, "
            f"such as {loose[0]}"
        )
    return Listing(images, search.linked, [*said, *doubled])


class _Search:
    """The files in folders of classes at any depth; hidden ones are left out.

    A folder's listing gives the type of each entry, because asking for each file again would take
    minutes on a file server. Links to folders are followed after all other folders, so that a
    folder is read at its own place first. A link is not followed if its folder was already read or
    contains the link.
    """

    def __init__(
        self, root: str, classes: Sequence[str], endings: tuple[str, ...], tell: Callable[[], Any]
    ) -> None:
        self.endings = endings
        self.tell = tell
        self.found: list[tuple[bool, str, str]] = []
        """For each image: whether it was reached through a link, its class and its path."""
        self.passed: Counter[str] = Counter()
        self.not_followed: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.read = {_file(root)}
        for name in classes:
            path = os.path.join(root, name)
            self._walk(path, name, os.path.islink(path))
        for name, link in self.links:  # the loop adds links
            target, here = (os.path.realpath(p) for p in (link, os.path.dirname(link)))
            if f"{here}{os.sep}".startswith(f"{target.rstrip(os.sep)}{os.sep}"):
                self.not_followed.append(link)
            else:
                self._walk(link, name, True)

    @property
    def linked(self) -> bool:
        """Whether a link leads to a file."""
        return any(linked for linked, _, _ in self.found)

    def images(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Path and class of each image, and a line if several paths lead to one file."""
        if not self.linked:
            return [(path, name) for _, name, path in sorted(self.found)], []
        first: dict[Any, tuple[str, str]] = {}
        again: list[tuple[bool, str, str]] = []
        for _, name, path in sorted(self.found):
            kept_name, kept = first.setdefault(_file(path), (name, path))
            if kept != path:
                again.append((kept_name != name, path, kept))
        lines = []
        if again:
            _, path, kept = max(again)
            others = sum(other for other, _, _ in again)
            lines.append(
                f"{len(again)} images are left out because links lead to them again, {others} of "
                f"them in another class: {path} is {kept}"
            )
        return [(path, name) for name, path in sorted(first.values())], lines

    def said(self, folder: Path) -> Iterator[str]:
        """The warnings about files and links that were left out."""
        endings = _other_endings() if self.passed else set()
        images = {ending: n for ending, n in self.passed.items() if ending in endings}
        if images:
            counted = ", ".join(f"{n} that end in {e}" for e, n in sorted(images.items()))
            yield (
                f"image_folder passes over images in {folder}, {counted}: it reads those that end in"
                f" {' '.join(self.endings)}"
            )
        if self.not_followed:
            yield (
                f"{len(self.not_followed)} links to folders in {folder} are not followed, because "
                f"these folders were already read or contain the link: {self.not_followed[0]}"
            )

    def _walk(self, folder: str, name: str, linked: bool) -> None:
        if (key := _file(folder)) in self.read:
            self.not_followed.append(folder)
            return
        self.read.add(key)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                link = entry.is_symlink()
                if _leads_to_folder(entry):
                    if link:
                        self.links.append((name, entry.path))
                    else:
                        self._walk(entry.path, name, linked)
                elif entry.name.lower().endswith(self.endings):
                    self.found.append((linked or link, name, entry.path))
                else:
                    self.passed[_ending(entry.name)] += 1
                self.tell()


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _file(path: str) -> Any:
    """The identity of a file, the same for every path to it; for a missing file, its path."""
    try:
        status = os.stat(path)
    except OSError:
        return path
    return status.st_dev, status.st_ino


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _other_endings() -> set[str]:
    """The endings of image and array files that are read only if they are named."""
    from PIL import Image

    return {*Image.registered_extensions(), *OTHER_ENDINGS} - {*NO_IMAGES}
