"""The contract of backbones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


class Backbone(Protocol):
    """An ``nn.Module`` from images to features.

    It may also satisfy `SupportsNoWeightDecay` and `SupportsLayerNumbers`, and its class
    `SupportsImageSize` and `SupportsTokens`.
    """

    @property
    def num_features(self) -> int:
        """The length f of a feature vector."""

    def __call__(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, num_features)."""


@runtime_checkable
class SupportsNoWeightDecay(Protocol):
    """A backbone that names parameters without weight decay."""

    def no_weight_decay(self) -> set[str]:
        """Their names."""


@runtime_checkable
class SupportsLayerNumbers(Protocol):
    """A backbone whose learning rate may decay from layer to layer."""

    def layer_numbers(self) -> dict[str, int]:
        """The layer of each parameter by name, 0 nearest to the image."""


@runtime_checkable
class SupportsImageSize(Protocol):
    """A backbone's class that takes images of one size."""

    @staticmethod
    def check_image_size(parameters: Mapping[str, Any], size: int) -> None:
        """Refuse images of another size before the backbone is built; no network is made.

        Args:
            parameters: Of its constructor, all of them.
            size: Height and width of the images that the views make, in pixels.

        Raises:
            ValueError: Saying which size is right.
        """


@runtime_checkable
class SupportsTokens(Protocol):
    """A backbone's class that takes token ids."""

    @staticmethod
    def check_tokens(parameters: Mapping[str, Any], length: int, vocabulary: int) -> None:
        """Refuse tokens that it would not take before the backbone is built; no network is made.

        Args:
            parameters: Of its constructor, all of them.
            length: Tokens of a view.
            vocabulary: Token ids are below this number.

        Raises:
            ValueError: Saying which parameter is right.
        """
