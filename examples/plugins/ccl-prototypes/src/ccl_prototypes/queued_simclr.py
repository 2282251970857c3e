"""SimCLR with a queue of its own earlier projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from ccl_plugins.arguments import one_of, whole
from ccl_plugins.methods import FeatureQueue, SimCLR, WithQueue
from ccl_plugins.pairs import Pairs, Samples
from ccl_plugins.protocols import Embedded
from torch import nn


class QueuedSimCLR(WithQueue, SimCLR):
    """SimCLR with a queue of its own earlier projections, and no momentum encoder.

    Every view is compared with every other in the batch, as in SimCLR, and with the queue, in which the
    last view's projections enter after the loss.  For SwAV with small batches, whose codes then see the
    queue too.  The projections are a few steps old, so contrast with many of them is less exact than
    with the keys of ``moco_v2``.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim)

    Args:
        queue_size: Projections that the queue holds, at least as many as a batch has.
        own_in_queue: ``"ignore"`` leaves out projections in the queue that are of the anchor's own image;
            ``"negative"`` uses them.

    Raises:
        TypeError: For a size that is not a whole number.
        ValueError: For a value out of range; in training, for a batch larger than the queue.

    Source:
        Caron et al., Unsupervised Learning of Visual Features by Contrasting Cluster Assignments (2020),
        section 4.3: 3840 projections with batches of 256.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"hidden": 16, "dim": 8, "queue_size": 32}
    queue: FeatureQueue

    def __init__(
        self,
        hidden: int = 2048,
        dim: int = 128,
        layers: int = 2,
        batch_norm: bool = True,
        last_norm: Literal["affine", "plain", "none"] = "affine",
        queue_size: int = 3840,
        own_in_queue: Literal["ignore", "negative"] = "ignore",
        *,
        backbone: nn.Module,
    ) -> None:
        super().__init__(hidden, dim, layers, batch_norm, last_norm, backbone=backbone)
        one_of("own_in_queue", own_in_queue, ("ignore", "negative"))
        self.own_in_queue: Literal["ignore", "negative"] = own_in_queue
        self.queue = FeatureQueue(whole("queue_size", queue_size, 1), dim)

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """Every view against every other, over the batches of all processes, and the queue."""
        pairs = self.queue.add_to(super().pairs(embedded, samples), self.own_in_queue)
        return replace(pairs, batch_candidates=None)  # the batch counts beside a full queue too
