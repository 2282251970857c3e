"""The batches that objectives are checked on, and their loss on one process or on two."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from lightly.utils import dist
from torch import Tensor, distributed
from torch.nn.functional import normalize

from ccl_plugins.pairs import Pairs, PatchScores, Queue, Samples, in_batch
from ccl_plugins.protocols import trait
from ccl_plugins.testing.inputs import conditions, normal, seeded

WIDTH = 16
"""Numbers in an embedding."""


@dataclass(frozen=True)
class RawBatch:
    """A batch of embeddings, not normalized.

    Args:
        views: (u, n, d).
        condition: By name (n,), (n, c) or (u, n, c).
        extras: Tensors that belong to no sample.
        index: (n,) dataset indices; None: 0 to n - 1, and the next ones in the next process.
        ignored: Names of conditions whose missing values leave samples out.
    """

    views: Tensor
    condition: Mapping[str, Tensor] = field(default_factory=dict)
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    index: Tensor | None = None
    ignored: tuple[str, ...] = ()

    def rows(self, which: Any) -> RawBatch:
        """Some of the samples, or all in another order."""
        taken = {k: z[:, which] if z.ndim == 3 else z[which] for k, z in self.condition.items()}
        index = None if self.index is None else self.index[which]
        return replace(self, views=self.views[:, which], condition=taken, index=index)

    def without_values(self, rows: Tensor) -> RawBatch:
        """The same batch with conditions that are missing, and ignored, at some samples."""
        lost = {name: _lose(z, rows) for name, z in self.condition.items()}
        return replace(self, condition=lost, ignored=tuple(lost))

    def to(self, dtype: torch.dtype) -> RawBatch:
        """The same batch with embeddings and extras of another floating-point type."""
        extras = {name: _cast(tensor, dtype) for name, tensor in self.extras.items()}
        return replace(self, views=self.views.to(dtype), extras=extras)


def raw_batch(objective: Any, n: int = 8, views: int | None = None) -> RawBatch:
    """Similar views of n samples, with the conditions and extras that an objective reads, in float64.

    Extras are its class attribute ``EXAMPLE_EXTRAS``: tensors, or shapes to fill with normal numbers.  A
    class attribute ``EXAMPLE_BATCH`` replaces n.
    """
    n = getattr(objective, "EXAMPLE_BATCH", n)
    count = objective.min_views if views is None else views
    sample, noise = _normal(1, n, WIDTH, seed=3), _normal(count, n, WIDTH, seed=4)
    given = getattr(objective, "EXAMPLE_EXTRAS", {}).items()
    extras = {k: x if isinstance(x, Tensor) else _normal(*x, seed=5) for k, x in given}
    values = conditions(objective, n)
    for name, z in values.items():
        if z.ndim == 3:  # it differs per view
            values[name] = z[torch.arange(count) % len(z)]
    return RawBatch(sample + noise, values, extras, torch.arange(n)).to(torch.float64)


def _lose(z: Tensor, rows: Tensor) -> Tensor:
    if z.dtype in (torch.bool, torch.uint8):
        z = z.float()
    gap = torch.nan if z.is_floating_point() else -1
    return z.index_fill(1 if z.ndim == 3 else 0, rows, gap)


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype) if x.is_floating_point() else x


_normal = functools.partial(normal, dtype=torch.float64)


def projections(objective: Any, views: Tensor) -> Tensor:
    """Embeddings as the objective reads them: normalized, or raw."""
    return normalize(views, dim=-1) if objective.embedding == "sphere" else views


def pairs_of(objective: Any, batch: RawBatch, gather: bool = False) -> Pairs:
    """All pairs of a batch, or of the batches of all processes."""
    n = batch.views.shape[1]
    first = dist.rank() * n if gather else 0
    index = torch.arange(first, first + n) if batch.index is None else batch.index
    return in_batch(
        projections(objective, batch.views),
        Samples(
            batch.condition,
            index,
            batch.views,
            batch.extras,
            patches=patches_of(objective, batch.views),
            ignored=batch.ignored,
        ),
        gather_distributed=gather,
    )


def patches_of(objective: Any, views: Tensor) -> PatchScores | None:
    """Scores of two masked patches of each view, if the objective reads them."""
    if not trait(objective, "reads_patches"):
        return None
    of_samples = views.transpose(0, 1)
    student = torch.stack([of_samples, of_samples.flip(-1)], 2).flatten(0, 2)
    counts = torch.full(of_samples.shape[:2], 2, device=views.device)
    return PatchScores(student, student.detach().roll(1, -1), counts)


def queue_pairs(
    objective: Any, batch: RawBatch, filled: int, rest: float, lost: Tensor | None = None
) -> Pairs:
    """Pairs with momentum keys and a queue of 6 keys; until it is full, the batch's keys count too.

    The first ``filled`` places of the queue are valid, and the others hold the number ``rest``.  Conditions
    are missing at the places ``lost``.
    """
    count, n, width = batch.views.shape
    keys = normal(6, width, seed=5, dtype=batch.views.dtype)
    keys[filled:] = rest
    noise = 0.1 * normal(count, n, width, seed=6, dtype=batch.views.dtype)
    earlier = {
        name: (z[0] if z.ndim == 3 else z)[torch.arange(6) % n].clone()
        for name, z in batch.condition.items()
    }
    for z in earlier.values():
        z[filled:] = int(rest)
    if lost is not None:
        earlier = {name: _lose(z, lost) for name, z in earlier.items()}
    return replace(
        pairs_of(objective, batch),
        keys=projections(objective, (batch.views + noise).detach()),
        shared=False,
        queue=Queue(
            projections(objective, keys),
            torch.arange(6) < filled,
            earlier,
            torch.tensor([0, 19, 20, 21, 22, 23]),
        ),
        batch_candidates=torch.tensor(filled < 6),
    )


def loss_of(objective: Any, batch: RawBatch) -> Tensor:
    """The loss of all pairs of a batch, with seeded random numbers."""
    return loss_of_pairs(objective, pairs_of(objective, batch))


def loss_of_pairs(objective: Any, pairs: Pairs) -> Tensor:
    """The loss of pairs, with seeded random numbers."""
    with seeded():
        loss: Tensor = objective.loss(pairs)
    return loss


def call(objective: Any, batch: RawBatch) -> Tensor:
    """The loss of a call on raw embeddings, as in a user's own loop."""
    named = {k: tuple(z) if z.ndim == 3 else z for k, z in batch.condition.items()}
    more: dict[str, Any] = {"extras": batch.extras} if batch.extras else {}
    if batch.index is not None:
        more["index"] = batch.index
    if trait(objective, "reads_features"):
        more["features"] = tuple(batch.views)
    # Under autocast, torch.stack refuses half precision of another type than autocast's.
    with torch.autocast(batch.views.device.type, enabled=False):
        patches = patches_of(objective, batch.views)
    if patches is not None:
        more["patches"] = patches
    loss: Tensor = objective(*batch.views, condition=named or None, **more)
    return loss


def value_and_gradient(
    loss: Callable[[Any, RawBatch], Tensor], objective: Any, batch: RawBatch
) -> tuple[Tensor, Tensor]:
    """The loss of an objective, and its gradient by all views."""
    views = batch.views.detach().clone().requires_grad_()
    value = loss(objective, replace(batch, views=views))
    if not value.requires_grad:
        return value, torch.zeros_like(views)
    (gradient,) = torch.autograd.grad(value, views, allow_unused=True, materialize_grads=True)
    return value.detach(), gradient


def on_each_rank(build: Callable[[], Any], batch: RawBatch) -> tuple[Tensor, list[Tensor]]:
    """The loss of a batch, and its gradients by a shared weight and the objective's parameters.

    Each process takes its part of the batch, and the results are averaged as DistributedDataParallel
    does; a process without others takes the whole batch.  The embeddings are ``views @ weight``, with one
    weight for all samples.
    """
    objective, rank, world = build(), dist.rank(), dist.world_size()
    n = batch.views.shape[1] // world
    part = batch.rows(slice(rank * n, (rank + 1) * n)) if world > 1 else batch
    weight = torch.eye(part.views.shape[2], dtype=part.views.dtype, requires_grad=True)
    embedded = replace(part, views=part.views @ weight)
    loss = loss_of_pairs(objective, pairs_of(objective, embedded, gather=world > 1))
    leaves = [weight, *(p for p in objective.parameters() if p.requires_grad)]
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    results = [loss.detach().clone(), *gradients]
    if world > 1:
        for result in results:
            distributed.all_reduce(result)
    return results[0] / world, [gradient / world for gradient in results[1:]]
