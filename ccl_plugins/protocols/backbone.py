"""The contract of backbones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from ccl_plugins.protocols.traits import absent_by_default, traits_of


class Backbone(Protocol):
    """An ``nn.Module`` from images to features."""

    @property
    def num_features(self) -> int:
        """The length f of a feature vector."""

    def __call__(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, num_features)."""


@traits_of("backbone")
class BackboneTraits:
    """The optional members of a backbone; static methods build no network."""

    patch_shape: Sequence[int] | None = None
    """Read by a method that masks patches. Height and width of a patch in pixels, and the width of its
    embedding. The backbone is then also called as `backbone(x, mask, token)`, and returns `(n,
    num_features)` and the features `(n, rows, columns, width)` of all patches. Embeddings of patches at
    which `mask`, `(n, rows, columns)`, is True are replaced by `token`, `(width,)`, before positions are
    added; with a mask of None, none."""

    @absent_by_default
    @staticmethod
    def check_masked(parameters: Mapping[str, Any]) -> None:
        """Called when a pipeline with a method that masks patches is composed, with all parameters.

        Raises ValueError if the backbone has no `patch_shape` with these. A class without it is refused.
        """

    @absent_by_default
    def patches(self, x: Tensor) -> Tensor:
        """Called for figures, with images.

        Returns the features of their patches, `(n, rows, columns, f)`.
        """

    def no_weight_decay(self) -> Collection[str]:
        """Called when the optimizer is created, unless it decays all parameters.

        Returns names of parameters without weight decay.
        """
        return ()

    @absent_by_default
    def layer_numbers(self) -> Mapping[str, int]:
        """Called when the optimizer is created with `layer_decay`.

        Returns the layer of each parameter by name, from 0 at the image.
        """

    @staticmethod
    def check_channels(parameters: Mapping[str, Any], channels: int) -> None:
        """Called when a pipeline is composed, with all parameters and the number of channels of the views.

        They are those of the transform's `mean`. Raises ValueError for another number than the network
        takes.
        """

    @staticmethod
    def check_image_size(parameters: Mapping[str, Any], size: int) -> None:
        """Called when a pipeline is composed, with all parameters and the transform's `size` in pixels.

        Raises ValueError for images that the network would not take, and says what to change.
        """

    @staticmethod
    def check_tokens(parameters: Mapping[str, Any], length: int, vocabulary: int) -> None:
        """Called when a pipeline is composed, with all parameters of a network on token ids.

        The transform's `length` is the tokens of a view; ids are below its `vocabulary`. Raises
        ValueError for token ids that the network would not take.
        """

    @staticmethod
    def image_statistics(
        parameters: Mapping[str, Any],
    ) -> tuple[Sequence[float], Sequence[float]] | None:
        """Called when a pipeline is composed, with all parameters.

        Returns the mean and the standard deviation of each channel of the images that its weights were
        trained on, for pixels in [0, 1]: two sequences of numbers; None without such weights. They are the
        default of the built-in transforms.
        """
        return None
