"""MoCo v2: queries against momentum keys and a queue of earlier keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from lightly.utils import dist
from torch import Tensor, nn

from ccl_plugins.arguments import DEEPEST, matrix, one_of, whole
from ccl_plugins.methods.feature_queue import FeatureQueue, WithQueue
from ccl_plugins.methods.heads import NamedHead, chosen_head
from ccl_plugins.methods.momentum import MomentumMethod
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import Embedded


class MoCoV2(WithQueue, MomentumMethod):
    """Momentum contrast with a queue of negatives, each with its sample's conditions (MoCo v2).

    The first view gives the query, the others keys; with ``symmetric`` every view gives both.  The keys
    of the last view enter the queue after the loss, so the queue has no key of the present batch.  While
    the queue is not full, the batch's other keys are candidates too.

    Shape:
        u views (n, channels, height, width) -> projections (1, n, dim), keys (u - 1, n, dim);
        with ``symmetric`` (u, n, dim) each

    Args:
        layers: Linear layers of a head.
        batch_norm: Whether heads have batch normalization.
        queue_size: Keys that the queue holds, at least as many as a batch has.
        symmetric: Whether every view is a query.
        shuffle: Whether images are exchanged between processes before keys are computed, so that
            batch statistics do not reveal which images belong together; without effect on one
            process.
        own_in_queue: ``"ignore"`` leaves out keys in the queue that are of the anchor's own image;
            ``"negative"`` uses them as negatives, as the paper does.
        head: Another head of lightly; see `SimCLR`.

    Raises:
        TypeError: For a size that is not a whole number.
        ValueError: For a value out of range; in training, for a batch larger than the queue.

    Defaults:
        hidden: Paper: 2048. Code: 2048.
        dim: Paper: 128. Code: 128.
        layers: Paper: 2. Code: 2.
        queue_size: Paper: 65536. Code: 65536.
        momentum: Paper: 0.999. Code: 0.999.

    Source:
        He et al., Momentum Contrast for Unsupervised Visual Representation Learning (2020); Chen et
        al., Improved Baselines with Momentum Contrastive Learning (2020).  Their queue starts with
        random keys, and keys of the anchor's own image are negatives.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"hidden": 16, "dim": 8, "queue_size": 32}
    queue: FeatureQueue

    def __init__(
        self,
        hidden: int = 2048,
        dim: int = 128,
        layers: int = 2,
        batch_norm: bool = False,
        queue_size: int = 65536,
        momentum: float = 0.999,
        symmetric: bool = False,
        shuffle: bool = True,
        own_in_queue: Literal["ignore", "negative"] = "ignore",
        head: NamedHead = None,
        *,
        backbone: nn.Module,
    ) -> None:
        whole("layers", layers, 2, DEEPEST)
        inputs: Any = backbone.num_features
        settings = {"layers": layers, "batch_norm": batch_norm}
        projector = chosen_head(type(self), head, inputs, hidden, dim, **settings)
        super().__init__(backbone, projector, momentum, symmetric)
        one_of("own_in_queue", own_in_queue, ("ignore", "negative"))
        self.own_in_queue: Literal["ignore", "negative"] = own_in_queue
        self.shuffle = shuffle
        matrix(("queue_size", whole("queue_size", queue_size, 1)), ("dim", dim))
        self.queue = FeatureQueue(queue_size, dim)

    def key(self, x: Tensor) -> Tensor:
        """Keys (n, d), from shuffled batches if there are several processes."""
        from lightly.models.utils import batch_shuffle, batch_unshuffle

        if not self.shuffle or dist.world_size() == 1:
            return super().key(x)
        images, order = batch_shuffle(x, distributed=True)
        return batch_unshuffle(super().key(images), order, distributed=True)

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """Queries of this process against the keys of all processes, and the queue.

        Raises:
            ValueError: For embeddings without keys.
        """
        return self.queue.add_to(super().pairs(embedded, samples), self.own_in_queue)
