"""LeNet-5, with batch normalization or as published."""

from __future__ import annotations

from torch import Tensor, nn
from torchvision.ops import Conv2dNormActivation

from ccl_plugins.arguments import WIDEST, whole


class LeNet5(nn.Module):
    """LeNet-5, a small network for images of 32x32 pixels, with batch normalization or as published.

    Two 5x5 convolutions (6 and 16 channels), normalized, rectified and pooled, and two rectified linear
    layers (120, 84). The linear layers are not normalized: with Fair-CCLK on color_digits this gave
    top-1 0.92 and color R² 0.60 (seed 0); normalized layers gave 0.68 and 0.88.

    Shape:
        (n, in_channels, 32, 32) -> (n, 84)

    Args:
        in_channels: Channels of the images, 1 to 2^20.
        classic: Whether convolutions and the first linear layer have tanh, pooling takes averages, nothing
            is normalized and the last layer is linear, as in CCL-K's released code.

    Raises:
        ValueError: If ``in_channels`` is out of range; on use, if images have another shape.

    Source:
        LeCun et al., Gradient-Based Learning Applied to Document Recognition (1998), figure 2,
        without its output layer; unless ``classic``, with maximum pooling and ReLU.
    """

    num_features = 84

    def __init__(self, in_channels: int = 3, classic: bool = False) -> None:
        super().__init__()
        self.in_channels = whole("in_channels", in_channels, 1, WIDEST)
        self.layers = self._classic() if classic else self._normalized()

    def _normalized(self) -> nn.Sequential:
        return nn.Sequential(
            Conv2dNormActivation(self.in_channels, 6, 5, padding=0),
            nn.MaxPool2d(2),  # (n, 6, 14, 14)
            Conv2dNormActivation(6, 16, 5, padding=0),
            nn.MaxPool2d(2),  # (n, 16, 5, 5)
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(inplace=True),
            nn.Linear(120, self.num_features),
            nn.ReLU(inplace=True),
        )

    def _classic(self) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(self.in_channels, 6, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.Tanh(),
            nn.Linear(120, self.num_features),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, 84) of images (n, in_channels, 32, 32)."""
        if x.shape[1:] != (self.in_channels, 32, 32):
            raise ValueError(
                f"LeNet5(in_channels={self.in_channels}) takes images of shape "
                f"(n, {self.in_channels}, 32, 32), not {tuple(x.shape)}"
            )
        features: Tensor = self.layers(x)
        return features
