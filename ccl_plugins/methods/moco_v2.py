"""MoCo v2: queries against momentum keys and a queue of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import below_one, one_of, whole
from ccl_plugins.methods.feature_queue import FeatureQueue
from ccl_plugins.methods.momentum import MomentumEncoder, against_keys
from ccl_plugins.numerics.gram import Statistic
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Embedded


class MoCoV2(nn.Module):
    """MoCo v2 with a queue that knows its samples and their conditions.

    The first view gives the query, the others keys; with ``symmetric`` every view gives both.  The keys
    of the last view enter the queue, after the loss, so that no key of an anchor's own image is there
    before it is compared.  While the queue is not full, the batch's other keys are candidates too.

    Shape:
        u views (n, channels, height, width) -> projections (1, n, dim), keys (u - 1, n, dim);
        with ``symmetric`` (u, n, dim) each

    Args:
        hidden: Width of the heads' hidden layers.
        dim: Dimension of queries and keys.
        layers: Linear layers of a head.
        batch_norm: Whether heads have batch normalization.
        queue_size: Keys that the queue holds; no batch may have more.
        momentum: Of the key encoder per optimizer step, from 0 to below 1.
        symmetric: Whether every view is a query.
        shuffle: Whether images are exchanged between processes before keys are computed, so that batch
            statistics tell nothing of who belongs together; of no effect on one process.
        own_in_queue: ``"ignore"`` leaves out keys in the queue that are of the anchor's own image;
            ``"negative"`` repels them, as the original does.
        backbone: Images to features; supplied by the pipeline.

    Raises:
        TypeError: For a size that is no whole number.
        ValueError: For a value out of range; in training, for a batch larger than the queue.

    Source:
        He et al., Momentum Contrast for Unsupervised Visual Representation Learning (2020); Chen et
        al., Improved Baselines with Momentum Contrastive Learning (2020).  There own keys in the queue
        are negatives, and the queue holds noise at first.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"hidden": 16, "dim": 8, "queue_size": 32}

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
        *,
        backbone: nn.Module,
    ) -> None:
        super().__init__()
        from lightly.models.modules import MoCoProjectionHead

        for name, value, least in (("hidden", hidden, 1), ("dim", dim, 1), ("layers", layers, 2)):
            whole(name, value, least)
        self.own_in_queue = one_of("own_in_queue", own_in_queue, ("ignore", "negative"))
        self.momentum = below_one("momentum", momentum)
        self.symmetric = symmetric
        self.shuffle = shuffle
        self.backbone = backbone
        self.head = MoCoProjectionHead(backbone.num_features, hidden, dim, layers, batch_norm)
        self.key_encoder = MomentumEncoder(self.backbone, self.head)
        self.queue = FeatureQueue(queue_size, dim)

    def encode(self, x: Tensor) -> Tensor:
        """Features (n, f)."""
        return self.backbone(x)

    def project(self, x: Tensor) -> Tensor:
        """Projections (n, d)."""
        return self.head(self.encode(x))

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """One forward pass for each view, as batch statistics are of one view here."""
        features = [self.encode(view) for view in (views if self.symmetric else views[:1])]
        projections = torch.stack([self.head(each) for each in features])
        # Last: a second pass for the gradient's sake, as of micro-batches, ends before them.
        keys = [self._key(view) for view in (views if self.symmetric else views[1:])]
        return Embedded(torch.stack(features), projections, torch.stack(keys))

    def _key(self, images: Tensor) -> Tensor:
        from lightly.models.utils import batch_shuffle, batch_unshuffle
        from lightly.utils import dist

        if not self.shuffle or dist.world_size() == 1:
            keys: Tensor = self.key_encoder(images)
            return keys
        images, order = batch_shuffle(images, distributed=True)
        return batch_unshuffle(self.key_encoder(images), order, distributed=True)

    def pairs(
        self, embedded: Embedded, condition: Mapping[str, Tensor], index: Tensor | None
    ) -> Pairs:
        """Queries against the keys of all processes and the queue."""
        return against_keys(
            embedded,
            condition,
            index,
            first_key_view=0 if self.symmetric else 1,
            queue=self.queue.keys,
            queue_valid=self.queue.valid,
            queue_index=self.queue.index if self.own_in_queue == "ignore" else None,
            queue_condition={
                name: self.queue.condition(name, _of_last_view(rows))
                for name, rows in condition.items()
            },
            batch_candidates=~self.queue.full,
            extras=self.queue.grams(),
        )

    def enqueue(self, pairs: Pairs) -> None:
        """Put the last view's keys of all processes into the queue."""
        rows = {name: _of_last_view(z) for name, z in pairs.condition.items()}
        shown = pairs.index if pairs.partner is None else pairs.partner
        self.queue.write(pairs.keys[-1], shown, {**rows, **pairs.partner_condition})

    def check_batch(self, size: int) -> None:
        """Whether the keys of a global batch fit into the queue.

        Raises:
            ValueError: If they do not.
        """
        if size > len(self.queue):
            raise ValueError(
                f"a batch of {size} does not fit into moco_v2's queue of {len(self.queue)}: give it"
                f" queue_size={size} or more, or a smaller batch_size"
            )

    def read_conditions(self, look_up: Callable[[Tensor], Mapping[str, Tensor]]) -> None:
        """Read the queue's conditions again, by index, from tables that may have changed."""
        self.queue.read_conditions(look_up)

    def keep_statistics(self, statistics: Mapping[str, Statistic]) -> None:
        """Keep Gram matrices of the queue's conditions for an objective that asks for them."""
        self.queue.keep_statistics(statistics)

    def after_step(self, step: int, total: int) -> None:
        """Move the key encoder."""
        self.key_encoder.update(self.backbone, self.head, self.momentum)


def _of_last_view(rows: Tensor) -> Tensor:
    return rows[-1] if rows.ndim == 3 else rows
