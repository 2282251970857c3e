"""Vectors instead of images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils import data

from ccl_plugins.arguments import one_of
from ccl_plugins.datasets.splitting import check_fraction, hold_out
from ccl_plugins.files.arrays import as_numbers, read_npy
from ccl_plugins.files.tensors import read_tensors
from ccl_plugins.metadata.columns import Encoded, encode

if TYPE_CHECKING:
    from ccl_plugins.protocols import ValueType


class Vectors(data.Dataset[tuple[Tensor, int]]):
    """Vectors in one tensor, with their metadata.

    Args:
        vectors: (N, f) float32.
        metadata: Columns with one row per vector, always with ``label``, class ids.
        vocabulary: For columns of words, the word of each id.

    Raises:
        ValueError: If a number of rows is wrong.
    """

    def __init__(
        self, vectors: Tensor, metadata: Mapping[str, Tensor], vocabulary: Mapping[str, list[str]]
    ) -> None:
        wrong = {name: len(c) for name, c in metadata.items() if len(c) != len(vectors)}
        if wrong:
            raise ValueError(f"there are {len(vectors)} vectors, but rows in {wrong}")
        self.vectors = vectors
        self.metadata = dict(metadata)
        self.vocabulary = dict(vocabulary)
        self.targets = self.metadata["label"]

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The vector (f,) and its target."""
        return self.vectors[index], int(self.targets[index])

    def select(self, rows: Tensor) -> Self:
        """The vectors of some rows."""
        columns = {name: column[rows] for name, column in self.metadata.items()}
        return type(self)(self.vectors[rows], columns, self.vocabulary)


class Features:
    """Vectors with metadata: tabular data, or features that another model computed.

    For the views ``noise`` and the backbone ``mlp``.  A split is a ``.safetensors`` file or a mapping, with
    ``features``, (N, f), a ``label`` and any other columns.  In a mapping, a column is an array, a
    tensor, a list, or the path of a ``.npy`` file; a configuration can hold paths but no arrays.

    Args:
        train: The training split.
        test: The test split.
        test_fraction: The part of each class of ``train`` that is kept for testing, between 0 and 1,
            instead of ``test``.
        seed: Of that choice.
        standardize: Whether to scale each feature to mean 0 and standard deviation 1 over the training
            split; a constant one becomes 0.
        value_types: Value types of columns whose values do not show them.  By default words, whole numbers
            and truth values are ``"categorical"``, 0 and 1 side by side ``"multi_label"``, other numbers
            ``"continuous"``.

    Raises:
        ValueError: If a parameter is out of its range, or not exactly one of ``test`` and
            ``test_fraction`` is given; on use, for invalid files and columns, naming the row.
        FileNotFoundError: On use, for a file that is not there.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "train": {
            "features": [[0.0, 1.0], [1.0, 0.0], [0.5, 1.0], [1.0, 0.5]],
            "label": [0, 1, 0, 1],
        },
        "test": {"features": [[0.1, 0.9], [0.9, 0.1]], "label": [0, 1]},
    }

    def __init__(
        self,
        train: str | Path | Mapping[str, Any],
        test: str | Path | Mapping[str, Any] | None = None,
        test_fraction: float | None = None,
        seed: int = 0,
        standardize: bool = False,
        value_types: Mapping[str, ValueType] | None = None,
    ) -> None:
        if (test is None) == (test_fraction is None):
            raise ValueError(
                f"give test or test_fraction, one of them, not {test!r:.50} and {test_fraction!r}"
            )
        check_fraction(test_fraction, seed)
        self.sources = [train] if test is None else [train, test]
        self.test_fraction = test_fraction
        self.seed = seed
        self.standardize = standardize
        self.value_types = dict(value_types or {})

    def __call__(self, split: str) -> Vectors:
        """The ``"train"`` or ``"test"`` split.

        Raises:
            ValueError: For another split, and for files and columns that are not right.
        """
        return self._splits[one_of("split", split, ("train", "test"))]

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold; reads the files."""
        return self._encoded.schema

    @cached_property
    def _tables(self) -> list[dict[str, Any]]:
        return [_read(source) for source in self.sources]

    @cached_property
    def _encoded(self) -> Encoded:
        tables = [{k: v for k, v in table.items() if k != "features"} for table in self._tables]
        return encode(*tables, value_types=self.value_types)

    @cached_property
    def _splits(self) -> dict[str, Vectors]:
        vectors = [as_vectors(table["features"]) for table in self._tables]
        widths = [each.shape[1] for each in vectors]
        if len(set(widths)) > 1:
            raise ValueError(f"train has {widths[0]} features, test {widths[1]}")
        metadata, vocabulary = self._encoded.tables, self._encoded.vocabulary
        if self.test_fraction is None:
            made = [Vectors(v, m, vocabulary) for v, m in zip(vectors, metadata, strict=True)]
            splits = dict(zip(("train", "test"), made, strict=True))
        else:
            whole = Vectors(vectors[0], metadata[0], vocabulary)
            rows = hold_out(metadata[0]["label"], self.test_fraction, self.seed)
            splits = {name: whole.select(each) for name, each in rows.items()}
        if not self.standardize:
            return splits
        # In float64, in which the mean of equal numbers is that number.
        train = splits["train"].vectors.double()
        mean, deviation = train.mean(0), train.std(0, correction=0)
        scale = torch.where(deviation > 0, deviation, 1)
        return {
            name: Vectors(((each.vectors - mean) / scale).float(), each.metadata, vocabulary)
            for name, each in splits.items()
        }


def _read(source: Any) -> dict[str, Any]:
    """The columns of a split, with features and labels."""
    if isinstance(source, Mapping):
        table = {
            name: read_npy(column) if isinstance(column, str | Path) else column
            for name, column in source.items()
        }
    else:
        if Path(source).suffix != ".safetensors":
            raise ValueError(f"a split's file must end in .safetensors, not as {str(source)!r}")
        table = dict(read_tensors(Path(source))[0])
    missing = [name for name in ("features", "label") if name not in table]
    if missing:
        raise ValueError(f"a split must have {missing[0]!r}, and this one has {sorted(table)}")
    return table


def as_vectors(features: Any) -> Tensor:
    """(N, f) float32 of finite numbers.

    Raises:
        ValueError: For another shape, and numbers that are not finite, naming the row.
    """
    vectors = as_numbers(features, "features")
    if vectors.ndim != 2 or not vectors.numel():
        raise ValueError(f"features must be (N, f), not of shape {tuple(vectors.shape)}")
    vectors = vectors.float()
    bad = (~vectors.isfinite()).any(1).nonzero().flatten().tolist()
    if bad:
        raise ValueError(f"features are not finite in {len(bad)} rows, first in row {bad[0]}")
    return vectors
