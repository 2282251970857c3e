"""The contract of data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ccl_plugins.protocols.condition import ValueType


class Dataset(Protocol):
    """A data set by name; calling it gives a split.  It may also declare traits; see `trait`."""

    def __call__(self, split: str) -> Any:
        """A torch Dataset of ``(image, target)`` with ``metadata``: a row per sample, always ``label``.

        Splits are ``"train"`` and ``"test"``.  Columns of words come as class ids, the same in both; their
        ``vocabulary`` has the words, by column.  Texts, such as captions, stand beside the metadata: the
        split's ``texts`` has a string per sample, by column.  A split's ``group`` names the column of
        samples that belong together, as those of one patient.

        Raises:
            ValueError: For another split.
        """

    def schema(self) -> Mapping[str, ValueType]:
        """The metadata columns and their value types, without reading an image."""
