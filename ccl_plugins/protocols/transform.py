"""The contract of transforms."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor


class Transform(Protocol):
    """The augmentations.

    It may also declare traits; see `trait`.
    """

    @property
    def count(self) -> int:
        """The number of views."""

    def __call__(self, image: Any) -> list[Tensor]:
        """``count`` views of one image, each (channels, height, width)."""

    def plain(self, image: Any) -> Tensor:
        """The image, or a batch, without augmentation, as features are computed from it."""
