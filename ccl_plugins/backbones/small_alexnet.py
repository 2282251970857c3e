"""The small AlexNet of contrastive learning on small images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torchvision.ops import Conv2dNormActivation

from ccl_plugins.arguments import WIDEST, whole


class SmallAlexNet(nn.Module):
    """A small AlexNet, with 3x3 convolutions and batch normalization, for images of 32 or 64 pixels.

    Five convolutions (96, 192, 384, 384 and 192 channels), pooled after the first two and the last,
    then the linear layers ``fc6`` and ``fc7``, all normalized and rectified.  The features are the output
    of ``fc7``; the last layer, ``fc8``, is the linear head of a method: ``simclr(layers=1)``.

    Shape:
        (n, in_channels, size, size) -> (n, 4096)

    Args:
        size: Height and width of the images in pixels, 15 to 256; 32 for CIFAR, 64 for STL-10.
        in_channels: Channels of the images, 1 to 2^20.

    Raises:
        ValueError: If a parameter is out of range; on use, if images have another shape.

    Source:
        Wang and Isola, Understanding Contrastive Representation Learning through Alignment and
        Uniformity on the Hypersphere (2020), after Tian et al., Contrastive Multiview Coding (2019);
        Zheng et al., Contrastive Attraction and Contrastive Repulsion for Representation Learning
        (2021), appendix C.1.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"size": 16}
    EXAMPLE_SHAPE: ClassVar[tuple[int, ...]] = (3, 16, 16)

    num_features = 4096

    def __init__(self, size: int = 32, in_channels: int = 3) -> None:
        super().__init__()
        self.size = whole("size", size, 15, 256)  # at 256, fc6 has 3 GiB
        self.in_channels = whole("in_channels", in_channels, 1, WIDEST)
        side = size
        for _pool in range(3):
            side = (side - 3) // 2 + 1
        self.convolutions = nn.Sequential(
            Conv2dNormActivation(in_channels, 96, 3),
            nn.MaxPool2d(3, 2),
            Conv2dNormActivation(96, 192, 3),
            nn.MaxPool2d(3, 2),
            Conv2dNormActivation(192, 384, 3),
            Conv2dNormActivation(384, 384, 3),
            Conv2dNormActivation(384, 192, 3),
            nn.MaxPool2d(3, 2),
            nn.Flatten(),
        )
        self.fc6 = nn.Sequential(*_linear(192 * side**2, 4096))
        self.fc7 = nn.Sequential(*_linear(4096, self.num_features))
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.normal_(module.weight, std=0.02)  # as in the released code

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, 4096) of images (n, in_channels, size, size)."""
        shape = (self.in_channels, self.size, self.size)
        if x.shape[1:] != shape:
            raise ValueError(
                f"SmallAlexNet(size={self.size}, in_channels={self.in_channels}) takes images of shape"
                f" (n, {', '.join(map(str, shape))}), not {tuple(x.shape)}"
            )
        features: Tensor = self.fc7(self.fc6(self.convolutions(x)))
        return features


def _linear(inputs: int, outputs: int) -> list[nn.Module]:
    linear = nn.Linear(inputs, outputs, bias=False)
    return [linear, nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)]
