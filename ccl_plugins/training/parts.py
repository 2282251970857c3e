"""The built parts of a pipeline, and a replacement for a method that cannot be built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ccl_plugins.protocols import Condition, Dataset, Sampler, Transform


@dataclass(frozen=True)
class Parts:
    """The built parts of a pipeline.

    Args:
        dataset: The data set; ``dataset("train")`` is trained on.
        transform: The augmentations.
        method: A `ccl_plugins.protocols.Method` and ``nn.Module``; holds the backbone and the heads.
        objective: A `ccl_plugins.protocols.Objective` and ``nn.Module``.
        sampler: Makes the sampler; called with the keyword arguments ``size``, ``batch_size``, ``seed``
            and, with ``sampler_on``, ``condition`` (values, one row per sample), with
            ``sampler_reads_split``, ``split``.
        conditions: The conditions by their names in ``pairs.samples.condition``; a single one is called
            ``"condition"``.
        sampler_on: The name of the condition that the sampler reads, or None.
        sampler_reads_split: Whether the sampler gets the split that is trained on.
    """

    dataset: Dataset
    transform: Transform
    method: Any
    objective: Any
    sampler: Callable[..., Sampler]
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    sampler_on: str | None = None
    sampler_reads_split: bool = False

    @property
    def networks(self) -> dict[str, Any]:
        """The modules that are learned, by their names in checkpoints."""
        return {"method": self.method, "objective": self.objective}


class BackboneAlone(nn.Module):
    """A backbone with the members of a method that need only the backbone.

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
