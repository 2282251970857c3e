"""What objectives are examined on: batches, and their loss on one process or on two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn.functional import normalize

from ccl_plugins.pairs.pairs import Pairs, in_batch
from ccl_plugins.protocols import Table
from ccl_plugins.testing.material import SAMPLES, random, seeded, values_of
from ccl_plugins.testing.subject import Subject

WIDTH = 16
"""Numbers of an embedding."""

EXACT = {"rtol": 1e-9, "atol": 1e-12}
"""What rounding in float64 allows."""


@dataclass(frozen=True)
class Batch:
    """A batch of raw embeddings.

    Args:
        views: (u, n, d).
        condition: By name (n,), (n, c) or (u, n, c).
        extras: Tensors that belong to no sample.
    """

    views: Tensor
    condition: Mapping[str, Tensor] = field(default_factory=dict)
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    def rows(self, which: Any) -> Batch:
        """Some of the samples, or all in another order."""
        taken = {k: z[:, which] if z.ndim == 3 else z[which] for k, z in self.condition.items()}
        return replace(self, views=self.views[:, which], condition=taken)

    def to(self, dtype: torch.dtype) -> Batch:
        """With embeddings, and extras, of another type."""
        extras = {name: tensor.to(dtype) for name, tensor in self.extras.items()}
        return replace(self, views=self.views.to(dtype), extras=extras)


def prepared(subject: Subject, dtype: torch.dtype = torch.float64) -> Any:
    """An objective as training has it before its first step."""
    return prepare(subject.build(), dtype)


def prepare(objective: Any, dtype: torch.dtype = torch.float64) -> Any:
    """The same of a built one: set up with tables of 24 rows, and of a type."""
    if hasattr(objective, "setup"):
        with seeded():  # on each of two processes alike
            objective.setup({k: Table(z) for k, z in _conditions(objective, SAMPLES).items()})
    return objective.to(dtype)


def batch(objective: Any, n: int = 8, views: int | None = None, seed: int = 3) -> Batch:
    """Views that are near each other, and the conditions that an objective reads, in float64."""
    count = objective.min_views if views is None else views
    shared = random(1, n, WIDTH, seed=seed, dtype=torch.float64)
    own = random(count, n, WIDTH, seed=seed + 1, dtype=torch.float64)
    return Batch(shared + own, _conditions(objective, n), _extras(objective))


def _extras(objective: Any) -> dict[str, Tensor]:
    """Of a class attribute ``EXAMPLE_EXTRAS``: tensors, or shapes of normal numbers, by name."""
    found = {
        name: each if isinstance(each, Tensor) else random(*each, seed=5, dtype=torch.float64)
        for name, each in getattr(objective, "EXAMPLE_EXTRAS", {}).items()
    }
    return {name: x.double() if x.is_floating_point() else x for name, x in found.items()}


def _conditions(objective: Any, n: int) -> dict[str, Tensor]:
    """Vectors where the objective takes them, in float64 for exact comparisons."""
    wanted = enumerate(objective.conditions.items())
    values = {name: values_of(value_types, n, place) for place, (name, value_types) in wanted}
    return {name: z.double() if z.is_floating_point() else z for name, z in values.items()}


def projections(objective: Any, views: Tensor) -> Tensor:
    """Embeddings as the objective wants them."""
    return normalize(views, dim=-1) if objective.embedding == "sphere" else views


def pairs_of(objective: Any, given: Batch, gather: bool = False) -> Pairs:
    """All pairs of a batch, with sample numbers as dataset indices; of all processes if asked."""
    n = given.views.shape[1]
    first = distributed.get_rank() * n if gather else 0
    return in_batch(
        projections(objective, given.views),
        given.condition,
        torch.arange(first, first + n),
        given.views,
        given.extras,
        gather_distributed=gather,
    )


def loss_of(objective: Any, given: Batch) -> Tensor:
    """The loss of all pairs of a batch; what is drawn, always the same."""
    with seeded():
        loss: Tensor = objective.loss(pairs_of(objective, given))
        return loss


def call(objective: Any, given: Batch) -> Tensor:
    """The loss of raw embeddings, as a loop of one's own takes it."""
    named = {k: tuple(z) if z.ndim == 3 else z for k, z in given.condition.items()}
    more = {"extras": given.extras} if given.extras else {}
    called: Tensor = objective(*given.views, condition=named or None, **more)
    return called


def value_and_gradient(loss: Callable[[Batch], Tensor], given: Batch) -> tuple[Tensor, Tensor]:
    """A loss, and its gradient by all views."""
    views = given.views.detach().clone().requires_grad_()
    value = loss(replace(given, views=views))
    if not value.requires_grad:
        return value, torch.zeros_like(views)
    (gradient,) = torch.autograd.grad(value, views, allow_unused=True)
    return value.detach(), torch.zeros_like(views) if gradient is None else gradient


def on_one_rank(build: Callable[[], Any], given: Batch) -> tuple[Tensor, list[Tensor]]:
    """The loss of the whole batch, and the gradients by a shared weight and by own parameters.

    The embeddings are ``views @ weight`` with one weight for all samples.
    """
    value, *gradients = _differentiated(build(), given, False)
    return value, gradients


def on_each_rank(build: Callable[[], Any], given: Batch) -> tuple[Tensor, list[Tensor]]:
    """The same where this rank holds its part, averaged as DistributedDataParallel does."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    n = given.views.shape[1] // world
    value, *gradients = _differentiated(build(), given.rows(slice(rank * n, (rank + 1) * n)), True)
    for each in (value, *gradients):
        distributed.all_reduce(each)
    return value / world, [gradient / world for gradient in gradients]


def _differentiated(objective: Any, given: Batch, gather: bool) -> list[Tensor]:
    weight = torch.eye(given.views.shape[2], dtype=given.views.dtype, requires_grad=True)
    seen = replace(given, views=given.views @ weight)
    loss = objective.loss(pairs_of(objective, seen, gather))
    leaves = [weight, *(p for p in objective.parameters() if p.requires_grad)]
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    filled = zip(leaves, gradients, strict=True)
    return [loss.detach().clone(), *(torch.zeros_like(x) if g is None else g for x, g in filled)]
