"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from torch import Tensor, nn

from ccl_plugins.arguments import WIDEST, matrix, whole, wholes


class MLP(nn.Module):
    """A multi-layer perceptron, for vectors.

    Shape:
        (n, in_features) -> (n, num_features)

    Args:
        in_features: Length of a vector, 1 to 2^20.  Other tensors are flattened: an image has channels *
            height * width.
        hidden: Widths of the layers, 1 to 2^20, each with a ReLU; the last is the features' width.
            None (``[]``): the vectors are the features, such as those of a frozen network.
        batch_norm: Whether each layer has batch normalization before its ReLU.

    Attributes:
        num_features: The last of ``hidden``, or ``in_features``.

    Raises:
        ValueError: If a width is out of range; on use, if vectors have another length.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"in_features": 8, "hidden": [16, 16]}
    EXAMPLE_SHAPE: ClassVar[tuple[int, ...]] = (8,)

    def __init__(
        self, in_features: int, hidden: Sequence[int] = (256, 256), batch_norm: bool = True
    ) -> None:
        super().__init__()
        self.in_features = whole("in_features", in_features, 1, WIDEST)
        widths = [in_features, *wholes("hidden", hidden, 1, WIDEST)]
        names = ["in_features", *(f"hidden[{i}]" for i in range(len(hidden)))]
        self.num_features = widths[-1]
        layers: list[nn.Module] = []
        for layer in pairwise(zip(names, widths, strict=True)):
            matrix(*layer)
        for inputs, outputs in pairwise(widths):
            layers.append(nn.Linear(inputs, outputs, bias=not batch_norm))
            layers += [nn.BatchNorm1d(outputs)] if batch_norm else []
            layers.append(nn.ReLU(inplace=True))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, num_features) of vectors (n, in_features)."""
        flat = x.flatten(1)
        if flat.shape[1] != self.in_features:
            raise ValueError(
                f"MLP(in_features={self.in_features}) got {tuple(x.shape)}: give it"
                f" in_features={flat.shape[1]}"
            )
        features: Tensor = self.layers(flat)
        return features
