"""The contents of a folder or a table of images, read before a pipeline is written for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ccl_plugins.conditions.column import MANY
from ccl_plugins.datasets.image_folder import find_images
from ccl_plugins.files.tables import Columns, choose, read_table
from ccl_plugins.metadata.columns import encode
from ccl_plugins.metadata.groups import FEWEST, LIKELY
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.protocols import ValueType

IMAGES = ("image", "file", "filename", "file_name", "path", "filepath", "img")
"""Names of columns of image files; else the first column whose words end like images is taken."""

LABELS = ("label", "class", "target", "category", "species")
"""Names of columns that are taken as the label."""

BATCHES = re.compile(
    r"(^|[-_. ])(donor|animal|mouse|plate|batch|site|well)s?([-_. ]?(id|no|nr|number|name))?$",
    re.IGNORECASE,
)
"""Further names of columns of groups that share batch effects, the coarsest first."""

GROUPS = 3
"""The least number of values of such a column."""

SPLIT = {"train", "test"}
"""The values of a column that splits a table."""

TESTS = ("test", "val", "valid", "validation")
"""Names of the folder beside ``train`` with the images to test on."""

WORDS = 3
"""A column of different texts with at least this mean number of words holds captions."""


@dataclass(frozen=True)
class FoundColumn:
    """A column of facts about each image.

    Args:
        name: The column's name.
        value_type: ``"text"`` for captions, else the value type.
        values: The number of different values.
        known: The number of images with a value.
        least: The number of images of the rarest class; 0 if there are no classes.
        missing: The number of images without a value.
        longest: The bytes of the longest words; 0 if there are no words.
    """

    name: str
    value_type: ValueType | Literal["text"]
    values: int
    known: int
    least: int = 0
    missing: int = 0
    longest: int = 0

    @property
    def is_classes(self) -> bool:
        """Whether the column holds class ids or words."""
        return self.value_type == "categorical"

    def __str__(self) -> str:
        what = {
            "text": "texts",
            "continuous": f"numbers, {self.values} different",
            "multi_label": "attributes side by side",
            "categorical": f"{self.values} classes of {self.least} images or more"
            if self.values > 1
            else "one class alone",
        }[self.value_type]
        return what + (f", missing for {self.missing} images" if self.missing else "")


@dataclass(frozen=True)
class Found:
    """The contents of a folder or a table.

    Args:
        dataset: The data set, as a table of a configuration, without the parts that depend on
            wishes.
        variables: The columns by name.
        label: The column that is the label; empty if there is none.
        group: The column of images that belong together; empty if there is none, or splits are given.
        value_types: The value types of columns that a data set would read as another type.
        notes: The interpretations that were chosen.
        paths: The files of all images.
    """

    dataset: Mapping[str, Any]
    variables: Mapping[str, FoundColumn]
    label: str = ""
    group: str = ""
    value_types: Mapping[str, ValueType] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def place(self, name: str) -> str:
        """The name of a column in the metadata, where the label is called ``label``."""
        return "label" if name == self.label else name


def look(
    path: Path,
    *,
    image: str | None = None,
    label: str | None = None,
    group: str | None = None,
    value_types: Mapping[str, ValueType] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Found:
    """The contents of a folder of images or a table of image files; no image is read.

    Args:
        path: A folder with a folder per class, with ``train`` and ``test`` of such folders, or with
            only images; or a table (``.csv``, ``.tsv``, ``.parquet``).
        image: The column of image files; None: found by its name or its words.
        label: The column of labels; None: found by its name; empty: no labels.
        group: The column of images that belong together; None: found by its name; empty: no groups.
        value_types: The value types of columns that would be read as another type.
        given: Further arguments of the data set.

    Raises:
        FileNotFoundError: If there is no such folder or table, or the folder has no images.
        ValueError: For a table that cannot be read, without a column of images, or without a named column.
    """
    given = dict(given or {})
    if path.is_dir():
        of_tables = {name: given.get(name) for name in ("encoding", "root")}
        for name, value in ({"group": group} | of_tables).items():
            if value:
                raise ValueError(f"--{name} is an option for tables, but {path} is a folder")
        return _in_folder(path, given)
    return _in_table(path, image, label, group, dict(value_types or {}), given)


def _in_folder(path: Path, given: dict[str, Any]) -> Found:
    test = next(
        (each for each in TESTS if (path / "train").is_dir() and (path / each).is_dir()), ""
    )
    folders = [path / "train", path / test] if test else [path]
    arrays = given.get("mode") == "all"
    try:
        found = [each for folder in folders for each in find_images(folder, arrays)]
    except FileNotFoundError:
        if "mode" in given:
            raise
        found = [each for folder in folders for each in find_images(folder, True)]
    paths, classes = [file for file, _ in found], [name for _, name in found]
    dataset: dict[str, Any] = {"use": "image_folder", "root": str(path)}
    if test not in ("", "test"):
        dataset["test"] = test
    if not test:
        dataset["test_fraction"] = _fraction(classes)
    dataset |= given
    if not any(classes):
        notes = ["the images have no classes: a folder for each class would name them"]
        return Found(dataset, {}, notes=notes, paths=paths)
    return Found(dataset, {"label": _variable("label", classes, {})}, "label", paths=paths)


def _in_table(
    path: Path,
    image: str | None,
    label: str | None,
    group: str | None,
    value_types: dict[str, ValueType],
    given: dict[str, Any],
) -> Found:
    words = [name for name, value_type in value_types.items() if value_type == "categorical"]
    numbers = [name for name in value_types if name not in words]
    csv = {name: given[name] for name in ("encoding",) if name in given}
    table = read_table(path, words, numbers=numbers, **csv)
    for name in (image, label, group, *value_types):
        if name:
            choose(table, [name], str(path))
    image = image or _image_column(table, path)
    notes = [] if image == "image" else [f"{image!r} has the image files"]
    rest = {name: column for name, column in table.items() if name != image}
    split = next((name for name, column in rest.items() if _is_split(_cells(column))), "")
    rest.pop(split, None)
    if not len(table[image]):
        raise ValueError(f"{path} has no rows")
    variables = {name: _variable(name, column, value_types) for name, column in rest.items()}
    for name, each in variables.items():
        if each.value_type != "continuous" or name in value_types:
            continue
        if encode({name: rest[name]}).schema[name] != "continuous":
            value_types[name] = "continuous"
            notes.append(
                f"{name!r} has {each.values} different whole numbers and is read as numbers: --type"
                f" {name}=categorical makes classes of them"
            )
    label = _label(label, variables, notes)
    dataset: dict[str, Any] = {"use": "table", "path": str(path)}
    if image != "image":
        dataset["image"] = image
    if split:
        dataset["split"] = split
    else:
        dataset["test_fraction"] = _fraction(_cells(rest[label]) if label else [])
        if group is None:
            group = _group(variables, label, notes)
    root = Path(given.get("root", path.parent)).expanduser()
    files = [str(root / Path(str(each)).expanduser()) for each in _cells(table[image]) if each]
    return Found(dataset | given, variables, label, group or "", value_types, notes, files)


def _group(variables: Mapping[str, FoundColumn], label: str, notes: list[str]) -> str:
    """The column that looks like one of images that belong together."""
    likely = [n for n, v in variables.items() if n != label and is_group(v)]
    if not likely:
        return ""
    order = BATCHES.pattern
    group, *others = sorted(likely, key=lambda n: order.find(_batch(n)) if _batch(n) else -1)
    beside = f"; other columns that look like groups: {', '.join(others)}" if others else ""
    notes.append(
        f"{group!r} looks like a group: images of one {group} share more than what they show, such as light"
        f" or stain, so they are all in one split. --group names another column, --group none splits image"
        f" by image{beside}"
    )
    return group


def _batch(name: str) -> str:
    """The name in `BATCHES` that a column has; empty for other columns."""
    found = BATCHES.search(name)
    return found[2].lower() if found else ""


def _label(given: str | None, variables: dict[str, FoundColumn], notes: list[str]) -> str:
    """The column that is the label; another column must not be called ``label``."""
    label = given
    if label is None:
        label = next((n for n in LABELS if n in variables and is_label(variables[n])), "")
        taken = f"{label!r} is the label, by which features are measured"
        notes.append(taken if label else "no column is the label: --label names one")
    elif label and not is_label(variables[label]):
        raise ValueError(
            f"the label must be classes, and have a value for every image: {label!r} has"
            f" {variables[label]}"
        )
    if label != "label" and "label" in variables:
        notes.append(f"'label' has {variables.pop('label')}, and is left out: rename it to use it")
    return label


def _image_column(table: Columns, path: Path) -> str:
    """The column of image files."""
    from torchvision.datasets.folder import IMG_EXTENSIONS  # late: torchvision takes a second

    named = sorted(table, key=lambda name: IMAGES.index(name) if name in IMAGES else len(IMAGES))
    for name in named:
        first = next((cell for cell in _cells(table[name]) if cell), None)
        if isinstance(first, str) and first.lower().endswith((*IMG_EXTENSIONS, ".npy")):
            return name
    raise ValueError(
        f"{path} has no column of image files, such as 'owl/1.jpg'; it has {', '.join(table)}: name one"
        " with --image"
    )


def _is_split(cells: list[Any]) -> bool:
    """Whether cells are ``train`` and ``test``; other rows are not used."""
    return all(cell is None or isinstance(cell, str) for cell in cells) and {*cells} >= SPLIT


def is_group(variable: FoundColumn) -> bool:
    """Whether its name and values are those of a group."""
    fewest = FEWEST if LIKELY.search(variable.name) else GROUPS if _batch(variable.name) else 0
    classes = variable.is_classes and not variable.missing
    return bool(fewest) and classes and fewest <= variable.values <= variable.known / 2


def is_label(variable: FoundColumn) -> bool:
    """Whether it can be the label."""
    return variable.is_classes and not variable.missing and variable.values > 1


def _variable(name: str, column: Any, value_types: Mapping[str, ValueType]) -> FoundColumn:
    cells = _cells(column)
    known = [cell for cell in cells if isinstance(cell, str) and cell]
    longest = max((len(cell.encode()) for cell in known), default=0)
    long = sum(len(cell.split()) for cell in known) >= WORDS * len(known)
    if longest and long and name not in value_types and len({*known}) > len(known) / 2:
        missing = len(cells) - len(known)
        return FoundColumn(name, "text", len({*known}), len(known), 0, missing, longest)
    given = {name: value_types[name]} if name in value_types else {}
    encoded = encode({name: column}, value_types=given)
    values, value_type = encoded.tables[0][name], encoded.schema[name]
    here = Variable(values, value_type).present
    different, counts = here.unique(dim=0, return_counts=True)
    missing = len(values) - len(here)
    if value_type != "categorical" or here.ndim > 1:
        return FoundColumn(name, value_type, len(different), len(here), 0, missing)
    whole = not known and name not in value_types and len(different) > MANY
    if whole and not _is_id(name):
        return FoundColumn(name, "continuous", len(different), len(here), 0, missing)
    least = int(counts.min()) if len(here) else 0
    return FoundColumn(name, "categorical", len(different), len(here), least, missing, longest)


def _is_id(name: str) -> bool:
    """Whether whole numbers are names, judged by their column's name."""
    last = re.split(r"[-_. ]", name.lower())[-1]
    return last in ("id", "nr", "no", *LABELS) or bool(LIKELY.search(name) or _batch(name))


def _cells(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _fraction(classes: list[Any]) -> float:
    """The share of images to test on: a fifth, or more so that each of many classes has one."""
    share = len({*classes}) / max(len(classes), 1)
    return next((each for each in (0.2, 0.3, 0.4) if each >= share), 0.5)
