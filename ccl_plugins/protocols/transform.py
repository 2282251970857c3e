"""The contract of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor

from ccl_plugins.protocols.condition import ValueType
from ccl_plugins.protocols.traits import traits_of


class Transform(Protocol):
    """The augmentations."""

    @property
    def count(self) -> int:
        """The number of views."""

    def __call__(self, image: Any) -> list[Tensor]:
        """``count`` views of one image, each (channels, height, width)."""

    def plain(self, image: Any) -> Tensor:
        """The image, or a batch, without augmentation, from which features are computed."""


@traits_of("transform")
class TransformTraits:
    """The optional members of a transform."""

    transforms: Sequence[Callable[[Any], Tensor]] | None = None
    """Read when a sample is loaded. One function from an image to a tensor for each view; training then
    seeds each view separately."""
    batch_transforms: Sequence[Callable[[Tensor, Tensor], Tensor]] | None = None
    """Read when a run
    begins. One function for each view, called on the device with the images of a batch as the data set
    has them, `(n, channels, height, width)`, those of PIL as uint8, and with seeds `(n,)`, long. It
    returns `n` tensors, stacked; row i may depend on image i and seed i alone. Training then draws
    views by these functions and not image by image, and all views of one function in one call, with
    their rows one after another."""
    sizes: Sequence[int] = ()
    """Read when a pipeline is composed. The height (and width) of each view in pixels, if views
    differ in size; the first is the transform's `size`."""
    modalities: Sequence[str] = ()
    """Read when a pipeline is composed and when a sample is loaded. For each view the name of its
    modality. The transform then has `of`, the transform of each modality by name, beginning with
    `"image"`; it and its `transforms` take a mapping: the image, text or values by modality."""
    source: str | None = None
    """Read when a pipeline is composed and when a sample is loaded. The column that the views are made of
    instead of the image. Such a transform is one [modality](glossary.md#modality) among several."""
    value_types: Sequence[ValueType] | None = None
    """Read with `source`. The value types that its column may have; without them it is one of the split's
    `texts`."""

    def check_values(self, values: Any) -> None:
        """Called before training with the whole column of a `source`.

        `values` are N strings, or `(N,)` or `(N, c)` numbers. Raises ValueError for a value that the
        transform cannot take, and warns if it loses something.
        """

    def fingerprint(self) -> str | None:
        """Called before training. A string that differs if a file that the transform reads has changed.

        Such a file is a tokenizer; a run is not resumed with other contents of it.
        """
        return None
