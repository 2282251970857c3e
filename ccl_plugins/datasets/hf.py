"""Data sets of Hugging Face's ``datasets``, by name or from disk."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, whole, word
from ccl_plugins.datasets.annotated import Annotated, as_texts, refuse_twice
from ccl_plugins.datasets.splitting import SPLITS, between, check_split, hold_out
from ccl_plugins.files.images import Levels, read_image, reading
from ccl_plugins.files.reading import naming_files
from ccl_plugins.files.tables import Columns, arrow_columns, choose, read_tables
from ccl_plugins.metadata.columns import Encoded, class_ids, encode
from ccl_plugins.protocols import ValueType


def example(folder: Path) -> dict[str, Any]:
    """A tiny data set on disk."""
    from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, Value

    features = Features(
        {"image": Image(), "label": ClassLabel(names=["a", "b"]), "z": Value("float32")}
    )
    images = torch.arange(8 * 64 * 3).reshape(8, 8, 8, 3).to(torch.uint8)
    splits = {}
    for split, pixels in (("train", images), ("test", 255 - images)):
        rows = {"image": [*pixels.numpy()], "label": [0, 1] * 4, "z": [0.5 * i for i in range(8)]}
        splits[split] = Dataset.from_dict(rows, features)
    DatasetDict(splits).save_to_disk(folder / "hf")
    return {"path": str(folder / "hf")}


@dataclass(eq=False, repr=False)
class HuggingFace:
    """A data set of Hugging Face's ``datasets``: from the Hub, or written by ``save_to_disk``.

    Its features give the schema: ``ClassLabel`` and whole numbers are ``"categorical"``, lists of
    ``ClassLabel`` and lists of truth values ``"multi_label"``, other numbers and lists of them
    ``"continuous"``; -1 is a missing class. Words are read if ``columns`` or ``text`` names them.
    The loader's workers decode images when they are read; one call reads a batch. Needs
    ``ccl-plugins[hf]``.

    Args:
        path: A name on the Hub, such as ``"uoft-cs/cifar10"``, a folder of ``save_to_disk``, or a
            folder of images or tables that ``datasets.load_dataset`` reads.
        name: The configuration of the data set; None: its only one.
        train: The split to train on.
        test: The split to test on.
        image: The column of images; None: the only one.
        label: The column of labels; its name in the metadata is ``label``.
        columns: The columns that are metadata in addition to the label; None: all numbers and class
            ids.
        text: Columns of texts, such as captions, which a text tower reads.
        value_types: The value type of columns whose features do not show it.
        test_fraction: The part of each class of ``train`` that is kept for testing, in place of ``test``.
        seed: Seed of that choice.
        mode: The mode of images: ``"RGB"``, or ``"L"`` for gray.
        revision: The commit, branch or tag on the Hub; None: the newest.
        group: The column of samples that belong together; see `TorchDataset`.
        levels: The values of pixels that become black and white; see `ImageFolder`.
        page: The page to read, from 0, of images with several pages.

    Raises:
        ValueError: If a parameter is out of its range; on use, for a split, column or image that is
            missing; the message names those that exist.
        OSError: On use, for a data set or an image that is missing or cannot be read; the message
            names the image's row.
        ImportError: On use, if ``datasets`` is not installed.
    """

    EXAMPLE: ClassVar[Any] = example

    path: str | Path
    name: str | None = None
    train: str = "train"
    test: str = "test"
    image: str | None = None
    label: str = "label"
    columns: Sequence[str] | None = None
    text: Sequence[str] = ()
    value_types: Mapping[str, ValueType] | None = None
    test_fraction: float | None = checked(between, default=None)
    seed: int = checked(whole, least=0, default=0)
    mode: Literal["RGB", "L"] = word("RGB", "L")
    revision: str | None = None
    group: str | None = None
    levels: Levels = None
    page: int | None = None

    def __post_init__(self) -> None:
        self.path = str(self.path)
        self.names = {"train": self.train, "test": self.train if self.test_fraction else self.test}
        self.reading = reading(self.mode, self.levels, self.page)
        refuse_twice(self.text, self.image, self.label, *(self.columns or ()))

    def __call__(self, split: str) -> Annotated:
        """The ``"train"`` or ``"test"`` split."""
        with naming_files(self.path):
            return self._split(split)

    def _split(self, split: str) -> Annotated:
        rows = self._parts[check_split(split)]
        number = 0 if self.test_fraction else SPLITS.index(split)
        source, columns = self._sources[number], self._encoded.tables[number]
        texts = {name: self._tables[number][name] for name in self.text}
        if rows is not None:
            source = source.select(rows.tolist())
            columns = {name: column[rows] for name, column in columns.items()}
            texts = {name: [column[row] for row in rows.tolist()] for name, column in texts.items()}
        place = f"{self.path}, split {self.names[split]!r}"
        more = {name: self.reading[name] for name in ("levels", "page")}
        made = Annotated(
            DecodedImages(
                source.select_columns([self._image]), self._image, self.mode, place, **more
            ),
            columns,
            self._encoded.vocabulary,
            {name: as_texts(name, column, place) for name, column in texts.items()},
            self.group,
        )
        made.reading = self.reading
        return made

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold; reads the columns, and no image."""
        with naming_files(self.path):
            return Columns(self._encoded.schema, left_out=self._tables[0].left_out)

    def texts(self) -> Sequence[str]:
        """The columns of texts."""
        return self.text

    @cached_property
    def _sources(self) -> list[Any]:
        """The data sets of the splits; one if a part of it is held out."""
        splits = self._loaded
        names = [*dict.fromkeys(self.names[split] for split in SPLITS)]
        if not isinstance(splits, Mapping):  # save_to_disk wrote it without splits
            splits = {self.names["train"]: splits}
        for name in names:
            if name not in splits:
                raise ValueError(
                    f"{self.path} has no split {name!r}, but {', '.join(map(repr, splits))}: name one with"
                    " train= or test=, or hold a part out with test_fraction="
                )
        return [splits[name] for name in names]

    @cached_property
    def _loaded(self) -> Any:
        try:
            import datasets
        except ImportError as error:
            raise ImportError(
                "the data set hf needs datasets, which is not installed: pip install 'ccl-plugins[hf]'"
            ) from error
        folder = Path(self.path).expanduser()
        try:
            if any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
                return datasets.load_from_disk(str(folder))
            path = str(folder) if folder.exists() else self.path
            return datasets.load_dataset(path, self.name, revision=self.revision)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"the data set {self.path!r}: {error}") from error
        except (OSError, ValueError) as error:
            raise OSError(
                f"the data set {self.path!r} cannot be read: {error}; if a file of it was cut short,"
                " write or fetch it again"
            ) from error

    @cached_property
    def _image(self) -> str:
        """The column of images."""
        from datasets import Image

        features = self._sources[0].features
        images = [name for name, feature in features.items() if isinstance(feature, Image)]
        if self.image is None and len(images) == 1:
            return images[0]
        if self.image in images:
            return str(self.image)
        raise ValueError(
            f"image must be one of the columns of images of {self.path}, which are"
            f" {', '.join(map(repr, images)) or 'none'}, not {self.image!r}; its columns are"
            f" {', '.join(map(repr, features))}"
        )

    @cached_property
    def _tables(self) -> list[Columns]:
        """The columns of each split, without images."""
        from datasets import Image

        tables = []
        for source, split in zip(self._sources, SPLITS, strict=False):
            rest = [n for n, feature in source.features.items() if not isinstance(feature, Image)]
            if not rest:
                raise ValueError(f"{self.path} has only images, but a data set needs labels")
            table = source.select_columns(rest).with_format("arrow")[:]
            lists = {n: _classes(source.features[n]) for n in rest if _is_list(source.features[n])}
            place = f"{self.path}, split {self.names[split]!r}"
            several = {
                n: _bits(table.column(n), names, f"{place}: column {n!r}")
                for n, names in lists.items()
                if names is not None
            }
            read = arrow_columns(table.drop_columns([*several]))
            left_out = {k: v for k, v in read.left_out.items() if k not in several}
            columns = Columns({**read, **several}, left_out)
            choose(columns, [self.label, *self.text], place)
            tables.append(columns)
        return tables

    @cached_property
    def _encoded(self) -> Encoded:
        features, *others = (source.features for source in self._sources)
        names = {name: _classes(features[of]) for name, of in self._chosen.items()}
        for name, of in self._chosen.items():
            for theirs in (_classes(other[of]) if of in other else None for other in others):
                if theirs != names[name]:
                    raise ValueError(
                        f"{self.path}: the classes of column {of!r} are {names[name]} in train and"
                        f" {theirs} in test: cast both to one feature"
                    )
        self._check_texts([*self._chosen.values(), *self.text])
        encoded = encode(
            *(
                {n: choose(table, [of], str(self.path))[of] for n, of in self._chosen.items()}
                for table in self._tables
            ),
            value_types={**self._value_types, **(self.value_types or {})},
        )
        encoded.vocabulary.update({name: [*each] for name, each in names.items() if each})
        return encoded

    def _check_texts(self, columns: Sequence[str]) -> None:
        """Refuse words in the CSV files of a folder that ``datasets`` reads as other values.

        It reads ``007`` as 7, and a name such as ``NA`` as a missing value.
        """
        folder = Path(self.path).expanduser()
        files = sorted(each for end in ("csv", "tsv") for each in folder.rglob(f"*.{end}"))
        read = read_tables(files, only=columns) if isinstance(self._loaded, Mapping) else []
        for file, table in zip(files, read, strict=False):
            for name, cells in table.items():
                splits = [each for each in self._loaded.values() if name in each.features]
                theirs = {value for each in splits for value in each.unique(name)}
                if lost := sorted({c for c in cells if isinstance(c, str)} - theirs):
                    raise ValueError(
                        f"{file}: column {name!r} has {lost[0]!r}, which datasets reads as another value:"
                        " the data set table reads it as a word"
                    )

    @cached_property
    def _chosen(self) -> dict[str, str]:
        """The columns of metadata, the label first, with their features."""
        features, table = self._sources[0].features, self._tables[0]
        chosen = self.columns
        if chosen is None:
            chosen = [
                name
                for name in table
                if name not in self.text
                and "string" not in str(getattr(features[name], "dtype", ""))
            ]
        rest = [name for name in choose(table, chosen, str(self.path)) if name != self.label]
        if "label" in rest:
            raise ValueError(
                f"{self.path} has a column 'label' beside label={self.label!r}: leave it out with columns="
            )
        return {"label": self.label, **{name: name for name in rest}}

    @property
    def _value_types(self) -> dict[str, ValueType]:
        """The schema of the columns, from the features."""
        types: dict[str, ValueType] = {}
        for name, of in self._chosen.items():
            feature = self._sources[0].features[of]
            if name == "label" or (_classes(feature) and not _is_list(feature)):
                types[name] = "categorical"
            elif _classes(feature):
                types[name] = "multi_label"
            elif "float" in str(getattr(feature, "dtype", "")):
                types[name] = "continuous"
        return types

    @cached_property
    def _parts(self) -> dict[str, Tensor | None]:
        """The rows of each split; None: all."""
        if not self.test_fraction:
            return dict.fromkeys(SPLITS)
        columns = self._encoded.tables[0]
        groups = None if self.group is None else class_ids(columns, self.group)
        words = self._encoded.vocabulary.get("label")
        return {**hold_out(columns["label"], self.test_fraction, self.seed, groups, words)}


class DecodedImages:
    """The images of a data set of ``datasets``, decoded as they are read.

    Args:
        source: The data set.
        column: The column of its images.
        mode: An argument of `read_image`.
        place: The source of the images, for errors.
        more: ``levels`` and ``page``, arguments of `read_image`.
    """

    def __init__(self, source: Any, column: str, mode: str, place: str, **more: Any) -> None:
        from datasets import Image

        # Undecoded: ``datasets`` decodes by PIL, which cuts bits of deep images.
        self.source = source.cast_column(column, Image(decode=False))
        self.decode = Image().decode_example
        self.column, self.place = column, place
        self.reading: dict[str, Any] = {"mode": mode, **more}

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        """An image of PIL."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Some images, read together.

        Raises:
            OSError: For an image that cannot be decoded; the message names its row.
        """
        try:
            return [self._read(stored) for stored in self.source[[*indices]][self.column]]
        except OSError as error:
            if len(indices) > 1:
                return [self[index] for index in indices]  # one by one, to name the row
            raise OSError(
                f"{self.place}: the image of row {indices[0]} (from 0) is missing or cannot be decoded:"
                f" {error}"
            ) from error

    def _read(self, stored: Mapping[str, Any] | None) -> Any:
        if stored is None:
            raise OSError("the cell is empty")
        content, path = stored["bytes"], stored["path"]
        if content is None and not os.path.isfile(path):
            return read_image(self.decode(stored), **self.reading)  # in an archive, or elsewhere
        return read_image(path if content is None else io.BytesIO(content), **self.reading)


def _is_list(feature: Any) -> bool:
    return hasattr(feature, "feature") and not isinstance(feature, Mapping)


def _classes(feature: Any) -> list[str] | None:
    """The names of class ids, or of a list of them; None for other features."""
    if _is_list(feature):
        feature = feature.feature
    return getattr(feature, "names", None)


def _bits(column: Any, names: Sequence[str], place: str) -> Tensor:
    """(N, C) 1 at the classes of each sample, 0 at others, NaN at classes that may be the missing one.

    A row's whole list may be missing, or a class in it (None or -1).
    """
    bits = torch.zeros(len(column), len(names))
    for row, ids in enumerate(column.to_pylist()):
        present = [i for i in ids or () if i is not None and i != -1]
        if wrong := [i for i in present if not 0 <= i < len(names)]:
            raise ValueError(
                f"{place} has the class {wrong[0]} in row {row} (from 0), but there are "
                f"{len(names)} classes"
            )
        if ids is None or len(present) < len(ids):
            bits[row] = torch.nan
        bits[row, present] = 1
    return bits
