"""Discrete attributes as conditioning variable: as 0/1 columns, or as classes of equal attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import whole
from ccl_plugins.files.arrays import as_numbers, read_array
from ccl_plugins.files.reading import naming_files
from ccl_plugins.files.tables import choose
from ccl_plugins.information.entropies import crossing, entropy, information
from ccl_plugins.metadata.columns import class_ids, encode
from ccl_plugins.metadata.matching import read_rows, require_matrix
from ccl_plugins.metadata.variable import Variable, check_policy
from ccl_plugins.protocols import Embedder, Missing, Refresh, Table, ValueType


@dataclass(eq=False, repr=False)
class Attributes:
    """Binary attributes of each sample, or classes of samples with equal attributes.

    Without ``k``, all attributes side by side: a multi-label condition.  With ``k``, samples that agree on
    the k attributes of highest entropy form a class; ties in entropy go by column order. A discrete
    attribute becomes one binary attribute per value; with ``k``, an attribute of two values becomes
    a single one.

    Attributes come from the data set's metadata, a table in a file, or an array.

    Shape:
        N samples -> (N, A) of 0 and 1; with ``k`` (N,) class ids

    Args:
        columns: The attributes to use, in this order; None: all in the file or array.
        file: A CSV, Parquet, ``.npy`` or ``.safetensors`` file to read instead of the metadata.
        key: The column of a table that names the sample, matched with the data set's column of the same
            name; samples without a row are missing.  None: row i is sample i.
        array: (N, A) numbers to use instead of the metadata.
        k: The number of attributes that decide the class; ``"auto"``: the k where I(Z;T) and
            -H(Z|T) cross, each scaled to 0 to 1 over all k.
        target: T, the metadata column of class ids that ``k="auto"`` reads.
        missing: What to do with samples that lack an attribute (-1, NaN, an empty cell; with ``k``,
            only the k attributes count): ``"error"``, ``"own"`` (with ``k`` only), ``"ignore"`` or
            ``"drop"`` (see `ccl_plugins.conditions.Column`).

    Raises:
        ValueError: For two sources at once; for a ``k`` above the number of attributes, and tables that
            do not fit the data set, naming row and column.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 3.1.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"columns": ["label"], "k": 1}
    refresh: ClassVar[Refresh] = "never"

    columns: Sequence[str] | None = None
    file: str | Path | None = None
    key: str | None = None
    array: Any = None
    k: int | Literal["auto"] | None = None
    target: str = "label"
    missing: Missing = "error"

    def __post_init__(self) -> None:
        if self.file is not None and self.array is not None:
            raise ValueError("give file= or array=, not both")
        if self.file is None and self.array is None and not self.columns:
            raise ValueError("name the columns of the data set that are attributes, or give a file")
        if self.key is not None and self.file is None:
            raise ValueError(f"key={self.key!r} names a column of a file: give file=, too")
        if self.file is not None:
            self.file = Path(self.file).expanduser()
        if self.k is not None and self.k != "auto":
            self.k = whole("k", self.k, 1)
        check_policy(self.missing, self.value_type)

    @property
    def value_type(self) -> ValueType:
        """Class ids with ``k``, else 0/1 columns."""
        return "multi_label" if self.k is None else "categorical"

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """The attributes of the training split, or the classes."""
        with naming_files(self.file):
            return self._fit(split)

    def _fit(self, split: Any) -> Tensor:
        words = getattr(split, "vocabulary", {})
        # Of two values, each tells what the other tells: one is enough for clusters.
        binary = _binary_columns(self._read(split), words, both=self.k is None)
        if not binary:
            raise ValueError(f"there is no attribute in {self.columns or self.file or 'the array'}")
        columns, k = torch.stack(list(binary.values()), 1), self.k
        if k is None:
            return columns
        if k != "auto" and k > len(binary):
            raise ValueError(
                f"k={k}, but there are {len(binary)} binary attributes: {', '.join(binary)}"
            )
        columns = _by_entropy(columns)
        if k == "auto":
            k = _choose_k(columns, class_ids(split.metadata, self.target))
        *_, ids = _equal_values(columns[:, :k])
        return ids

    def _read(self, split: Any) -> dict[str, Any]:
        """The chosen attributes by name, one row per sample."""
        if self.array is None and self.file is None:
            return choose(split.metadata, self.columns, "the data set")
        file = None if self.file is None else Path(self.file)
        place = "the array" if file is None else str(file)
        if file is not None and file.suffix not in (".npy", ".safetensors"):
            return choose(read_rows(file, self.key, split), self.columns, place)
        array = as_numbers(self.array, "array") if file is None else read_array(file)
        columns = require_matrix(array, split, place).T
        return choose({str(i): c for i, c in enumerate(columns)}, self.columns, place)


def _binary_columns(
    attributes: Mapping[str, Any], vocabulary: Mapping[str, Sequence[str]], *, both: bool
) -> dict[str, Tensor]:
    """Discrete attributes as 0/1 columns (N,) float32, NaN where a value is missing.

    Columns of 0 and 1 stay. Other columns become one column per value, ``name=value``; unless
    ``both``, a column of two values becomes one. A column of vectors (N, c) counts as c columns,
    ``name[i]``. ``vocabulary`` has the words of columns of class ids.
    """
    columns: dict[str, Tensor] = {}
    for name, values in attributes.items():
        encoded = encode({name: values})
        words = encoded.vocabulary.get(name) or vocabulary.get(name)
        column = encoded.tables[0][name]
        if column.ndim == 1:
            columns |= _one_per_value(name, column, words, both)
        else:
            for i, each in enumerate(column.T):
                columns |= _one_per_value(f"{name}[{i}]", each, words, both)
    return columns


def _one_per_value(
    name: str, column: Tensor, words: Sequence[str] | None, both: bool
) -> dict[str, Tensor]:
    missing = Variable(column, "categorical").missing_entries
    fractional = (column != column.double().round()) | column.isinf()
    fractional = (fractional & ~missing).nonzero().flatten()
    if len(fractional):
        row = int(fractional[0])
        raise ValueError(
            f"attribute {name!r} has {column[row].item():g} in sample {row} (from 0): attributes "
            "are discrete; take the condition column or clusters for real numbers"
        )
    values = column[~missing].unique().long().tolist()
    nan = torch.where(missing, torch.nan, 0.0)
    if words is None and set(values) <= {0, 1}:
        return {name: (column == 1).float() + nan}
    return {
        f"{name}={words[value] if words else value}": (column == value).float() + nan
        for value in (values if both or len(values) != 2 else values[:1])
    }


def _by_entropy(columns: Tensor) -> Tensor:
    """(N, A) columns from the highest entropy to the lowest, ties in column order."""
    known = [column[~column.isnan()].long() for column in columns.T]
    bits = [entropy(values) if len(values) else 0.0 for values in known]
    return columns[:, sorted(range(len(bits)), key=lambda i: -bits[i])]


def _choose_k(columns: Tensor, target: Tensor) -> int:
    """The k of ``"auto"`` for (N, A) columns in order of falling entropy; target (N,) has -1 for none."""
    candidates = []
    for ids in _equal_values(columns):
        valid = (ids >= 0) & (target >= 0)
        if not valid.any():
            break  # no sample has all of these attributes
        candidates.append(information(ids[valid], target[valid]))
    if not candidates:
        raise ValueError("k='auto' needs samples that have an attribute and a target")
    return crossing(candidates) + 1


def _equal_values(columns: Tensor) -> Iterator[Tensor]:
    """Class ids (N,) of equal values in the first column, the first two, ...; -1 after a missing value."""
    ids = torch.zeros(len(columns), dtype=torch.long)
    for column in columns.T:
        values = torch.unique(column.nan_to_num(), return_inverse=True)[1]
        joint = ids * (int(values.max()) + 1) + values
        valid = (ids >= 0) & ~column.isnan()
        ids = torch.full_like(ids, -1)
        ids[valid] = torch.unique(joint[valid], return_inverse=True)[1]
        yield ids
