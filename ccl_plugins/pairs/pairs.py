"""The class of pairs: embeddings to compare, with the facts about their samples.

A method builds pairs; an objective turns each comparison into a term of its loss.  Pairs are kept as
views x samples: nothing of size (views · samples)² is stored, masks are built only when an objective
asks for them, and a weight that belongs to two samples is computed once for all their views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from lightly.utils import dist
from torch import Tensor

from ccl_plugins.numerics.condition_values import replace_invalid
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.logsumexp import in_order_of
from ccl_plugins.numerics.precision import at_least_float32, unit
from ccl_plugins.numerics.streaming import ends
from ccl_plugins.pairs.queue import Queue
from ccl_plugins.pairs.samples import Samples


def _nothing_known() -> Samples:
    return Samples()  # torch.compile does not trace a class as the factory of a default


@dataclass(frozen=True, eq=False)
class Pairs:
    """Anchors, the keys that they are compared with, and the facts about the samples of both.

    Anchor sample ``i`` is key sample ``offset + i``: its *own* keys are those at that position, not
    those with the same dataset index. Embeddings are unit-norm unless the objective asks for raw
    ones, and at least float32.

    Candidates for an anchor come in blocks of columns, always in this order: the m key samples of
    the batch in one view, those of the anchor's own view if an objective asks for them, and the q
    places of the queue. A mask over "batch and queue", (n, m + q), and condition values of
    ``everyone``, (m + q, ...), have the m samples first and once, whatever the number of views.

    Args:
        anchors: (u, n, d), u views of n samples.
        keys: (v, m, d), v views of m samples; ``keys is anchors`` in a batch on one process.
        anchor_views: The number of each anchor view.
        key_views: The number of each key view; two entries of equal number are the same image.
        samples: The facts about the m key samples.
        queue: Earlier keys with the facts about them; None: there is no queue.
        shared: Whether the keys are the anchors of all processes, with gradient.
        offset: The position of the first anchor among the keys.
        processes: The number of processes that share these keys; their anchors together are all samples.
        batch_candidates: 0-d bool, whether the batch's other keys count in addition to the queue;
            None: they do.
        draws: (n, k) explicit negatives as key positions, repeats allowed; they replace all other
            negatives, including the queue's.
        positive: (n, m + q) bool, the other samples that are positives, given by a user; None: the
            objective decides.
        negative: (n, m + q) bool, the other samples that may be negatives; None: all.  With
            ``positive``, samples that are neither are left out.
        anchors_at_once: The number of anchors that an objective compares with the keys at a time; None:
            all.
        operators: By anchor view, CCL-K's operator, solved for all anchors before they are split
            into parts: a function from a slice of the m + q samples to their weights (n, ·).
    """

    anchors: Tensor
    keys: Tensor
    anchor_views: tuple[int, ...]
    key_views: tuple[int, ...]
    samples: Samples = field(default_factory=_nothing_known)
    queue: Queue | None = None
    _: KW_ONLY
    shared: bool = False
    offset: int = 0
    processes: int = 1
    batch_candidates: Tensor | None = None
    draws: Tensor | None = None
    positive: Tensor | None = None
    negative: Tensor | None = None
    anchors_at_once: int | None = None
    operators: Mapping[int, Callable[..., Tensor]] = field(default_factory=dict)
    _products: dict[tuple[int, int], Tensor] = field(default_factory=dict, init=False, repr=False)
    _own_products: dict[tuple[int, int], Tensor] = field(
        default_factory=dict, init=False, repr=False
    )
    _unbound: list[Any] = field(default_factory=list, init=False, repr=False)
    _others: list[tuple[Tensor | None, Tensor]] = field(
        default_factory=list, init=False, repr=False
    )

    @property
    def rows(self) -> slice:
        """The positions of the anchors among the key samples."""
        return slice(self.offset, self.offset + self.anchors.shape[1])

    @property
    def sample_count(self) -> int | Tensor:
        """The number of key samples; a 0-d tensor if some are missing."""
        missing = self.samples.missing
        return self.keys.shape[1] if missing is None else (~missing).sum()

    def normalized(self) -> Pairs:
        """These pairs with anchors, keys and queue on the unit sphere."""
        anchors = unit(self.anchors)
        shared = self.keys is self.anchors
        keys = anchors if shared else unit(self.keys)
        queue = None if self.queue is None else self.queue.normalized()
        return replace(self, anchors=anchors, keys=keys, queue=queue)

    def without_missing(self, names: Iterable[str]) -> Pairs:
        """These pairs without the samples that lack a value of one of these conditions.

        Only values of conditions in ``samples.ignored`` may be missing. Shapes do not change: the
        samples are masked, in the batch by ``samples.missing`` and in the queue by ``queue.valid``.
        """
        lacking = self.samples.lacking(names)
        if not lacking:
            return self
        queue = None if self.queue is None else self.queue.without_missing(lacking)
        return replace(self, samples=self.samples.without_missing(lacking), queue=queue)

    def with_condition(self, name: str, of: Callable[[Mapping[str, Tensor]], Tensor]) -> Pairs:
        """These pairs with one more condition, computed from the others, in the batch and in the queue."""
        samples, queue = self.samples, self.queue
        samples = replace(samples, condition={**samples.condition, name: of(samples.condition)})
        if queue is not None:
            queue = replace(queue, condition={**queue.condition, name: of(queue.condition)})
        return replace(self, samples=samples, queue=queue)

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
            anchors, keys = self._views()
            one = keys[j] is anchors[i] and keys[j].requires_grad
            self._products[i, j] = _WithItself.apply(keys[j]) if one else anchors[i] @ keys[j].T
        return self._products[i, j]

    def _views(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Anchors and keys by view; the gradients of all views become one tensor in one operation."""
        if not self._unbound:
            anchors = self.anchors.unbind()
            keys = anchors if self.keys is self.anchors else self.keys.unbind()
            self._unbound.append((anchors, keys))
        return self._unbound[0]

    def own_sim(self, i: int, j: int) -> Tensor:
        """(n,) inner products of anchor view ``i`` with each sample's own key of view ``j``."""
        # The diagonal of ``sim`` would have a gradient of size (n, m) that is zero off the diagonal.
        anchors, keys = self._views()
        if len(anchors[i]) < len(keys[j]):
            return (anchors[i] * keys[j][self.rows]).sum(1)
        place = (j, i) if self.keys is self.anchors and i > j else (i, j)
        if place not in self._own_products:
            self._own_products[place] = (anchors[place[0]] * keys[place[1]]).sum(1)
        return self._own_products[place]

    def sim_queue(self, i: int) -> Tensor:
        """(n, q) inner products of anchor view ``i`` and the queue."""
        if (i, -1) not in self._products:
            self._products[i, -1] = self._views()[0][i] @ self._queue().of_view(i).T
        return self._products[i, -1]

    def _queue(self) -> Queue:
        if self.queue is None:
            raise ValueError("these pairs have no queue")
        return self.queue

    @property
    def without_masks(self) -> bool:
        """Whether all other samples of the batch count."""
        masks = (self.samples.missing, self.batch_candidates, self.positive, self.negative)
        return self.draws is None and all(mask is None for mask in masks)

    def own(self) -> Tensor:
        """(n, m) True at each anchor sample's own position."""
        # To compare positions takes ten times as long.
        own = self.anchors.new_zeros(self.anchors.shape[1], self.keys.shape[1], dtype=torch.bool)
        own.diagonal(self.offset).fill_(True)
        return own

    def others(self, only: Tensor | None = None) -> Tensor:
        """(n, m) True at the batch's other samples that count, restricted to ``only`` (n, m + q)."""
        for given, others in self._others:  # of other views
            if given is only:
                return others
        others = self._all_others() if only is None else self.others()
        others = others if only is None else others & only[:, : others.shape[1]]
        self._others.append((only, others))
        return others

    def _all_others(self) -> Tensor:
        others, missing = ~self.own(), self.samples.missing
        if missing is not None:
            others = others & ~missing & ~missing[self.rows, None]
        if self.batch_candidates is not None:
            others = others & self.batch_candidates
        given = self._given()
        return others if given is None else others & given[:, : others.shape[1]]

    def in_queue(self, only: Tensor | None = None) -> Tensor:
        """(n, q) or (1, q) True at the queue's entries that count, restricted to ``only`` (n, m + q).

        These entries do not count: empty places, keys of the anchor's own image, and entries that
        are neither positive nor negative in a user's masks. No entry counts for an anchor that is
        missing.
        """
        queue, samples = self._queue(), self.samples
        valid = queue.valid[None, :]
        if samples.missing is not None:
            valid = valid & ~samples.missing[self.rows, None]
        if queue.index is not None and samples.index is not None:
            for index in (samples.index, samples.partner):
                if index is not None:
                    valid = valid & (index[self.rows, None] != queue.index)
        for mask in (self._given(), only):
            valid = valid if mask is None else valid & mask[:, -valid.shape[1] :]
        return valid

    def counted(self, only: Tensor | None = None) -> Tensor:
        """(n, m + q) True at the other samples that count, restricted to ``only`` (n, m + q)."""
        others = self.others(only)
        if self.queue is None:
            return others
        return torch.cat([others, self.in_queue(only).expand(len(others), -1)], 1)

    def same_class(self, on: str) -> Tensor:
        """(n, m + q) True at the other samples of the anchor's class, or at a user's positives.

        Args:
            on: The name of a categorical condition.

        Raises:
            ValueError: For a condition of several columns, such as a hierarchy.
        """
        if self.positive is not None:
            return self.counted(self.positive)
        if (ids := self.samples.condition[on]).ndim != 1:
            raise ValueError(
                f"{on} must be one class id per sample, (b,), not {tuple(ids.shape)}: give one column"
                " of a hierarchy"
            )
        return self.counted(ids[self.rows, None] == self.everyone(on))

    def contrasted(self, positives: Tensor) -> Tensor:
        """(n, m + q) True at the other samples that are negatives or among ``positives``."""
        return self.counted(self.negative) | positives

    def everyone(self, on: str, i: int = 0) -> Tensor:
        """(m + q, ...) values of a condition: the batch's in view ``i``, then the queue's.

        Empty places of the queue have values of the batch.
        """
        values = self.samples.condition_of(on, i)
        if self.queue is None:
            return values
        every = torch.cat([self.queue.valid.new_ones(len(values)), self.queue.valid])
        return replace_invalid(torch.cat([values, self.queue.condition[on]]), every, len(values))

    def valid(self) -> Tensor | None:
        """(m + q,) True at the samples of batch and queue that exist; None: all exist."""
        missing = self.samples.missing
        present = None if missing is None else ~missing
        if self.queue is None:
            return present
        if present is None:
            present = self.queue.valid.new_ones(self.keys.shape[1])
        return torch.cat([present, self.queue.valid])

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
        every = where is None and self.without_masks
        return [(sims, None if every else keep | self.own()), *more]

    def _drawn(
        self, draws: Tensor, i: int, views: list[int], only: Tensor | None
    ) -> list[tuple[Tensor, Tensor]]:
        blocks, missing = [], self.samples.missing
        for j in views:
            keep = torch.ones_like(draws, dtype=torch.bool)
            if self.anchor_views[i] == self.key_views[j]:  # a drawn anchor is no negative of itself
                keep = ~self.own().gather(1, draws)
            if missing is not None:
                keep = keep & ~missing[draws] & ~missing[self.rows, None]
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
            samples=replace(self.samples, features=_gathered(self.samples.features, 1)),
            draws=_gathered(self.draws),
            positive=_gathered(self.positive),
            negative=_gathered(self.negative),
            offset=0,
            processes=1,
        )

    def part(self, some: slice) -> Pairs:
        """These pairs with some of the n anchors, and all keys."""
        start, _ = ends(some, self.anchors.shape[1])
        features = self.samples.features
        rows = (self.draws, self.positive, self.negative)
        draws, positive, negative = (None if x is None else x[some] for x in rows)
        return replace(
            self,
            anchors=self.anchors[:, some],
            samples=replace(self.samples, features=None if features is None else features[:, some]),
            offset=self.offset + start,
            draws=draws,
            positive=positive,
            negative=negative,
            anchors_at_once=None,
            operators={i: partial(of, among=some) for i, of in self.operators.items()},
        )

    @staticmethod
    def from_masks(
        projections: Tensor,
        positives: Tensor,
        negatives: Tensor | None = None,
        samples: Samples | None = None,
        gather_distributed: bool = False,
    ) -> Pairs:
        """Pairs of a batch with positives and negatives given as masks over the other samples.

        A sample's own other views are always positives. Other samples that are neither positive nor
        negative are left out. Objectives with a single positive read only the negatives.

        Args:
            projections: (u, n, d), u views of n samples, unit-norm unless the objective asks for raw.
            positives: (n, m) bool; m is n times the number of processes whose samples are compared.
            negatives: (n, m) bool; None: all samples that are not positives.
            samples: The facts about the samples, for objectives that read conditions.
            gather_distributed: See `in_batch`.

        Raises:
            ValueError: For masks of another type or shape, or a sample that is both.
        """
        pairs = in_batch(projections, samples, gather_distributed)
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
    projections: Tensor, samples: Samples | None = None, gather_distributed: bool = False
) -> Pairs:
    """Every view of a batch compared with every other: SimCLR's pairs.

    Args:
        projections: (u, n, d), u views of n samples, unit-norm unless the objective asks for raw.
        samples: The facts about these n samples; None: no facts.
        gather_distributed: Compare with the samples of all processes; each has n samples.
    """
    projections = at_least_float32(projections)
    views = range(projections.shape[0])
    pairs = _compared(projections, projections, views, samples, gather_distributed)
    return replace(pairs, shared=True)


def with_keys(
    projections: Tensor,
    keys: Tensor | None,
    samples: Samples | None = None,
    *,
    first_key_view: int,
    gather_distributed: bool = False,
) -> Pairs:
    """Views of a batch compared with separate keys, such as those of a momentum encoder.

    A queue is added afterwards: `ccl_plugins.methods.FeatureQueue.add_to`.

    Args:
        projections: (u, n, d), the views 0 to u - 1 of n samples; unit-norm unless the objective asks
            for raw.
        keys: (v, n, d), v views of the same n samples in the same order.
        samples: The facts about these n samples; None: no facts.
        first_key_view: The number of the view that the first keys are of; the others are of the views
            after it.  0 if every view gives anchors and keys, 1 if the first view gives the anchors and
            the others the keys.  Anchors are compared with keys of other views.
        gather_distributed: Compare with the keys of all processes, as methods do in training; each
            process has n samples.

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
    anchors, keys = at_least_float32(projections), at_least_float32(keys)
    return _compared(anchors, keys, views, samples, gather_distributed)


def _compared(
    anchors: Tensor,
    keys: Tensor,
    key_views: Iterable[int],
    samples: Samples | None,
    gather_distributed: bool,
) -> Pairs:
    """Anchors of this process and keys of this one or of all."""
    samples = Samples() if samples is None else samples.at_least_float32()
    processes = dist.world_size() if gather_distributed else 1
    offset = 0
    if processes > 1:
        keys, offset = gather(keys, 1), dist.rank() * anchors.shape[1]
        samples = samples.gathered()
    return Pairs(
        anchors=anchors,
        keys=keys,
        anchor_views=tuple(range(len(anchors))),
        key_views=tuple(key_views),
        samples=samples,
        offset=offset,
        processes=processes,
    )


class _WithItself(torch.autograd.Function):
    """``x xᵀ``, whose gradient takes one product in place of two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x @ x.T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        both: Tensor = (grad + in_order_of(grad, grad.T)) @ x
        return both
