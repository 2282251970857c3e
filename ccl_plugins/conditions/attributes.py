"""Binary or discrete attributes as conditioning variable, or classes made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.arrays import as_numbers
from ccl_plugins.conditions.attribute_sources import from_array, from_file
from ccl_plugins.conditions.binary_columns import binary_columns
from ccl_plugins.conditions.entropy_order import by_entropy, choose_k, equal_values
from ccl_plugins.metadata import class_ids
from ccl_plugins.missing import Missing, check_policy
from ccl_plugins.protocols import Life, Measure, Table
from ccl_plugins.tabular import choose


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
    life: Life = "static"

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
        self.missing = check_policy(missing, self.measure)

    @property
    def measure(self) -> Measure:
        """Class ids with ``k``, else 0/1 columns."""
        return "multi_label" if self.k is None else "categorical"

    def fit(self, dataset: Any, embed: Callable[[], Tensor], previous: Table | None) -> Tensor:
        """The attributes of the training split, or the classes."""
        binary = binary_columns(self._read(dataset), getattr(dataset, "vocabulary", {}))
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
            k = choose_k(columns, class_ids(dataset.metadata, self.target))
        *_, ids = equal_values(columns[:, :k])
        return ids

    def _read(self, dataset: Any) -> dict[str, Any]:
        """The chosen attributes by name, one row per sample."""
        if self.array is not None:
            found = from_array(as_numbers(self.array, "array"), dataset, "the array")
            return choose(found, self.columns, "the array")
        if self.file is not None:
            found = from_file(self.file, self.key, dataset)
            return choose(found, self.columns, str(self.file))
        return choose(dataset.metadata, self.columns, "the data set")
