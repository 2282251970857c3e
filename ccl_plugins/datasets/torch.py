"""A data set of the user's own torch Datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from ccl_plugins.datasets.annotated import Annotated, Keyed, as_texts, dictionary, find_labels
from ccl_plugins.datasets.splitting import SPLITS, check_split
from ccl_plugins.files.tables import choose
from ccl_plugins.metadata.columns import encode
from ccl_plugins.protocols import ValueType

_PIXELS = torch.arange(4 * 3 * 64).reshape(4, 3, 8, 8).to(torch.uint8)


class TorchDataset:
    """Your own Datasets, one to train and one to test on, with a table of metadata for each.

    A configuration cannot hold objects: pass the result of ``ccl.create("dataset", "torch",
    train=..., ...)`` to the pipeline; the record names it as local.

    Args:
        train: A map-style Dataset of images, or of tuples that begin with an image: PIL images, or
            other inputs that the views take. Its own transform must not augment. If its items are
            dictionaries, such as those of Hugging Face's ``datasets``, give ``image`` and
            ``label``.
        test: The same for testing.
        metadata: Columns of the training samples by name, as a mapping or a data frame: numbers, words,
            or one vector per row.  Without a column ``label``, the labels are read from the
            ``targets``, ``labels`` or ``samples`` of ``train``.
        test_metadata: The same columns of the test samples.
        value_types: Value types of columns whose values do not show them.  By default words, whole numbers
            and truth values are ``"categorical"``, 0 and 1 side by side ``"multi_label"``, other numbers
            ``"continuous"``.
        image: The key of the image in items that are dictionaries.
        label: The key of the label in items that are dictionaries.
        text: Columns of the metadata, or keys of dictionary items, that are texts, such as
            captions.
        group: The column of samples that belong together, such as ``"patient_id"``: they are held out for
            validation together, and intervals are over groups.

    Raises:
        TypeError: For a Dataset without length, and for items that are dictionaries without ``image``.
        ValueError: For a table of another length, without labels, or with values that its value type does
            not allow, and for a sample without a text.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "train": list(_PIXELS),
        "test": list(255 - _PIXELS),
        "metadata": {"label": [0, 0, 1, 1]},
        "test_metadata": {"label": [0, 0, 1, 1]},
    }

    def __init__(
        self,
        train: Any,
        test: Any,
        metadata: Any = None,
        test_metadata: Any = None,
        value_types: Mapping[str, ValueType] | None = None,
        image: str | None = None,
        label: str | None = None,
        text: Sequence[str] = (),
        group: str | None = None,
    ) -> None:
        if image is None and label is not None:
            raise ValueError(
                f"label={label!r} is a key of dictionaries: give image=, the key of the image, too"
            )
        for split, samples in (("train", train), ("test", test)):
            if not (hasattr(samples, "__len__") and hasattr(samples, "__getitem__")):
                raise TypeError(
                    f"{split} must have a length and return a sample for an index, which a"
                    f" {type(samples).__name__} does not"
                )
        if image is not None:
            train, test = Keyed(train, image), Keyed(test, image)
            metadata = _with_keys("train", train, metadata, label, text)
            test_metadata = _with_keys("test", test, test_metadata, label, text)
        tables = [_table("train", train, metadata), _table("test", test, test_metadata)]
        texts = [
            {name: as_texts(name, table.pop(name), split) for name in choose(table, text, split)}
            for split, table in zip(SPLITS, tables, strict=True)
        ]
        self.text = list(text)
        encoded = encode(*tables, value_types=value_types)
        self.value_types = encoded.schema
        parts = zip(SPLITS, (train, test), encoded.tables, texts, strict=True)
        self.splits = {
            split: Annotated(samples, columns, encoded.vocabulary, its, group)
            for split, samples, columns, its in parts
        }

    def __call__(self, split: str) -> Annotated:
        """The ``"train"`` or ``"test"`` split."""
        return self.splits[check_split(split)]

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return self.value_types

    def texts(self) -> Sequence[str]:
        """The columns of texts."""
        return self.text


def _table(split: str, samples: Any, metadata: Any) -> dict[str, Any]:
    """The columns of a split, always with labels."""
    columns = _columns(split, getattr(samples, "metadata", None) if metadata is None else metadata)
    if "label" not in columns:
        labels = find_labels(samples)
        if labels is None:
            if len(samples) and isinstance(first := samples[0], Mapping):
                raise TypeError(dictionary(f"{split}[0]", first))
            raise ValueError(
                f"{split}: a {type(samples).__name__} has neither targets nor labels nor samples, and"
                f" the metadata's columns are {sorted(columns)}: give them a column 'label'"
            )
        columns = {"label": labels, **columns}
    wrong = {name: len(column) for name, column in columns.items() if len(column) != len(samples)}
    if wrong:
        raise ValueError(f"{split} has {len(samples)} samples, but there are rows in {wrong}")
    return columns


def _with_keys(
    split: str, samples: Keyed, metadata: Any, label: str | None, text: Sequence[str]
) -> Any:
    """The columns of a split, with the labels and the texts that its items hold."""
    columns = _columns(split, metadata)
    held = {} if label is None else {"label": samples.column(label)}
    held |= {name: samples.column(name) for name in text if name not in columns}
    return {**held, **columns} if held else metadata


def _columns(split: str, metadata: Any) -> dict[str, Any]:
    """The columns of a mapping, or of a data frame of pandas or polars."""
    if metadata is None:
        return {}
    names = metadata if isinstance(metadata, Mapping) else getattr(metadata, "columns", None)
    if names is None:
        name = "metadata" if split == "train" else "test_metadata"
        raise TypeError(
            f"{name} must be a mapping of columns or a data frame, not {type(metadata).__name__}"
        )
    return {str(name): metadata[name] for name in names}
