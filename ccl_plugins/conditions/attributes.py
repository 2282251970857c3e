"""Binary or discrete attributes as conditioning variable, or classes made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.conditions.given import read_array
from ccl_plugins.files.arrays import as_numbers
from ccl_plugins.files.tables import choose
from ccl_plugins.information.entropies import crossing, information
from ccl_plugins.metadata.columns import class_ids, encode
from ccl_plugins.metadata.matching import read_rows, require_rows
from ccl_plugins.metadata.missing import Missing, check_policy, missing_entries
from ccl_plugins.protocols import Refresh, Table, ValueType


def binary_columns(
    attributes: Mapping[str, Any], vocabulary: Mapping[str, Sequence[str]]
) -> dict[str, Tensor]:
    """Discrete attributes as 0/1 columns (N,) float32, NaN where a value is missing.

    A column of 0 and 1 stays what it is.  Another, and one of words, becomes one for each value, in
    sorted order, called ``name=value``.  Columns side by side, (N, c), are taken one by one, called
    ``name[i]``.

    Args:
        attributes: Tensors, arrays or lists by name, one row per sample; missing is -1, NaN, None or
            an empty word.
        vocabulary: For columns of class ids, the word of each.

    Raises:
        ValueError: For numbers that are not whole, or words among them, naming column and row.
    """
    found: dict[str, Tensor] = {}
    for name, values in attributes.items():
        encoded = encode({name: values})
        words = encoded.vocabulary.get(name) or vocabulary.get(name)
        column = encoded.tables[0][name]
        if column.ndim == 1:
            found |= _one_per_value(name, column, words)
        else:
            for i, each in enumerate(column.T):
                found |= _one_per_value(f"{name}[{i}]", each, words)
    return found


def _one_per_value(name: str, column: Tensor, words: Sequence[str] | None) -> dict[str, Tensor]:
    missing = missing_entries(column, "categorical")
    there = column[~missing].double()
    odd = (there != there.round()).nonzero().flatten()
    if len(odd):
        row = int((~missing).nonzero().flatten()[odd[0]])
        raise ValueError(
            f"attribute {name!r} has {column[row].item():g} in row {row}: attributes are discrete;"
            " take condition column or clusters for real numbers"
        )
    values = there.unique().long().tolist()
    gone = torch.where(missing, torch.nan, 0.0)
    if words is None and set(values) <= {0, 1}:
        return {name: (column == 1).float() + gone}
    return {
        f"{name}={words[value] if words else value}": (column == value).float() + gone
        for value in values
    }


def entropy_bits(column: Tensor) -> float:
    """The entropy of a column's values in bits, of those that are not NaN."""
    there = column[~column.isnan()]
    if not len(there):
        return 0.0
    counts = torch.unique(there, return_counts=True)[1].double()
    shares = counts / counts.sum()
    return float(-(shares * shares.log2()).sum())


def by_entropy(columns: Tensor) -> list[int]:
    """The places of (N, A) columns from the highest entropy to the lowest, ties in column order."""
    bits = [entropy_bits(column) for column in columns.T]
    return sorted(range(len(bits)), key=lambda i: -bits[i])


def equal_values(columns: Tensor) -> Iterator[Tensor]:
    """Class ids (N,) of equal values in the first column, the first two, and so on.

    Ids are numbered from 0; a sample that lacks one of the values has -1, then and after.
    """
    ids = torch.zeros(len(columns), dtype=torch.long)
    for column in columns.T:
        values = torch.unique(column.nan_to_num(), return_inverse=True)[1]
        joint = ids * (int(values.max()) + 1) + values
        there = (ids >= 0) & ~column.isnan()
        ids = torch.full_like(ids, -1)
        ids[there] = torch.unique(joint[there], return_inverse=True)[1]
        yield ids


def choose_k(columns: Tensor, target: Tensor) -> int:
    """How many of (N, A) columns, in this order, to cluster by: where I(Z;T) and -H(Z|T) cross.

    Args:
        columns: From the highest entropy to the lowest.
        target: (N,) T, class ids; -1 where missing, which is not counted.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 4.3.
    """
    found = []
    for ids in equal_values(columns):
        there = (ids >= 0) & (target >= 0)
        if not there.any():
            break  # no sample has all of these attributes, nor of more
        found.append(information(ids[there], target[there]))
    if not found:
        raise ValueError("k='auto' needs samples that have an attribute and a target")
    return crossing(found) + 1


def from_file(file: Path, key: str | None, split: Any) -> dict[str, Any]:
    """The columns of a file, a row for each sample of a split.

    Args:
        file: ``.csv``, ``.parquet``, ``.npy`` or ``.safetensors``.
        key: The column that names the samples; None: row i is sample i.
        split: A torch Dataset with ``metadata``.

    Raises:
        ValueError: For a file that does not fit the split.
    """
    if file.suffix in (".npy", ".safetensors"):
        return from_array(read_array(file), split, str(file))
    return read_rows(file, key, split)


def from_array(array: Tensor, split: Any, place: str) -> dict[str, Any]:
    """The columns of an array (N, A), called ``"0"``, ``"1"``, ...

    Raises:
        ValueError: For another shape.
    """
    if array.ndim != 2:
        raise ValueError(f"{place} must be (N, A), not of shape {tuple(array.shape)}")
    require_rows(len(array), split, place)
    return {str(i): column for i, column in enumerate(array.T)}


class Attributes:
    """Binary attributes of each sample, or classes of equal attributes.

    Without ``k``, all attributes side by side: a multi-label condition.  With it, samples that agree on the
    k attributes of highest entropy form a class; ties in entropy go by column order.  A discrete
    attribute with several values becomes one binary attribute per value.

    Attributes come from the data set's metadata, a table in a file, or an array.

    Shape:
        N samples -> (N, A) of 0 and 1; with ``k`` (N,) class ids

    Args:
        columns: Which attributes, in this order; None: all in the file or array.
        file: A CSV, Parquet, ``.npy`` or ``.safetensors`` file to read instead of the metadata.
        key: The column of a table that names the sample, matched with the data set's column of the same
            name; samples without a row are missing.  None: row i is sample i.
        array: (N, A) numbers to use instead of the metadata.
        k: How many attributes decide the class; ``"auto"``: where I(Z;T) and -H(Z|T) cross, each scaled
            to 0 to 1 over all k.
        target: T, the metadata column of class ids that ``k="auto"`` reads.
        missing: What to do with samples that lack an attribute (-1, NaN, an empty cell; with ``k``, one
            of the k): ``"error"``, ``"own"`` (with ``k`` only) or ``"drop"``.

    Raises:
        ValueError: For two sources at once; for a ``k`` above the number of attributes, and tables that
            do not fit the data set, naming row and column.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 3.1.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"columns": ["label"], "k": 1}
    refresh: Refresh = "never"

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        file: str | Path | None = None,
        key: str | None = None,
        array: Any = None,
        k: int | Literal["auto"] | None = None,
        target: str = "label",
        missing: Missing = "error",
    ) -> None:
        if file is not None and array is not None:
            raise ValueError("give file= or array=, not both")
        if file is None and array is None and not columns:
            raise ValueError("name the columns of the data set that are attributes, or give a file")
        if key is not None and file is None:
            raise ValueError(f"key={key!r} names a column of a file, and none is given")
        if k is not None and k != "auto" and not (isinstance(k, int) and k >= 1):
            raise ValueError(f"k must be 1 or more, or 'auto', not {k!r}")
        self.columns = None if columns is None else list(columns)
        self.file = None if file is None else Path(file)
        self.key = key
        self.array = array
        self.k = k
        self.target = target
        self.missing = check_policy(missing, self.value_type)

    @property
    def value_type(self) -> ValueType:
        """Class ids with ``k``, else 0/1 columns."""
        return "multi_label" if self.k is None else "categorical"

    def fit(self, split: Any, embed: Callable[[], Tensor], previous: Table | None) -> Tensor:
        """The attributes of the training split, or the classes."""
        binary = binary_columns(self._read(split), getattr(split, "vocabulary", {}))
        if not binary:
            raise ValueError(f"there is no attribute in {self.columns or self.file or 'the array'}")
        if self.k is None:
            return torch.stack(list(binary.values()), 1)
        if self.k != "auto" and self.k > len(binary):
            raise ValueError(
                f"k={self.k}, but there are {len(binary)} binary attributes: {', '.join(binary)}"
            )
        columns = torch.stack(list(binary.values()), 1)
        columns, k = columns[:, by_entropy(columns)], self.k
        if k == "auto":
            k = choose_k(columns, class_ids(split.metadata, self.target))
        *_, ids = equal_values(columns[:, :k])
        return ids

    def _read(self, split: Any) -> dict[str, Any]:
        """The chosen attributes by name, one row per sample."""
        if self.array is not None:
            found = from_array(as_numbers(self.array, "array"), split, "the array")
            return choose(found, self.columns, "the array")
        if self.file is not None:
            found = from_file(self.file, self.key, split)
            return choose(found, self.columns, str(self.file))
        return choose(split.metadata, self.columns, "the data set")
