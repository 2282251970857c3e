"""What stands for a method that cannot be rebuilt: its backbone."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


class BackboneAlone(nn.Module):
    """A backbone with the members of a method that need nothing else.

    Args:
        backbone: The network from images to features.
        reason: Why the method cannot be rebuilt.
    """

    def __init__(self, backbone: nn.Module, reason: str) -> None:
        super().__init__()
        self.backbone = backbone
        self.reason = reason

    def encode(self, x: Tensor) -> Tensor:
        """Backbone features (n, f) of images."""
        features: Tensor = self.backbone(x)
        return features

    def load_backbone(self, state: Mapping[str, Tensor]) -> None:
        """Take the backbone's weights from the state of a method."""
        own = {k: tensor for k, tensor in state.items() if k.startswith("backbone.")}
        self.load_state_dict(own)
