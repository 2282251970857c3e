"""The contract of transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from ccl_plugins.protocols.condition import ValueType


class Transform(Protocol):
    """The augmentations.

    It may also satisfy `SupportsTransforms`, `SupportsSource`, `SupportsCheckValues`,
    `SupportsFingerprint` and `SupportsModalities`.
    """

    @property
    def count(self) -> int:
        """The number of views."""

    def __call__(self, image: Any) -> list[Tensor]:
        """``count`` views of one image, each (channels, height, width)."""

    def plain(self, image: Any) -> Tensor:
        """The image, or a batch, without augmentation, as features are computed from it."""


@runtime_checkable
class SupportsTransforms(Protocol):
    """A transform whose views can be made one by one; training then seeds each by itself."""

    @property
    def transforms(self) -> Sequence[Callable[[Any], Tensor]]:
        """For each view the function that makes it from an image."""


@runtime_checkable
class SupportsSource(Protocol):
    """A transform of something else than the image: of a sample's text, or of its values in a column."""

    @property
    def source(self) -> str:
        """The column of the split's ``texts``, or else of its ``metadata``, that is given to it."""

    @property
    def value_types(self) -> Sequence[ValueType]:
        """The value types of the column that are accepted; empty: texts."""


@runtime_checkable
class SupportsCheckValues(Protocol):
    """A transform with a source that looks at the whole column before training."""

    def check_values(self, values: Any) -> None:
        """Refuse values that it cannot take, and warn of those that lose something.

        Args:
            values: The column of the training split: N strings, or (N,) or (N, c) numbers.

        Raises:
            ValueError: Saying which value is wrong.
        """


@runtime_checkable
class SupportsFingerprint(Protocol):
    """A transform that reads a file of its own, as one with a tokenizer."""

    def fingerprint(self) -> str:
        """What differs if the file has other contents; a resume with another one is refused."""


@runtime_checkable
class SupportsModalities(Protocol):
    """A transform of several modalities of a sample: of its image, its texts, its values in columns.

    It, and its ``transforms``, take a mapping: the image, text or values by modality.
    """

    @property
    def of(self) -> Mapping[str, Transform]:
        """The transform of each modality by its name; the first is ``"image"``."""

    @property
    def modalities(self) -> Sequence[str]:
        """For each view the name of its modality."""
