"""Vectors instead of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, whole
from ccl_plugins.datasets.annotated import Annotated, annotations_of
from ccl_plugins.datasets.splitting import SPLITS, between, check_split
from ccl_plugins.files.arrays import as_float32, as_numbers, read_npy
from ccl_plugins.files.mapped import Rows, blocks, by_row
from ccl_plugins.files.reading import naming_files
from ccl_plugins.files.tensors import read_tensors
from ccl_plugins.metadata.columns import Encoded, encode
from ccl_plugins.protocols import ValueType


@dataclass(eq=False, repr=False)
class Features:
    """Vectors with metadata: tabular data, or features that another model computed.

    Use them with the views ``noise`` and the backbone ``mlp``. A split is a ``.safetensors`` file
    or a mapping, with ``features``, (N, f), a ``label`` and any other columns. In a mapping, a
    column is an array, a tensor, a list, or the path of a ``.npy`` file; a configuration can hold
    paths, but not arrays. Files of more than 64 MB stay on disk, unless they must be split or
    standardized, or hold other numbers than float32.

    Args:
        train: The training split.
        test: The test split.
        test_fraction: The part of each class of ``train`` that is kept for testing, between 0 and 1,
            instead of ``test``.
        seed: Seed of that choice.
        standardize: Whether to scale each feature to mean 0 and standard deviation 1 over the training
            split; a constant feature becomes 0.
        group: The column of samples that belong together, such as ``"patient_id"``: they come into
            one split, are held out for validation together, and intervals are over groups.
        value_types: Value types of columns whose values do not show them.  By default words, whole numbers
            and truth values are ``"categorical"``, 0 and 1 side by side ``"multi_label"``, other numbers
            ``"continuous"``.

    Raises:
        ValueError: If a parameter is out of its range, or not exactly one of ``test`` and
            ``test_fraction`` is given; on use, for invalid files and columns; the message names the
            row.
        FileNotFoundError: On use, if there is no such file.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "train": {
            "features": [[0.0, 1.0], [1.0, 0.0], [0.5, 1.0], [1.0, 0.5]],
            "label": [0, 1, 0, 1],
        },
        "test": {"features": [[0.1, 0.9], [0.9, 0.1]], "label": [0, 1]},
    }

    train: str | Path | Mapping[str, Any]
    test: str | Path | Mapping[str, Any] | None = None
    test_fraction: float | None = checked(between, default=None)
    seed: int = checked(whole, least=0, default=0)
    standardize: bool = False
    value_types: Mapping[str, ValueType] | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if (self.test is None) == (self.test_fraction is None):
            raise ValueError(
                f"give test or test_fraction, exactly one, not {self.test!r:.50} and"
                f" {self.test_fraction!r}"
            )
        self.sources = [self.train] if self.test is None else [self.train, self.test]

    def __call__(self, split: str) -> Annotated:
        """The ``"train"`` or ``"test"`` split."""
        return self._splits[check_split(split)]

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold; reads the files."""
        return self._encoded.schema

    @cached_property
    def _tables(self) -> list[dict[str, Any]]:
        return [_read(source) for source in self.sources]

    @cached_property
    def _encoded(self) -> Encoded:
        tables = [{k: v for k, v in table.items() if k != "features"} for table in self._tables]
        files = {name: self._files(name) for name in tables[0]}
        with naming_files(*self._files()):
            encoded = encode(*tables, value_types=self.value_types, files=files)
        with naming_files(*self._files("label")):
            for table in encoded.tables:
                if table["label"].ndim != 1:
                    shape = tuple(table["label"].shape)
                    raise ValueError(f"the label must be (N,), not of shape {shape}")
        return encoded

    def _files(self, column: str | None = None) -> list[str | Path]:
        """The files of a column, or of all."""
        files: list[str | Path] = []
        for source in self.sources:
            if isinstance(source, Mapping):
                given = source.values() if column is None else [source.get(column)]
                files += [each for each in given if isinstance(each, str | Path)]
            else:
                files.append(source)
        return files

    @cached_property
    def _splits(self) -> dict[str, Annotated]:
        with naming_files(*self._files()):
            return self._split()

    def _split(self) -> dict[str, Annotated]:
        with naming_files(*self._files("features")):
            vectors = [_as_vectors(table["features"], self.standardize) for table in self._tables]
            widths = [each.shape[1] for each in vectors]
            if len(set(widths)) > 1:
                raise ValueError(f"train has {widths[0]} features, test {widths[1]}")
        splits = [
            Annotated(by_row(each), columns, self._encoded.vocabulary, group=self.group)
            for each, columns in zip(vectors, self._encoded.tables, strict=True)
        ]
        if self.test_fraction is not None:
            (whole,) = splits
            held = whole.held_out(self.test_fraction, self.seed).values()
            splits = [
                Annotated(vectors[0][rows], *annotations_of(whole, rows.tolist())) for rows in held
            ]
        if self.standardize:
            from sklearn.preprocessing import StandardScaler

            train, *_ = given = [_vectors(split.samples) for split in splits]
            scaler = StandardScaler().fit(train.double().numpy())
            for split, each in zip(splits, given, strict=True):
                scaled = scaler.transform(each.double().numpy())
                split.samples = torch.from_numpy(scaled).float()
        return dict(zip(SPLITS, splits, strict=True))


def _read(source: Any) -> dict[str, Any]:
    """The columns of a split, with features and labels."""
    if isinstance(source, Mapping):
        table = {
            name: read_npy(column) if isinstance(column, str | Path) else column
            for name, column in source.items()
        }
    elif Path(source).suffix == ".safetensors":
        table = dict(read_tensors(Path(source).expanduser())[0])
    else:
        raise ValueError(f"a split's file must end in .safetensors, but this is {str(source)!r}")
    for name in ("features", "label"):
        if name not in table:
            place = "" if isinstance(source, Mapping) else f"{source}: "
            raise ValueError(f"{place}a split must have {name!r}, but this one has {sorted(table)}")
    return table


def _vectors(samples: Tensor | Rows) -> Tensor:
    return samples.values if isinstance(samples, Rows) else samples


def _as_vectors(features: Any, exact: bool) -> Tensor:
    """The features (N, f), all finite, as float32; if ``exact``, with the type that they have."""
    vectors = as_numbers(features, "features")
    if vectors.ndim != 2 or not vectors.numel():
        raise ValueError(f"features must be (N, f), not of shape {tuple(vectors.shape)}")
    _refuse_non_finite(vectors, "not finite")
    if exact:
        return vectors
    cure = "standardize=True gives each feature mean 0 and standard deviation 1"
    floats = as_float32(vectors, "features", cure)
    if floats is not vectors:
        _refuse_non_finite(floats, f"above 3.4e38, the largest number of float32 ({cure}),")
    return floats


def _refuse_non_finite(vectors: Tensor, what: str) -> None:
    finite = torch.cat([vectors[rows].isfinite().all(1) for rows in blocks(vectors)])
    if bad := (~finite).nonzero().flatten().tolist():
        raise ValueError(f"features are {what} in {len(bad)} rows, first in row {bad[0]} (from 0)")
