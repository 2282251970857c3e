"""Images in a folder per class."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ccl_plugins.arguments import one_of
from ccl_plugins.datasets.image_files import ImageFiles, Mode, OnError
from ccl_plugins.datasets.splitting import check_fraction, hold_out
from ccl_plugins.metadata.columns import encode

if TYPE_CHECKING:
    from ccl_plugins.protocols import ValueType

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""Files that are images, as torchvision's ImageFolder has it."""


class ImageFolder:
    """Images in folders: ``root/train/cat/1.jpg``, ``root/test/cat/2.jpg``.

    Each class is a folder in the folder of a split, with images at any depth; hidden files and those whose
    names do not end like an image's are skipped.  Columns: ``label``, the place of the class's name in
    sorted order, over both splits.

    Args:
        root: The folder.
        train: The folder in it to train on.
        test: The folder in it to test on; often called ``val``.
        test_fraction: The part of each class that is kept for testing, between 0 and 1, where there is one
            folder for both: ``root/cat/1.jpg``.  ``train`` and ``test`` are then ignored.
        seed: Of that choice.
        mode: ``"RGB"``, or ``"L"`` for gray images of one channel; images are converted.
        on_error: What to do with images that are unreadable or truncated: ``"error"``: an error when one is
            read.  ``"skip"``: every image is decoded once before training; those that cannot be are left
            out with a warning, and listed in the split's ``skipped``.

    Raises:
        ValueError: If a parameter is out of its range.
        FileNotFoundError: On use, for a folder that is not there, or a class without images.
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
    ) -> None:
        check_fraction(test_fraction, seed)
        self.root = Path(root)
        self.folders = {"train": train, "test": test}
        self.test_fraction = test_fraction
        self.seed = seed
        self.mode: Mode = mode
        self.on_error: OnError = on_error
        one_of("mode", mode, ("RGB", "L"))
        one_of("on_error", on_error, ("error", "skip"))

    def __call__(self, split: str) -> ImageFiles:
        """The ``"train"`` or ``"test"`` split.

        Raises:
            ValueError: For another split.
            FileNotFoundError: For a folder that is not there, or a class without images.
        """
        one_of("split", split, ("train", "test"))
        if self.test_fraction is None:
            found = {name: find_images(self.root / self.folders[name]) for name in self.folders}
            tables = [{"label": [word for _, word in pairs]} for pairs in found.values()]
            encoded = encode(*tables)
            label = encoded.tables[split == "test"]["label"]
            source, rows = str(self.root / self.folders[split]), list(range(len(label)))
            paths = [path for path, _ in found[split]]
        else:
            pairs = find_images(self.root)
            encoded = encode({"label": [word for _, word in pairs]})
            label = encoded.tables[0]["label"]
            rows = hold_out(label, self.test_fraction, self.seed)[split].tolist()
            source, label = str(self.root), label[rows]
            paths = [pairs[row][0] for row in rows]
        files = ImageFiles(
            paths,
            {"label": label},
            encoded.vocabulary,
            mode=self.mode,
            source=source,
            rows=rows,
        )
        return files.checked(self.on_error)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return {"label": "categorical"}


def find_images(folder: Path) -> list[tuple[str, str]]:
    """The images in a folder of classes with their class names, sorted.

    Raises:
        FileNotFoundError: If the folder is not there, has no folders, or a class has no images.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}")
    classes = sorted(
        each for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")
    )
    if not classes:
        raise FileNotFoundError(f"{str(folder)!r} has no folders, one per class")
    found = {
        each.name: sorted(
            str(path)
            for path in each.rglob("*")
            if path.suffix.lower() in ENDINGS and not path.name.startswith(".")
        )
        for each in classes
    }
    empty = [name for name, paths in found.items() if not paths]
    if empty:
        raise FileNotFoundError(
            f"{str(folder)!r} has no images in {', '.join(empty)}; images end in {' '.join(ENDINGS)}"
        )
    return [(path, name) for name, paths in found.items() for path in paths]
