"""The contract of data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ccl_plugins.protocols.condition import ValueType


class Dataset(Protocol):
    """A data set by name; calling it gives a split.  It may also satisfy `SupportsTexts`."""

    def __call__(self, split: str) -> Any:
        """A torch Dataset of ``(image, target)`` with ``metadata``: a row per sample, always ``label``.

        Splits are ``"train"`` and ``"test"``.  Columns of words come as class ids, the same in both; their
        ``vocabulary`` has the words, by column.  Texts, such as captions, stand beside the metadata: the
        split's ``texts`` has a string per sample, by column.

        Raises:
            ValueError: For another split.
        """

    def schema(self) -> Mapping[str, ValueType]:
        """The metadata columns and their value types, without reading an image."""


@runtime_checkable
class SupportsTexts(Protocol):
    """A data set whose splits have ``texts``."""

    def texts(self) -> Sequence[str]:
        """The columns of texts, the same in both splits, without reading an image; () for none."""
