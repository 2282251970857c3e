"""The batches that methods are checked on, and a step of training on one process or on two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from lightly.utils import dist
from torch import Tensor, distributed

from ccl_plugins.objectives import InfoNCE, SupCon
from ccl_plugins.pairs import Masks, Pairs, Queue, Samples
from ccl_plugins.protocols import Embedded, trait
from ccl_plugins.testing.inputs import CLASSES, SHAPE, network_inputs, normal, seeded

N, VIEWS, UNEVEN = 8, 2, 7
"""Samples of a batch, its views, and samples of a batch that fits no queue a whole number of times."""

DRAWN = (3, 0, 7, 1, 6, 2, 5, 4)
"""The samples of a batch in the order in which a sampler draws them."""

OF_TYPE = {"categorical": "label", "multi_label": "attributes", "continuous": "height"}
"""A condition of `conditions_of` of each value type."""


def views_of(method: Any, seed: int = 0, count: int = VIEWS) -> list[Tensor]:
    """Views of 8 images, or, for a method with towers, of 8 samples as its towers take them."""
    seeds = (10 * seed + view for view in range(10))
    if not trait(method, "embed_modality"):
        return [normal(N, *SHAPE, seed=next(seeds)) for _ in range(count)]
    towers = {name: type(tower) for name, tower in method.towers.items()}
    return [network_inputs(towers.get(name), N, next(seeds)) for name in method.modalities]


def of_images(method: Any, views: list[Tensor]) -> list[Tensor]:
    """The views that are images, as the backbone takes them."""
    modalities = getattr(method, "modalities", ["image"] * len(views))
    return [view for view, name in zip(views, modalities, strict=True) if name == "image"]


def conditions_of(index: Tensor, epoch: int = 0, *, reader: Any = None) -> dict[str, Tensor]:
    """Rows of tables, of every value type and shape, and of the conditions that a method itself reads.

    Another epoch has other values.
    """
    number = index + 2 * epoch
    rows = {
        "label": number % CLASSES,
        "levels": torch.stack([number % CLASSES, number % 2], 1),
        "attributes": torch.stack([number % k == 0 for k in (2, 3, 4)], 1).float(),
        "height": (0.7 * number).sin(),
        "color": torch.stack([(0.3 * k * number).cos() for k in (1, 2, 3)], 1),
    }
    given = getattr(reader, "EXAMPLE_CONDITION", {})
    for name, types in trait(reader, "conditions").items():
        example = given.get(name) if isinstance(given, Mapping) else given
        rows[name] = rows[OF_TYPE[types[0]]]
        if example is not None:
            values = torch.as_tensor(example)
            rows[name] = values[number % len(values)]
    return rows


def pairs_of(method: Any, views: list[Tensor], first: int = 0, epoch: int = 0) -> Pairs:
    """The pairs of a batch with the dataset indices from ``first`` on, with conditions of every kind.

    The last condition differs per view, as one that is computed in every step.
    """
    return pairs_of_embedded(method, embed(method, views).normalized(), first, epoch)


def enqueue(method: Any, pairs: Pairs) -> None:
    """Enqueue in training mode, as a run does, whatever the mode."""
    training = method.training
    method.train()
    method.enqueue(pairs)
    method.train(training)


def embed(method: Any, views: list[Tensor]) -> Embedded:
    """The embeddings of views, with masks if the method masks patches."""
    masks = masks_of(method, views)
    embedded: Embedded = method.embed(views, masks) if masks else method.embed(views)
    return embedded


def pairs_of_embedded(method: Any, embedded: Embedded, first: int = 0, epoch: int = 0) -> Pairs:
    """The pairs of embeddings on the sphere, with conditions as in `pairs_of`."""
    with seeded():  # a method may draw random pairs
        pairs: Pairs = method.pairs(embedded, samples_of(method, embedded, first, epoch))
    return pairs


def samples_of(method: Any, embedded: Embedded, first: int = 0, epoch: int = 0) -> Samples:
    """What is known of the samples of a batch, whose indices are in no order."""
    place = torch.arange(first, first + embedded.projections.shape[1])
    index = place // N * N + torch.tensor(DRAWN)[place % N]
    condition = {
        **conditions_of(index, epoch, reader=method),
        "embedding": embedded.projections.detach(),
    }
    return Samples(condition, index, embedded.features, patches=embedded.patches)


def with_partners(method: Any, samples: Samples) -> Samples:
    """The same samples, whose views after the first are of other images."""
    partner = 100 + torch.arange(N)
    return replace(
        samples, partner=partner, partner_condition=conditions_of(partner, reader=method)
    )


def masks_of(method: Any, views: list[Tensor]) -> Masks | None:
    """The masks of views, if the method masks patches; a sample's masks depend on its first view alone."""
    if (masking := trait(method, "masking")) is None:
        return None
    height, width = views[0].shape[-2:]
    drawn = []
    for pixel in views[0].flatten(1)[:, 0].tolist():
        with seeded(int(1e6 * abs(pixel))):
            drawn.append(torch.stack([masking(height, width) for _ in range(masking.views)]))
    return Masks.of(torch.stack(drawn))


def loss_of(pairs: Pairs) -> Tensor:
    """A loss that contrasts, reads class ids of batch and queue, and attracts where nothing contrasts."""
    own = torch.stack([pairs.own_sim(i, j) for i, j in pairs.cross()]).mean()
    contrast: Tensor = InfoNCE().loss(pairs) + SupCon(on="label").loss(pairs)
    if (patches := pairs.samples.patches) is not None:
        contrast = (
            contrast - patches.mean_of_images((patches.student * patches.teacher).mean(1)).mean()
        )
    return contrast - own


def train_step(method: Any, number: int, epoch: int = 0, ranks: int = 1) -> tuple[Tensor, Pairs]:
    """The loss and the pairs of a step of plain gradient descent, on one process or on each of two."""
    part = N // ranks
    rows = slice(dist.rank() * part, (dist.rank() + 1) * part)
    with seeded(number):
        views = [view[rows] for view in views_of(method, number)]
        pairs = pairs_of(method, views, number * N + rows.start, epoch)
        loss = loss_of(pairs)
        loss.backward()
        seen = replace(pairs, queue=pairs.queue and copied(pairs.queue))
        enqueue(method, pairs)
        with torch.no_grad():
            for parameter in method.parameters():
                if parameter.is_leaf and parameter.grad is not None:
                    parameter -= 0.1 * _mean(parameter.grad, ranks)
                    parameter.grad = None
        method.after_step(number, 10)
    return _mean(loss.detach(), ranks), seen


def copied(queue: Queue) -> Queue:
    """A copy of a queue, which does not change when the method's queue does."""
    rows = {name: z.clone() for name, z in queue.condition.items()}
    return replace(queue, keys=queue.keys.clone(), valid=queue.valid.clone(), condition=rows)


def _mean(x: Tensor, ranks: int) -> Tensor:
    if ranks > 1:
        distributed.all_reduce(x)
    return x / ranks


def begin_epoch(method: Any, epoch: int) -> list[Tensor]:
    """Have a method read its condition values again, as when an epoch begins; returns what it looks up."""
    looked_up = list[Tensor]()

    def look_up(index: Tensor) -> dict[str, Tensor]:
        looked_up.append(index)
        return conditions_of(index, epoch, reader=method)

    if read := trait(method, "read_conditions"):
        read(look_up)
    return looked_up
