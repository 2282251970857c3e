"""The data set ``anndata``: single cells in an ``.h5ad`` file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from ccl_plugins.datasets import Annotated
from ccl_plugins.metadata import Encoded, encode
from ccl_plugins.protocols import ValueType
from torch import Tensor

from ccl_anndata.obsm import NAMES

if TYPE_CHECKING:
    from ccl_plugins.protocols import Dataset


def example(folder: Path) -> dict[str, Any]:
    """A tiny file with two donors and two types of cells."""
    import anndata
    import pandas as pd
    from scipy import sparse

    counts = np.random.default_rng(0).poisson(1.0, (24, 6)).astype(np.float32)
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(["T", "B"] * 12),
            "donor": ["a"] * 12 + ["b"] * 12,
            "split": (["train"] * 4 + ["test"] * 2) * 4,
            "depth": counts.sum(1),
        },
        index=[f"cell{i}" for i in range(24)],
    )
    file = folder / "cells.h5ad"
    anndata.AnnData(sparse.csr_matrix(counts), obs).write_h5ad(file)
    return {"path": str(file), "label": "type", "split": "split"}


class AnnDataFile:
    """Single cells of an ``.h5ad`` file: a row of its matrix each, with the columns of ``obs``.

    For the views ``mask_genes`` and the backbone ``mlp``.  A sparse matrix stays sparse in memory; the cells
    of a batch become dense when they are read.  Categories, words, whole numbers and truth values are
    ``"categorical"``, other numbers ``"continuous"``; what is missing in ``obs`` is missing.  The metadata
    column ``obs_names`` has the cells' names, by which `write_obsm` finds them again.

    Args:
        path: The file.
        label: The column of ``obs`` with the label; its name in the metadata is ``label``.  An empty name:
            the cells have none.
        split: The column of ``obs`` that holds ``train`` or ``test`` for each cell; other cells are not used.
        test_fraction: The part of each class that is kept for testing, between 0 and 1, instead of ``split``.
        seed: Of that choice, 0 or more.
        matrix: Where the numbers are in the file: ``"X"``, ``"layers/counts"``, ``"raw/X"``,
            ``"obsm/X_pca"``.
        columns: The columns of ``obs`` that are metadata besides the label; None: all.
        group: The column of cells that belong together, as ``"donor"``: a donor's cells come into one
            split, are held out for validation together, and intervals are over donors.
        value_types: Value types of columns whose values do not show them.

    Raises:
        ValueError: If a parameter is out of its range, or not exactly one of ``split`` and
            ``test_fraction`` is given; on use, for a matrix or a column that is not there or holds
            something else, and for a group in both splits.
        FileNotFoundError: On use, if there is no such file.
    """

    EXAMPLE: ClassVar[Any] = example

    def __init__(
        self,
        path: str | Path,
        label: str,
        split: str | None = None,
        test_fraction: float | None = None,
        seed: int = 0,
        matrix: str = "X",
        columns: Sequence[str] | None = None,
        group: str | None = None,
        value_types: Mapping[str, ValueType] | None = None,
    ) -> None:
        if (split is None) == (test_fraction is None):
            raise ValueError(
                f"give split or test_fraction, exactly one, not {split!r} and {test_fraction!r}"
            )
        if test_fraction is not None and not 0 < test_fraction < 1:
            raise ValueError(f"test_fraction must lie between 0 and 1, not {test_fraction!r}")
        if seed < 0:
            raise ValueError(f"seed must be 0 or more, not {seed!r}")
        self.path = Path(path).expanduser()
        self.label = label
        self.split = split
        self.test_fraction = test_fraction
        self.seed = seed
        self.matrix = matrix
        self.columns = None if columns is None else [*columns]
        self.group = group
        self.value_types = dict(value_types or {})

    def __call__(self, split: str) -> Annotated:
        """The ``"train"`` or ``"test"`` split."""
        if split not in ("train", "test"):
            raise ValueError(f"split must be 'train' or 'test', not {split!r}")
        rows = self._rows[split]
        columns = {name: values[rows] for name, values in self._encoded.tables[0].items()}
        samples = Rows(self._matrix, rows)
        return Annotated(samples, columns, self._encoded.vocabulary, group=self.group)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold; reads ``obs``."""
        return self._encoded.schema

    def _read(self, place: str) -> Any:
        """A part of the file, such as ``obs``."""
        import h5py
        from anndata.io import read_elem

        if not self.path.is_file():
            raise FileNotFoundError(f"there is no file {str(self.path)!r}")
        with h5py.File(self.path) as file:
            if place not in file:
                folder = place.rpartition("/")[0]
                there = [f"{folder}/{name}" for name in file.get(folder, ())] if folder else ["X"]
                raise ValueError(
                    f"{self.path} has no {place!r}; it has {', '.join(there) or 'nothing of the kind'}"
                )
            return read_elem(file[place])

    @cached_property
    def _obs(self) -> Any:
        obs = self._read("obs")
        wanted = [self.label, self.split, self.group, *(self.columns or ())]
        if lacking := [name for name in wanted if name and name not in obs]:
            has = ", ".join(map(str, obs.columns)) or "none"
            raise ValueError(f"obs of {self.path} has no column {lacking[0]!r}; it has {has}")
        if not obs.index.is_unique:
            twice = obs.index[obs.index.duplicated()][0]
            raise ValueError(
                f"{self.path} has two cells {twice!r}: AnnData.obs_names_make_unique() gives them names"
            )
        return obs

    @cached_property
    def _encoded(self) -> Encoded:
        obs = self._obs
        names = self.columns if self.columns is not None else [*obs.columns]
        names = [*dict.fromkeys([*names, *filter(None, [self.group])])]
        taken = [name for name in names if name not in (self.label, self.split)]
        if reserved := sorted({"label", NAMES} & {*taken}):
            raise ValueError(
                f"the name {reserved[0]!r} of a column of obs is taken: rename it, or name the columns to"
                " read in columns"
            )
        label = column(obs[self.label]) if self.label else np.full(len(obs), -1)
        table = {"label": label, NAMES: [*obs.index.astype(str)]}
        table |= {name: column(obs[name]) for name in taken}
        return encode(table, value_types=self.value_types, files={n: [self.path] for n in table})

    @cached_property
    def _matrix(self) -> Any:
        matrix = self._read(self.matrix)
        if hasattr(matrix, "tocsr"):
            matrix = matrix.tocsr()
            numbers = matrix.data
        else:
            matrix = numbers = np.asarray(matrix)
        if matrix.ndim != 2 or numbers.dtype.kind not in "biuf" or not matrix.shape[1]:
            raise ValueError(
                f"{self.matrix!r} of {self.path} must hold numbers (cells, genes), not"
                f" {numbers.dtype} of shape {matrix.shape}"
            )
        if len(self._obs) != matrix.shape[0]:
            raise ValueError(
                f"{self.matrix!r} of {self.path} has {matrix.shape[0]} rows for {len(self._obs)} cells"
            )
        if not np.isfinite(numbers).all():
            raise ValueError(f"{self.matrix!r} of {self.path} holds numbers that are not finite")
        return matrix

    @cached_property
    def _rows(self) -> dict[str, Tensor]:
        """The rows of each split."""
        obs, (table,) = self._obs, self._encoded.tables
        if self.split is not None:
            rows = {
                split: torch.from_numpy((obs[self.split] == split).to_numpy(bool))
                .nonzero()
                .flatten()
                for split in ("train", "test")
            }
            if empty := [split for split, of in rows.items() if not len(of)]:
                raise ValueError(f"no cell of {self.path} has {empty[0]!r} in {self.split!r}")
            if self.group is not None:
                of = {split: table[self.group][each].unique() for split, each in rows.items()}
                shared = of["train"][torch.isin(of["train"], of["test"])]
                if len(shared):
                    words = self._encoded.vocabulary.get(self.group)
                    first = words[int(shared[0])] if words else int(shared[0])
                    raise ValueError(
                        f"{self.split!r} of {self.path} has cells of {len(shared)} values of the group"
                        f" {self.group!r} in both train and test, such as {first!r}"
                    )
            return rows
        whole = Annotated(range(len(obs)), table, self._encoded.vocabulary, group=self.group)
        return whole.held_out(self.test_fraction or 0.0, self.seed)


class Rows:
    """Some rows of a matrix as dense float32 tensors.

    Args:
        matrix: (cells, genes), an array or a sparse matrix of rows.
        rows: Which of them.
    """

    def __init__(self, matrix: Any, rows: Tensor) -> None:
        self.matrix = matrix
        self.rows = rows.numpy()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Tensor]:
        """Some cells, which are read together."""
        read = self.matrix[self.rows[list(indices)]]
        dense = read.toarray() if hasattr(read, "toarray") else read
        return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32)).unbind()


def column(series: Any) -> Any:
    """A column of ``obs``: an array of numbers, or a list in which what is missing is None.

    Categories that are fractions are words: somebody has said that they are classes.
    """
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        return series.to_numpy()
    values = [
        None if missing else value
        for value, missing in zip(series.tolist(), series.isna(), strict=True)
    ]
    if hasattr(series, "cat"):
        values = [str(value) if isinstance(value, float) else value for value in values]
    return values


if TYPE_CHECKING:
    _: Dataset = AnnDataFile(
        "cells.h5ad", "type", "split"
    )  # a type checker names missing members here
