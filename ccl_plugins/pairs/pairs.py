"""The class of pairs: embeddings to compare, with the conditions and the index of each sample.

A method builds pairs; an objective turns each comparison into a term of its loss.  Pairs are kept as
views x samples: nothing of size (views · samples)² is stored, masks are built only when an objective
asks for them, and a weight that belongs to two samples is computed once for all their views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.numerics.condition_values import (
    fill_missing,
    missing_samples,
    replace_invalid,
)
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.precision import at_least_float32


@dataclass(frozen=True, eq=False)
class Pairs:
    """Anchors, the keys they are compared with, and the conditions and the index of each sample.

    Anchor sample ``i`` is key sample ``offset + i``: its *own* keys are those at that position, never
    those of an equal dataset index.  Embeddings are unit-norm unless the objective asks for raw ones,
    and at least float32.  Masks over "batch and queue" are (n, m + q): the batch's m samples first.

    Args:
        anchors: (u, n, d), u views of n samples.
        keys: (v, m, d), v views of m samples; ``keys is anchors`` in a batch on one process.
        anchor_views: The number of each anchor view.
        key_views: The number of each key view; two entries of equal number are the same image.
        queue: (q, d) earlier keys, without gradient; (u, q, d) where they differ by anchor view.
        features: (u, n, f) backbone features, for objectives that read them; of several modalities those
            of the image views alone.
        shared: Whether the keys are the anchors of all processes, with gradient.
        extras: Further tensors by name (the centroids of clusters, say).
        offset: The position of the first anchor among the keys.
        processes: The number of processes that share these keys; their anchors together are all samples.
        condition: By name (m,), (m, c) or, where it differs per view, (u, m, c).
        index: (m,) dataset index of each sample.
        partner: (m,) dataset index of the image in the views after the first, if it is another image.
        partner_condition: By name (m,) or (m, c), that image's values of the conditions with a table.
        queue_valid: (q,) False at places of the queue that are not filled yet.
        queue_condition: By name (q,) or (q, c).
        queue_index: (q,) dataset indices; None keeps entries of the anchor's own image as negatives.
        batch_candidates: 0-d bool, whether the batch's other keys count beside the queue; None: they do.
        draws: (n, k) explicit negatives as key positions, repeats allowed; they replace all other
            negatives, including the queue's.
        positive: (n, m + q) bool, the other samples that are positives, given by a user; None: the
            objective decides.
        negative: (n, m + q) bool, the other samples that may be negatives; None: all.  With
            ``positive``, samples that are neither are left out.
        ignored: Names of conditions whose missing values (NaN, -1 among class ids) leave a sample out of
            the objectives that read them.
        missing: (m,) True at samples that are left out: they are neither anchors nor keys; None: none.
    """

    anchors: Tensor
    keys: Tensor
    anchor_views: tuple[int, ...]
    key_views: tuple[int, ...]
    queue: Tensor | None = None
    features: Tensor | None = None
    shared: bool = False
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    _: KW_ONLY
    offset: int = 0
    processes: int = 1
    condition: Mapping[str, Tensor] = field(default_factory=dict)
    index: Tensor | None = None
    partner: Tensor | None = None
    partner_condition: Mapping[str, Tensor] = field(default_factory=dict)
    queue_valid: Tensor | None = None
    queue_condition: Mapping[str, Tensor] = field(default_factory=dict)
    queue_index: Tensor | None = None
    batch_candidates: Tensor | None = None
    draws: Tensor | None = None
    positive: Tensor | None = None
    negative: Tensor | None = None
    ignored: tuple[str, ...] = ()
    missing: Tensor | None = None
    _products: dict[tuple[int, int], Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def rows(self) -> slice:
        """The positions of the anchors among the key samples."""
        return slice(self.offset, self.offset + self.anchors.shape[1])

    @property
    def samples(self) -> int | Tensor:
        """The number of key samples; a 0-d tensor if some are missing."""
        return self.keys.shape[1] if self.missing is None else (~self.missing).sum()

    def normalized(self) -> Pairs:
        """These pairs with anchors, keys and queue on the unit sphere."""
        anchors = functional.normalize(self.anchors, dim=-1)
        shared = self.keys is self.anchors
        keys = anchors if shared else functional.normalize(self.keys, dim=-1)
        queue = None if self.queue is None else functional.normalize(self.queue, dim=-1)
        return replace(self, anchors=anchors, keys=keys, queue=queue)

    def known(self, names: Iterable[str]) -> Pairs:
        """These pairs without the samples that lack a value of one of these conditions.

        Only values of conditions in ``ignored`` may be missing.  Shapes stay as they are: the samples
        are masked, in the batch by ``missing`` and in the queue by ``queue_valid``, and their values of
        these conditions are replaced by those of other samples.
        """
        on = [name for name in names if name in self.ignored and name in self.condition]
        if not on:
            return self
        found = [missing_samples(self.condition[name]) for name in on]
        missing = torch.stack(found if self.missing is None else [*found, self.missing]).any(0)
        valid = self.queue_valid
        if valid is not None:
            queued = [missing_samples(self.queue_condition[name]) for name in on]
            valid = valid & ~torch.stack(queued).any(0)
        filled = {name: fill_missing(self.condition[name], missing) for name in on}
        condition = {**self.condition, **filled}
        return replace(self, condition=condition, missing=missing, queue_valid=valid)

    def cross(self, symmetric: bool = True) -> Iterator[tuple[int, int]]:
        """Positions of anchor and key of different views; not ``symmetric``: only earlier view to later."""
        for i, a in enumerate(self.anchor_views):
            for j, k in enumerate(self.key_views):
                if a < k or (symmetric and a > k):
                    yield i, j

    def within(self, i: int) -> int | None:
        """The position among the keys of anchor view ``i`` itself; None if that view has no keys."""
        number = self.anchor_views[i]
        return self.key_views.index(number) if number in self.key_views else None

    def sim(self, i: int, j: int) -> Tensor:
        """(n, m) inner products of anchor view ``i`` and key view ``j``, computed once per two views."""
        if self.keys is self.anchors and i > j:
            return self.sim(j, i).T
        if (i, j) not in self._products:
            self._products[i, j] = self.anchors[i] @ self.keys[j].T
        return self._products[i, j]

    def own_sim(self, i: int, j: int) -> Tensor:
        """(n,) inner products of anchor view ``i`` with each sample's own key of view ``j``."""
        # The diagonal of ``sim`` would have a gradient of size (n, m) that is zero off the diagonal.
        return (self.anchors[i] * self.keys[j, self.rows]).sum(1)

    def sim_queue(self, i: int) -> Tensor:
        """(n, q) inner products of anchor view ``i`` and the queue."""
        if (i, -1) not in self._products:
            self._products[i, -1] = self.anchors[i] @ self.queue_of(i).T
        return self._products[i, -1]

    def queue_of(self, i: int) -> Tensor:
        """(q, d) earlier keys that anchor view ``i`` is compared with."""
        if self.queue is None:
            raise ValueError("these pairs have no queue")
        return self.queue if self.queue.ndim == 2 else self.queue[i]

    def queue_of_views(self, views: list[int]) -> Tensor:
        """(q, d) earlier keys that anchor views are compared with; (len(views), q, d) where they differ."""
        if self.queue is None:
            raise ValueError("these pairs have no queue")
        if self.queue.ndim == 2 or views == list(range(len(self.queue))):
            return self.queue
        return torch.stack([self.queue[i] for i in views])

    def own(self) -> Tensor:
        """(n, m) True at each anchor sample's own position."""
        n, m = self.anchors.shape[1], self.keys.shape[1]
        mine = torch.arange(n, device=self.anchors.device) + self.offset
        return mine[:, None] == torch.arange(m, device=self.anchors.device)

    def others(self, only: Tensor | None = None) -> Tensor:
        """(n, m) True at the batch's other samples that count, restricted to ``only`` (n, m + q)."""
        others = ~self.own()
        if self.missing is not None:
            others = others & ~self.missing & ~self.missing[self.rows, None]
        if self.batch_candidates is not None:
            others = others & self.batch_candidates
        for mask in (self._given(), only):
            others = others if mask is None else others & mask[:, : others.shape[1]]
        return others

    def in_queue(self, only: Tensor | None = None) -> Tensor:
        """(n, q) or (1, q) True at the queue's entries that count, restricted to ``only`` (n, m + q).

        Entries that are not filled, of the anchor's own image, or neither positive nor negative in the
        masks of a user do not count, and none does for an anchor that is missing.
        """
        if self.queue_valid is None:
            raise ValueError("these pairs have no queue")
        valid = self.queue_valid[None, :]
        if self.missing is not None:
            valid = valid & ~self.missing[self.rows, None]
        if self.queue_index is not None and self.index is not None:
            for index in (self.index, self.partner):
                if index is not None:
                    valid = valid & (index[self.rows, None] != self.queue_index)
        for mask in (self._given(), only):
            valid = valid if mask is None else valid & mask[:, -valid.shape[1] :]
        return valid

    def counted(self, only: Tensor | None = None) -> Tensor:
        """(n, m + q) True at the other samples that count, restricted to ``only`` (n, m + q)."""
        others = self.others(only)
        if self.queue_valid is None:
            return others
        return torch.cat([others, self.in_queue(only).expand(len(others), -1)], 1)

    def alike(self, on: str) -> Tensor:
        """(n, m + q) True at the other samples of the anchor's class, or at a user's positives.

        Args:
            on: The name of a categorical condition.

        Raises:
            ValueError: For a condition of several columns, as a hierarchy has.
        """
        if self.positive is not None:
            return self.counted(self.positive)
        if (ids := self.condition[on]).ndim != 1:
            raise ValueError(
                f"{on} must be one class id per sample, (b,), not {tuple(ids.shape)}: give one column"
                " of a hierarchy"
            )
        mine, everyone = self.condition[on][self.rows], self.everyone(on)
        return self.counted(mine[:, None] == everyone)

    def contrasted(self, positives: Tensor) -> Tensor:
        """(n, m + q) True at the other samples that are negatives or among ``positives``."""
        return self.counted(self.negative) | positives

    def everyone(self, on: str, i: int = 0) -> Tensor:
        """(m + q, ...) values of a condition: the batch's in view ``i``, then the queue's.

        Empty places of the queue have values of the batch.
        """
        values = self.condition_of(on, i)
        if self.queue_valid is None:
            return values
        every = torch.cat([self.queue_valid.new_ones(len(values)), self.queue_valid])
        return replace_invalid(torch.cat([values, self.queue_condition[on]]), every, len(values))

    def valid(self) -> Tensor | None:
        """(m + q,) True at the samples of batch and queue that are there; None: all are."""
        present = None if self.missing is None else ~self.missing
        if self.queue_valid is None:
            return present
        if present is None:
            present = self.queue_valid.new_ones(self.keys.shape[1])
        return torch.cat([present, self.queue_valid])

    def condition_of(self, name: str, i: int = 0) -> Tensor:
        """(m,) or (m, c) values of a condition in anchor view ``i``."""
        values = self.condition[name]
        return values[i] if values.ndim == 3 else values

    def excluding(self, mask: Tensor) -> Pairs:
        """These pairs without the negatives at which ``mask`` (n, m + q) is True."""
        return replace(self, negative=~mask if self.negative is None else self.negative & ~mask)

    def _given(self) -> Tensor | None:
        """(n, m + q) True at the positives and negatives that a user gave; None if none were given."""
        if self.positive is None or self.negative is None:
            return None
        return self.positive | self.negative

    def negatives(
        self, i: int, j: int, within_view: bool, where: Tensor | None = None
    ) -> list[tuple[Tensor, Tensor]]:
        """The negatives of anchor view ``i`` whose positive is of key view ``j``.

        Blocks of inner products (n, ·) and masks, True at those that count: the other samples' keys of
        view ``j``; if ``within_view``, those of the anchor's own view; the queue, if there is one.  If
        the pairs have ``draws``, only the drawn keys.

        Args:
            i: Anchor view.
            j: Key view of the positive.
            within_view: Whether keys of the anchor's own view are negatives.
            where: (n, m + q) True at the samples to restrict the negatives to; None: all.
        """
        only = self.negative if where is None else where
        if where is not None and self.negative is not None:
            only = where & self.negative
        own_view = self.within(i) if within_view else None
        if self.draws is not None:
            return self._drawn(self.draws, i, [j] if own_view is None else [j, own_view], only)
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
        """Own keys of view ``j`` and `negatives`, in blocks; mask None: all entries of a block count."""
        (sims, keep), *more = self.negatives(i, j, within_view, where)
        if self.draws is not None:
            return [(self.own_sim(i, j)[:, None], None), (sims, keep), *more]
        masks = (self.missing, self.batch_candidates, self.positive, self.negative, where)
        return [(sims, None if all(m is None for m in masks) else keep | self.own()), *more]

    def _drawn(
        self, draws: Tensor, i: int, views: list[int], only: Tensor | None
    ) -> list[tuple[Tensor, Tensor]]:
        blocks = []
        for j in views:
            keep = torch.ones_like(draws, dtype=torch.bool)
            if self.anchor_views[i] == self.key_views[j]:  # a drawn anchor is no negative of itself
                keep = ~self.own().gather(1, draws)
            if self.missing is not None:
                keep = keep & ~self.missing[draws] & ~self.missing[self.rows, None]
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
        """Pairs of a batch with positives and negatives given as masks over the other samples.

        A sample's own other views are positives whatever the masks hold.  Other samples that are
        neither positive nor negative are left out.  Objectives with a single positive read only the
        negatives.

        Args:
            projections: (u, n, d), u views of n samples, unit-norm unless the objective asks for raw.
            positives: (n, m) bool; m is n times the number of processes whose samples are compared.
            negatives: (n, m) bool; None: all samples that are not positives.
            condition: As in `in_batch`, for objectives that weigh these samples by it.
            gather_distributed: As in `in_batch`.

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
    ignored: tuple[str, ...] = (),
) -> Pairs:
    """Every view of a batch compared with every other: SimCLR's pairs.

    Args:
        projections: (u, n, d), u views of n samples, unit-norm unless the objective asks for raw.
        condition: By name (n,), (n, c) or (u, n, c).
        index: (n,) dataset indices.
        features: (u, n, f).
        extras: Further tensors by name, not one row per sample.
        gather_distributed: Compare with the samples of all processes; each has n samples.
        ignored: Names of conditions whose missing values leave a sample out (see `Pairs`).
    """
    projections = at_least_float32(projections)
    views = range(projections.shape[0])
    given = (condition, index, features, extras, gather_distributed)
    pairs = _compared(projections, projections, views, *given)
    return replace(pairs, shared=True, ignored=ignored)


def with_keys(
    projections: Tensor,
    keys: Tensor | None,
    condition: Mapping[str, Tensor] | None = None,
    index: Tensor | None = None,
    features: Tensor | None = None,
    extras: Mapping[str, Tensor] | None = None,
    *,
    first_key_view: int,
    gather_distributed: bool = False,
) -> Pairs:
    """Views of a batch compared with keys of their own, as a momentum encoder makes them.

    A queue is added afterwards: `ccl_plugins.methods.FeatureQueue.add_to`.

    Args:
        projections: (u, n, d), the views 0 to u - 1 of n samples; unit-norm unless the objective asks
            for raw.
        keys: (v, n, d), v views of the same n samples in the same order.
        condition: By name (n,), (n, c) or (u, n, c).
        index: (n,) dataset indices.
        features: (u, n, f).
        extras: Further tensors by name, not one row per sample.
        first_key_view: The number of the view that the first keys are of; the others are of the views
            after it.  0 if every view gives anchors and keys, 1 if the first view gives the anchors and
            the others the keys.  Anchors are compared with keys of other views.
        gather_distributed: Compare with the keys of all processes, as a method does in training; each
            has n samples.

    Raises:
        ValueError: For embeddings without keys, shapes that do not fit, and if no anchor has a key of
            another view.
    """
    if keys is None:
        raise ValueError("these embeddings have no keys to compare with: embed must make them")
    if projections.ndim != 3 or projections.shape[1:] != keys.shape[1:]:
        raise ValueError(
            "projections (u, n, d) and keys (v, n, d) must have equal n and d, not"
            f" {tuple(projections.shape)} and {tuple(keys.shape)}"
        )
    if len(projections) == len(keys) == 1 and first_key_view == 0:
        raise ValueError("no anchor has a key of another view: are the keys of first_key_view=1?")
    views = range(first_key_view, first_key_view + len(keys))
    given = (condition, index, features, extras, gather_distributed)
    return _compared(at_least_float32(projections), at_least_float32(keys), views, *given)


def _compared(
    anchors: Tensor,
    keys: Tensor,
    key_views: Iterable[int],
    condition: Mapping[str, Tensor] | None,
    index: Tensor | None,
    features: Tensor | None,
    extras: Mapping[str, Tensor] | None,
    gather_distributed: bool,
) -> Pairs:
    """Anchors of this process and keys of this one or of all."""
    from lightly.utils import dist

    condition = {k: at_least_float32(z) for k, z in (condition or {}).items()}
    processes = dist.world_size() if gather_distributed else 1
    offset = 0
    if processes > 1:
        keys, offset = gather(keys, 1), dist.rank() * anchors.shape[1]
        condition = {k: gather(z, 1 if z.ndim == 3 else 0) for k, z in condition.items()}
        index = None if index is None else gather(index)
    return Pairs(
        anchors=anchors,
        keys=keys,
        anchor_views=tuple(range(len(anchors))),
        key_views=tuple(key_views),
        offset=offset,
        processes=processes,
        condition=condition,
        index=index,
        features=features,
        extras=extras or {},
    )
