"""Images in a folder per class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ccl_plugins.datasets.image_files import ImageFileDataset, Mode, OnError, waiting
from ccl_plugins.metadata.columns import Encoded, encode
from ccl_plugins.protocols import ValueType


class ImageFolder(ImageFileDataset):
    """Images in a folder per class: ``root/train/cat/1.jpg``, ``root/test/cat/2.jpg``.

    Each class is a folder in the folder of a split, with images at any depth; hidden files and those whose
    names do not end like an image's are skipped.  Columns: ``label``, the place of the class's name in
    sorted order, over both splits; -1, a missing class, for images beside which there are no folders.

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
        levels: tuple[float, float] | None = None,
    ) -> None:
        root = Path(root).expanduser()
        folders = [root / train, root / test] if test_fraction is None else [root]
        super().__init__(folders, test_fraction, seed, mode, on_error, levels=levels)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return {"label": "categorical"}

    def _read(self) -> tuple[list[list[str]], Encoded]:
        listed = [find_images(folder, self.mode == "all") for folder in self.sources]
        paths = [[path for path, _ in images] for images in listed]
        return paths, encode(*({"label": [name for _, name in images]} for images in listed))


def find_images(folder: Path, arrays: bool = False) -> list[tuple[str, str]]:
    """The images in a folder of classes, with ``arrays`` also ``.npy`` files, with class names, sorted.

    Images of a folder without folders have no class: the name is empty.  Unlike torchvision's ImageFolder,
    hidden files, which macOS writes beside images, are left out.

    Raises:
        FileNotFoundError: If there is no such folder, it is empty, or a class has no images.
    """
    from torchvision.datasets.folder import IMG_EXTENSIONS  # late: torchvision takes a second

    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}")
    endings = (*IMG_EXTENSIONS, ".npy") if arrays else IMG_EXTENSIONS

    def is_image(path: str) -> bool:
        name = os.path.basename(path)
        return not name.startswith(".") and name.lower().endswith(endings)

    with os.scandir(folder) as entries:
        there = [(each.name, each.path, each.is_dir()) for each in entries]
    classes = sorted(name for name, _, inside in there if inside and not name.startswith("."))
    if not classes:
        loose = sorted(path for _, path, inside in there if not inside and is_image(path))
        if not loose:
            raise FileNotFoundError(
                f"{str(folder)!r} has no folders, one per class, and no images; images end in"
                f" {' '.join(endings)}"
            )
        return [(path, "") for path in loose]
    by_class: dict[str, list[str]] = {name: [] for name in classes}
    with waiting(f"list {folder}") as bar:
        for name, paths in by_class.items():
            for path in _files(str(folder / name)):
                if is_image(path):
                    paths.append(path)
                bar.update()
            paths.sort()
    empty = [name for name, paths in by_class.items() if not paths]
    if empty:
        raise FileNotFoundError(
            f"{str(folder)!r} has no images in {', '.join(empty)}; images end in"
            f" {' '.join(endings)}"
        )
    return [(path, name) for name, paths in by_class.items() for path in paths]


def _files(folder: str) -> Iterator[str]:
    """The files in a folder at any depth; links to folders are not followed.

    A folder's entries say what they are: asking each file again would take minutes on a file server.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry.path
