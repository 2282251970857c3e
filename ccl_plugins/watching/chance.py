"""The two ends of an objective's loss: without any knowledge, and with all that pairs can show.

Losses of different objectives, temperatures and queues have different scales.  Both ends of a scale are
found by the objective itself: on equal embeddings, where it can only guess, and on embeddings in which a
sample's views are equal and different samples, or classes, point in random directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.training import ranks


@dataclass(frozen=True)
class Scale:
    """The two ends of an objective's loss on the pairs of a batch.

    Args:
        chance: The loss of equal embeddings; for InfoNCE the log of the number of candidates.
        reached: The loss of embeddings that separate samples, or the classes that the objective
            reads.
    """

    chance: float
    reached: float

    @property
    def room(self) -> float:
        """The amount by which the loss can fall below chance; 0 or less if equal embeddings are best."""
        return self.chance - self.reached

    @property
    def distinguishes(self) -> bool:
        """Whether the objective rewards separating samples."""
        return self.room > 1e-3 * max(1.0, abs(self.chance))

    def progress(self, loss: float) -> float:
        """The position of a loss: 0 at ``chance`` and 1 at ``reached``; it may be beyond both."""
        return (self.chance - loss) / self.room


def scale_of(objective: Any, pairs: Pairs) -> Scale | None:
    """The scale of an objective's loss on the pairs of all processes, the same on all.

    None if the objective reads more than embeddings, or refuses these embeddings. No state changes,
    and no random number is drawn. All processes must call this at the same time; it waits for the
    device.

    Args:
        objective: The objective.
        pairs: The pairs of a batch.

    Source:
        Wang and Isola, Understanding Contrastive Representation Learning through Alignment and Uniformity
        on the Hypersphere (2020): ``reached`` is the loss of perfectly aligned and uniform
        embeddings.
    """
    if objective.embedding != "sphere":
        return None
    directions = [_equal, *map(_random, _classes(objective, pairs))]
    with undisturbed(), torch.no_grad():
        try:
            mine = torch.stack([objective.loss(_with(pairs, each)).float() for each in directions])
        except Exception:  # it may refuse embeddings that no network gives
            mine = torch.full((len(directions),), torch.nan)
    # Each process has the loss of its own anchors, but all processes must have the same scale.
    losses = (ranks.summed([mine])[0] / ranks.world_size()).tolist()
    return Scale(losses[0], min(losses[1:])) if all(abs(each) < 1e6 for each in losses) else None


def detached(pairs: Pairs) -> Pairs:
    """These pairs without gradient, and without the products that were computed on them."""
    anchors = pairs.anchors.detach()
    keys = anchors if pairs.keys is pairs.anchors else pairs.keys.detach()
    features, patches = pairs.samples.features, pairs.samples.patches
    samples = replace(
        pairs.samples,
        features=None if features is None else features.detach(),
        patches=None if patches is None else patches.detached(),
    )
    return replace(pairs, anchors=anchors, keys=keys, samples=samples)


def _with(pairs: Pairs, directions: Callable[[int, Tensor], Tensor]) -> Pairs:
    """The pairs with other embeddings: (m + q, d) unit directions, those of all views of a sample equal."""
    m, queue = pairs.keys.shape[1], pairs.queue
    queued = 0 if queue is None else queue.keys.shape[-2]
    every = directions(m + queued, pairs.keys)
    anchors = every[pairs.rows].expand_as(pairs.anchors)
    keys = anchors if pairs.keys is pairs.anchors else every[:m].expand_as(pairs.keys)
    queue = None if queue is None else replace(queue, keys=every[m:])
    return replace(pairs, anchors=anchors, keys=keys, queue=queue)


def _equal(count: int, like: Tensor) -> Tensor:
    return functional.one_hot(torch.zeros(count, dtype=torch.long), like.shape[-1]).to(like)


def _random(ids: Tensor | None) -> Callable[[int, Tensor], Tensor]:
    """Random directions, equal for samples of one class id; None: different for every sample."""

    def directions(count: int, like: Tensor) -> Tensor:
        # On the CPU, so that all processes draw the same.
        drawn = torch.randn(count, like.shape[-1], generator=torch.Generator().manual_seed(0))
        drawn = functional.normalize(drawn, dim=-1).to(like)
        return drawn if ids is None else drawn[torch.unique(ids, return_inverse=True)[1]]

    return directions


def _classes(objective: Any, pairs: Pairs) -> list[Tensor | None]:
    """None, for every sample by itself, and the class ids (m + q,) of each condition that is read."""
    classes: list[Tensor | None] = [None]
    for name in objective.conditions:
        values = pairs.samples.condition.get(name)
        if values is not None and values.ndim == 1 and not values.is_floating_point():
            classes.append(pairs.everyone(name))
    return classes
