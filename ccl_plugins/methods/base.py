"""What methods share: a network with a head, and views of equal size in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ccl_plugins.pairs.pairs import Pairs


class EncoderMethod(nn.Module):
    """A method with a backbone and a head, and without a queue and a momentum encoder.

    Args:
        backbone: Images to features; supplied by the pipeline.
        head: Features to projections.
    """

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def encode(self, x: Tensor) -> Tensor:
        """Features (n, f)."""
        return self.backbone(x)

    def query(self, features: Tensor) -> Tensor:
        """Embeddings (n, d) of features (n, f): projections, or predictions."""
        return self.head(features)

    def project(self, x: Tensor) -> Tensor:
        """Embeddings (n, d) of images."""
        return self.query(self.encode(x))

    def embed_together(self, views: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Features (u, n, f) and embeddings (u, n, d), with one pass for all views of a size."""
        features = torch.stack(in_one_pass(self.encode, views))
        queries = self.query(features.flatten(0, 1))
        return features, queries.unflatten(0, features.shape[:2])

    def enqueue(self, pairs: Pairs) -> None:
        """Do nothing: there is no queue."""

    def after_step(self, step: int, total: int) -> None:
        """Do nothing: there is no momentum encoder."""


def in_one_pass(network: Callable[[Tensor], Tensor], views: Sequence[Tensor]) -> list[Tensor]:
    """A network's output for each view, with one forward pass for all views of a size.

    Args:
        network: From (n, ...) to (n, f).
        views: Each (n, ...), of one size or of several.
    """
    shapes = [view.shape for view in views]
    made: dict[int, Tensor] = {}
    for shape in dict.fromkeys(shapes):
        of_size = [i for i, each in enumerate(shapes) if each == shape]
        together = network(torch.cat([views[i] for i in of_size]))
        made |= zip(of_size, together.chunk(len(of_size)), strict=True)
    return [made[i] for i in range(len(views))]
