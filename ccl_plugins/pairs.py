"""Pairs: the one place where objectives and methods meet.

A method says which embeddings are compared; an objective says what each comparison counts for.
Pairs are kept as views x samples, so that nothing of size (views · samples)² is stored, no mask is
built that an objective does not ask for, and a weight that belongs to two samples is computed once
for all their views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ccl_plugins.numerics import gather


@dataclass(frozen=True, eq=False)
class Pairs:
    """Anchors, the keys they are compared with, and what is known of each sample.

    Anchor sample ``i`` is key sample ``offset + i``: its *own* keys are those at that position, never
    those of an equal dataset index.  Embeddings are unit-norm unless the objective asks for raw ones,
    and at least float32.

    Args:
        anchors: (u, n, d), u views of n samples.
        keys: (v, m, d), v views of m samples; ``keys is anchors`` in a batch on one process.
        anchor_views: The number of each anchor view.
        key_views: The number of each key view; two entries of equal number are the same image.
        offset: Position of the first anchor among the keys.
        processes: How many processes share these keys; their anchors together are all samples.
        condition: By name (m,), (m, c) or, where it differs per view, (u, m, c).
        index: (m,) dataset index of each sample.
        queue: (q, d) earlier keys, without gradient.
        queue_valid: (q,) False where the queue is not filled yet.
        queue_condition: By name (q,) or (q, c).
        queue_index: (q,) dataset indices; None keeps entries of the anchor's own image as negatives.
        batch_candidates: 0-d bool, whether the batch's other keys count beside the queue; None: yes.
        features: (u, n, f) backbone features, for objectives that ask.
        draws: (n, k) explicit negatives as key positions, repeats allowed.
        extras: Further tensors by name (the centroids of clusters, say).
    """

    anchors: Tensor
    keys: Tensor
    anchor_views: tuple[int, ...]
    key_views: tuple[int, ...]
    offset: int = 0
    processes: int = 1
    condition: Mapping[str, Tensor] = field(default_factory=dict)
    index: Tensor | None = None
    queue: Tensor | None = None
    queue_valid: Tensor | None = None
    queue_condition: Mapping[str, Tensor] = field(default_factory=dict)
    queue_index: Tensor | None = None
    batch_candidates: Tensor | None = None
    features: Tensor | None = None
    draws: Tensor | None = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    _products: dict[tuple[int, int], Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def rows(self) -> slice:
        """Where the anchors stand among the key samples."""
        return slice(self.offset, self.offset + self.anchors.shape[1])

    def cross(self, symmetric: bool = True) -> Iterator[tuple[int, int]]:
        """Anchor and key positions of different views; without ``symmetric`` the earlier as anchor."""
        for i, a in enumerate(self.anchor_views):
            for j, k in enumerate(self.key_views):
                if a < k or (symmetric and a > k):
                    yield i, j

    def within(self, i: int) -> int | None:
        """The key position of anchor view ``i``'s own images, or None where they are no keys."""
        number = self.anchor_views[i]
        return self.key_views.index(number) if number in self.key_views else None

    def sim(self, i: int, j: int) -> Tensor:
        """(n, m) inner products of anchor view ``i`` and key view ``j``, computed once per pair."""
        if self.keys is self.anchors and i > j:
            return self.sim(j, i).T
        if (i, j) not in self._products:
            self._products[i, j] = self.anchors[i] @ self.keys[j].T
        return self._products[i, j]

    def own_sim(self, i: int, j: int) -> Tensor:
        """(n,) inner products of anchor view ``i`` with each sample's own key of view ``j``."""
        return self.sim(i, j).diagonal(self.offset)

    def sim_queue(self, i: int) -> Tensor:
        """(n, q) inner products of anchor view ``i`` and the queue."""
        if self.queue is None:
            raise ValueError("these pairs have no queue")
        if (i, -1) not in self._products:
            self._products[i, -1] = self.anchors[i] @ self.queue.T
        return self._products[i, -1]

    def own(self) -> Tensor:
        """(n, m) True at each anchor sample's own position."""
        n, m = self.anchors.shape[1], self.keys.shape[1]
        mine = torch.arange(n, device=self.anchors.device) + self.offset
        return mine[:, None] == torch.arange(m, device=self.anchors.device)

    def candidates(self) -> Tensor | None:
        """(n, m) True at the batch's keys that count, own ones included; None where all do."""
        return None if self.batch_candidates is None else self.others() | self.own()

    def others(self) -> Tensor:
        """(n, m) True at the other samples of the batch that count."""
        others = ~self.own()
        return others if self.batch_candidates is None else others & self.batch_candidates

    def in_queue(self) -> Tensor:
        """(n, q) or (1, q) True at the queue's entries that count: filled, and not one's own image."""
        if self.queue is None or self.queue_valid is None:
            raise ValueError("these pairs have no queue")
        if self.queue_index is None or self.index is None:
            return self.queue_valid[None, :]
        return self.queue_valid & (self.index[self.rows, None] != self.queue_index)

    def negatives(self, i: int, j: int, within_view: bool) -> list[tuple[Tensor, Tensor]]:
        """The other samples that anchor view ``i`` is compared with beside its positive of view ``j``.

        Blocks of inner products (n, ·) and of which of them count: the other samples' keys of view
        ``j``; those of the anchor's own view where ``within_view``; the queue where there is one.
        """
        blocks = [(self.sim(i, j), self.others())]
        if within_view and (k := self.within(i)) is not None:
            blocks.append((self.sim(i, k), self.others()))
        if self.queue is not None:
            blocks.append((self.sim_queue(i), self.in_queue()))
        return blocks

    def condition_of(self, name: str, i: int = 0) -> Tensor:
        """(m,) or (m, c) values of a condition as anchor view ``i`` has them."""
        values = self.condition[name]
        return values[i] if values.ndim == 3 else values


def in_batch(
    projections: Tensor,
    condition: Mapping[str, Tensor] | None = None,
    index: Tensor | None = None,
    features: Tensor | None = None,
    extras: Mapping[str, Tensor] | None = None,
    gather_distributed: bool = False,
) -> Pairs:
    """Every view of a batch compared with every other: SimCLR's pairs.

    Args:
        projections: (u, n, d), u views of n samples.
        condition: By name (n,), (n, c) or (u, n, c).
        index: (n,) dataset indices.
        features: (u, n, f).
        extras: Tensors that belong to no sample.
        gather_distributed: Compare with the samples of all processes; every one has n of them.
    """
    from lightly.utils import dist

    views = tuple(range(projections.shape[0]))
    condition = dict(condition or {})
    processes = dist.world_size() if gather_distributed else 1
    if processes == 1:
        keys, offset = projections, 0
    else:
        keys, offset = gather(projections, 1), dist.rank() * projections.shape[1]
        condition = {k: gather(z, 1 if z.ndim == 3 else 0) for k, z in condition.items()}
        index = None if index is None else gather(index)
    return Pairs(
        anchors=projections,
        keys=keys,
        anchor_views=views,
        key_views=views,
        offset=offset,
        processes=processes,
        condition=condition,
        index=index,
        features=features,
        extras=extras or {},
    )
