"""The base of MoCo and BYOL: a momentum encoder, and pairs of queries with its keys."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import below_one
from ccl_plugins.methods.base import EncoderMethod
from ccl_plugins.pairs.pairs import Pairs, with_keys
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import Embedded


class MomentumEncoder(nn.Module):
    """A copy of a backbone and its head that follows the originals slowly and has no gradient.

    Args:
        backbone: Images to features.
        head: Features to projections.
    """

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        from lightly.models.utils import deactivate_requires_grad

        # Copied together, so that modules which the originals share are shared by the copies.
        self.backbone, self.head = copy.deepcopy([backbone, head])
        deactivate_requires_grad(self)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Keys (n, d) of images."""
        keys: Tensor = self.head(self.backbone(x))
        return keys

    def update(self, backbone: nn.Module, head: nn.Module, momentum: float) -> None:
        """Set each weight to ``momentum`` times itself plus ``1 - momentum`` times the original weight.

        Buffers, such as batch statistics, do not change.

        Raises:
            TypeError: For weights narrower than float32, which lose small changes.
        """
        from lightly.models.utils import update_momentum

        narrow = next((p for p in self.parameters() if p.dtype.itemsize < 4), None)
        if narrow is not None:
            raise TypeError(
                f"a momentum encoder of {narrow.dtype} does not move: keep weights in float32,"
                ' for example with precision="bf16-mixed"'
            )
        update_momentum(
            nn.ModuleList([backbone, head]), nn.ModuleList([self.backbone, self.head]), momentum
        )


class MomentumMethod(EncoderMethod):
    """A method that compares queries with the keys of a momentum encoder.

    Attributes:
        key_views: If ``symmetric``, the number of first views that give keys; None: all views.

    Args:
        momentum: Momentum of the key encoder in each optimizer step, from 0 to below 1.
        symmetric: Whether every view gives queries and keys; else the first gives queries, the others
            keys.

    Args of subclasses:
        hidden: Width of the heads' hidden layers.
        dim: Dimension of queries (or predictions) and keys.

    Raises:
        TypeError: For a size that is not a whole number.
        ValueError: For a value out of range.
    """

    key_views: int | None = None

    def __init__(
        self, backbone: nn.Module, head: nn.Module, momentum: float, symmetric: bool = True
    ) -> None:
        super().__init__(backbone, head)
        self.momentum = below_one("momentum", momentum)
        self.symmetric = symmetric
        self.key_encoder = MomentumEncoder(backbone, head)

    def key(self, x: Tensor) -> Tensor:
        """Keys (n, d) of the images; a subclass may exchange images between processes."""
        return self.project_key(x)

    def project_key(self, x: Tensor) -> Tensor:
        """Keys (n, d) of images, by this process alone."""
        return self.key_encoder(x)

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """One forward pass for each view, so that batch statistics are of one view."""
        for_queries, for_keys = views, views[: self.key_views]
        if not self.symmetric:
            for_queries, for_keys = views[:1], views[1:]
        features = [self.encode(view) for view in for_queries]
        queries = torch.stack([self.query(each) for each in features])
        # Last, so that the second forward pass of micro-batches ends before the keys.
        keys = torch.stack([self.key(view) for view in for_keys])
        return Embedded(torch.stack(features), queries, keys)

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """Queries of this process against the keys of all.

        Raises:
            ValueError: For embeddings without keys.
        """
        return with_keys(
            embedded.projections,
            embedded.keys,
            samples,
            first_key_view=0 if self.symmetric else 1,
            gather_distributed=True,
        )

    def after_step(self, step: int, total: int) -> None:
        """Move the momentum encoder."""
        self.key_encoder.update(self.backbone, self.head, self.momentum_after(step, total))

    def momentum_after(self, step: int, total: int) -> float:
        """The momentum after optimizer step ``step`` (from 0) of ``total``."""
        return self.momentum


class PredictingMethod(MomentumMethod):
    """A method whose queries are predictions of projections, and whose momentum rises as a cosine.

    The momentum would reach 1 after the last step.  The momentum encoder follows the backbone and the
    projector, not the predictor.

    Args:
        backbone: Images to features.
        projector: Features to projections.
        predictor: Projections to predictions of the same width.
        momentum: Momentum of the key encoder in the first step, from 0 to below 1.
    """

    def __init__(
        self, backbone: nn.Module, projector: nn.Module, predictor: nn.Module, momentum: float
    ) -> None:
        super().__init__(backbone, projector, momentum)
        self.predictor = predictor

    def query(self, features: Tensor) -> Tensor:
        """Predictions (n, d) of features (n, f)."""
        return self.predictor(self.head(features))

    def momentum_after(self, step: int, total: int) -> float:
        """Move the encoder with the momentum of the next step, which then computes its keys."""
        return rising(self.momentum, step + 1, total)


def rising(momentum: float, step: int, total: int) -> float:
    """A momentum that rises as a cosine from its first value at step 0, and would be 1 at ``total``."""
    return 1 - (1 - momentum) * (1 + math.cos(math.pi * step / total)) / 2
