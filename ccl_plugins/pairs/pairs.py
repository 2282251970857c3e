"""Pairs: the one place where objectives and methods meet.

A method says which embeddings are compared; an objective says what each comparison counts for.
Pairs are kept as views x samples, so that nothing of size (views · samples)² is stored, no mask is
built that an objective does not ask for, and a weight that belongs to two samples is computed once
for all their views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ccl_plugins.numerics.logsumexp import at_least_float32, gather
from ccl_plugins.pairs.samples import Samples


@dataclass(frozen=True, eq=False)
class Pairs(Samples):
    """Anchors, the keys they are compared with, and what is known of each sample.

    Anchor sample ``i`` is key sample ``offset + i``: its *own* keys are those at that position, never
    those of an equal dataset index.  Embeddings are unit-norm unless the objective asks for raw ones,
    and at least float32.

    Args:
        anchors: (u, n, d), u views of n samples.
        keys: (v, m, d), v views of m samples; ``keys is anchors`` in a batch on one process.
        anchor_views: The number of each anchor view.
        key_views: The number of each key view; two entries of equal number are the same image.
        queue: (q, d) earlier keys, without gradient.
        features: (u, n, f) backbone features, for objectives that ask.
        shared: Whether the keys are the anchors of all processes, with gradient.
        extras: Further tensors by name (the centroids of clusters, say).
        offset, processes, condition, ...: What is known of each sample: `Samples` has them.
    """

    anchors: Tensor
    keys: Tensor
    anchor_views: tuple[int, ...]
    key_views: tuple[int, ...]
    queue: Tensor | None = None
    features: Tensor | None = None
    shared: bool = False
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
        # Not the diagonal of ``sim``, whose gradient would be a matrix of zeros beside it.
        return (self.anchors[i] * self.keys[j, self.rows]).sum(1)

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

    def negatives(
        self, i: int, j: int, within_view: bool, where: Tensor | None = None
    ) -> list[tuple[Tensor, Tensor]]:
        """The other samples that anchor view ``i`` is compared with beside its positive of view ``j``.

        Blocks of inner products (n, ·) and of which of them count: the other samples' keys of view
        ``j``; those of the anchor's own view where ``within_view``; the queue where there is one; or,
        where there are ``draws``, these and nothing else.

        Args:
            i: Anchor view.
            j: Key view of the positive.
            within_view: Whether keys of the anchor's own view are negatives.
            where: (n, m + q), to count those samples alone.
        """
        only = self.negative if where is None else where
        if where is not None and self.negative is not None:
            only = where & self.negative
        own_view = self.within(i) if within_view else None
        if self.draws is not None:
            return self._drawn(self.draws, [(i, j), (i, own_view)], only)
        others = self.others(only)
        blocks = [(self.sim(i, j), others)]
        if own_view is not None:
            blocks.append((self.sim(i, own_view), others))
        if self.queue is not None:
            blocks.append((self.sim_queue(i), self.in_queue(only)))
        return blocks

    def contrast(
        self, i: int, j: int, within_view: bool, where: Tensor | None = None
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Own keys of view ``j`` and negatives, in blocks as in `negatives`; None where all count."""
        (sims, keep), *more = self.negatives(i, j, within_view, where)
        if self.draws is not None:
            return [(self.own_sim(i, j)[:, None], None), (sims, keep), *more]
        masks = (self.batch_candidates, self.positive, self.negative, where)
        return [(sims, None if all(m is None for m in masks) else keep | self.own()), *more]

    def _drawn(
        self, draws: Tensor, views: list[tuple[int, int | None]], only: Tensor | None
    ) -> list[tuple[Tensor, Tensor]]:
        blocks = []
        for i, j in views:
            if j is None:
                continue
            keep = torch.ones_like(draws, dtype=torch.bool)
            if self.anchor_views[i] == self.key_views[j]:  # a draw of itself is no comparison
                keep = ~self.own().gather(1, draws)
            if only is not None:
                keep = keep & only.gather(1, draws)
            blocks.append((self.sim(i, j).gather(1, draws), keep))
        return blocks

    def replicated(self) -> Pairs:
        """These pairs with the anchors of all processes, with gradient, on every process."""
        if self.processes == 1:
            return self
        return replace(
            self,
            anchors=self.keys if self.shared else gather(self.anchors, 1),
            features=_gathered(self.features, 1),
            draws=_gathered(self.draws),
            positive=_gathered(self.positive),
            negative=_gathered(self.negative),
            offset=0,
            processes=1,
        )

    @staticmethod
    def from_masks(
        projections: Tensor,
        positives: Tensor,
        negatives: Tensor | None = None,
        condition: Mapping[str, Tensor] | None = None,
        gather_distributed: bool = False,
    ) -> Pairs:
        """Pairs of a batch whose positives and negatives among the other samples a user brings.

        A sample's own other views are positives whatever the masks say.  Other samples that are
        neither are left out.  Objectives with a single positive read the negatives alone.

        Args:
            projections: (u, n, d), u views of n samples, unit-norm unless the objective asks for raw.
            positives: (n, m) bool; m is n times the processes whose samples are compared.
            negatives: (n, m) bool; None: all that are no positives.
            condition: As `in_batch` takes it, for objectives that weigh these samples by it.
            gather_distributed: As `in_batch` takes it.

        Raises:
            ValueError: For masks of another type or shape, or a sample that is both.
        """
        pairs = in_batch(projections, condition, gather_distributed=gather_distributed)
        shape = pairs.own().shape
        for name, mask in (("positives", positives), ("negatives", negatives)):
            if mask is not None and (mask.dtype != torch.bool or mask.shape != shape):
                raise ValueError(
                    f"{name} must be bool of shape (n, m) = {tuple(shape)},"
                    f" not {mask.dtype} of shape {tuple(mask.shape)}"
                )
        negatives = ~positives if negatives is None else negatives
        if not torch.compiler.is_compiling():
            both = (positives & negatives & ~pairs.own()).nonzero()
            if len(both):
                i, j = both[0].tolist()
                raise ValueError(f"sample {j} is both a positive and a negative of sample {i}")
        return replace(pairs, positive=positives, negative=negatives)


def _gathered(x: Tensor | None, dim: int = 0) -> Tensor | None:
    return None if x is None else gather(x, dim)


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
        projections: (u, n, d), u views of n samples, unit-norm unless the objective asks for raw.
        condition: By name (n,), (n, c) or (u, n, c).
        index: (n,) dataset indices.
        features: (u, n, f).
        extras: Tensors that belong to no sample.
        gather_distributed: Compare with the samples of all processes; every one has n of them.
    """
    from lightly.utils import dist

    projections = at_least_float32(projections)
    views = tuple(range(projections.shape[0]))
    condition = {k: at_least_float32(z) for k, z in (condition or {}).items()}
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
        shared=True,
        extras=extras or {},
    )
