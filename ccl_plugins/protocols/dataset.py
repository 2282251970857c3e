"""The contract of data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ccl_plugins.protocols.condition import ValueType
from ccl_plugins.protocols.traits import absent_by_default, traits_of


class Dataset(Protocol):
    """A data set by name; calling it gives a split."""

    def __call__(self, split: str) -> Any:
        """A torch Dataset of ``(image, target)`` with ``metadata``: a row per sample, always ``label``.

        Splits are ``"train"`` and ``"test"``. Columns of words are class ids, the same in both
        splits; the ``vocabulary`` has the words, by column. Texts, such as captions, are not
        metadata: the split's ``texts`` has a string per sample, by column. A split's ``group``
        names the column of samples that belong together, such as the patient.

        Raises:
            ValueError: For another split.
        """

    def schema(self) -> Mapping[str, ValueType]:
        """The metadata columns and their value types, without reading an image."""


@traits_of("dataset")
class DatasetTraits:
    """The optional members of a data set."""

    @absent_by_default
    def texts(self) -> Sequence[str]:
        """Called when a pipeline is composed, and reads no image.

        Returns the names of the columns of texts, the same in both splits; `()` if there are none. A
        transform or an evaluator that reads another column is refused.
        """
