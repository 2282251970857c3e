"""Problems in the first steps of a run: its views, its keys, and the conditions of its loss.

Views and keys are compared once, in the first step, when the processor waits for the device anyway.
No network is called again, and no random numbers are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.files.processes import is_first
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.scalars import Scheduled
from ccl_plugins.protocols import trait
from ccl_plugins.training import ranks
from ccl_plugins.training.features import plain_batches
from ccl_plugins.training.findings import Finding
from ccl_plugins.training.loader import Batch, Items, augment, collate, read_batch
from ccl_plugins.transforms.modalities import IMAGE, modality_of_each
from ccl_plugins.watching.batches import SAME_ROWS
from ccl_plugins.watching.symptoms import Observation, Symptom

SAMPLES = 64
"""The most samples of a batch whose images are read again."""

DRAWS = 8
"""The number of samples that are drawn again, and of the draws of each: unequal draws show that a
transform is random."""

JUDGED = 16
"""The least number of samples to compare views with plain images; a jitter may make fewer brighter
by chance."""

OTHER_VIEWS, SAME_KEYS = 1e-3, 1e-6
"""Limits of squared distances, relative to a variance: for views that differ, and for embeddings of
one view."""


class EqualViews(Symptom):
    """Views of an image are equal although the transform is random.

    A transform without randomness gives equal views by design, for example if the network has
    dropout.
    """

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the views of the first batch and, if two are equal, draw those of some samples again."""
        if not seen.first or not is_first():
            return
        transform, index = seen.transform, seen.batch.index
        if index.ndim == 2 or not _equal(seen, seen.batch.views):
            return  # with partners, views are of two images
        rows = (index[:DRAWS].tolist() * DRAWS)[: DRAWS**2]
        keys = [(0, place, row) for place, row in enumerate(rows)]
        of_batches = bool(trait(transform, "batch_transforms"))
        called, trained = (
            augment(transform, read_batch(items, keys, collate, seen.settings.workers)).views
            for items in (
                Items(seen.split, transform, seen.settings.seed, batched)
                for batched in (False, of_batches)
            )
        )
        first = torch.tensor([rows.index(row) for row in rows])
        random = any(not torch.equal(view, view[first]) for view in called)
        for i, j in _equal(seen, trained) if random else ():
            name = type(transform).__name__
            yield Finding(
                "both-views-are-equal",
                seen.step,
                f"both views are equal: {name} is random, but its views {i} and {j} of each sample are"
                " equal, so a positive teaches nothing; draw each view separately (transform)",
            )
            return


def _equal(seen: Observation, views: Sequence[Tensor]) -> list[tuple[int, int]]:
    """The views that are equal, of one modality and size, by their places."""
    names = modality_of_each(seen.transform)
    places = combinations(range(len(views)), 2)
    return [(i, j) for i, j in places if names[i] == names[j] and torch.equal(views[i], views[j])]


class OtherScale(Symptom):
    """Views have another scale than the un-augmented images, from which features are computed."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the views of the first batch with the same images without augmentation."""
        if not seen.first or not is_first() or len(seen.batch.index) < JUDGED:
            return
        transform, index = seen.transform, seen.batch.index[:SAMPLES].cpu()
        of_views = index.unbind(1) if index.ndim == 2 else (index, index)  # with partners
        workers = 0 if seen.settings.workers == 0 else 1
        plain = [*plain_batches(seen.split, transform, workers, [*of_views])]
        names = modality_of_each(transform)
        for i, view in enumerate(seen.batch.views):
            if names[i] != IMAGE:
                continue
            drawn, like = (x.float().cpu() for x in (view[:SAMPLES], plain[min(i, 1)]))
            if _unlike(drawn, like):
                name = type(transform).__name__
                yield Finding(
                    "views-have-another-scale-than-plain",
                    seen.step,
                    f"views have another scale than plain: view {i} of {name} has mean {drawn.mean():.3g}"
                    f" and standard deviation {drawn.std():.3g}, plain(image) {like.mean():.3g} and"
                    f" {like.std():.3g}; evaluators read plain: divide and normalize there as in views"
                    " (transform)",
                    explains=False,
                )
                return


def _unlike(view: Tensor, plain: Tensor) -> bool:
    """Whether a view (n, ...) of samples has another scale than the same samples (n, ...), both float32.

    The median of each sample is compared, because random brightness and crops change means. With 32
    images, medians of the built-in transforms' views differ by up to 0.8 of the smaller standard
    deviation where chance does not explain it. The distance of their quartiles is 0.45 to 1.2 times
    that of the plain images, but 3 to 4.4 times if only ``plain`` lacks ImageNet's statistics.
    """
    images = view.ndim == 4
    view, plain = view.flatten(1), plain.flatten(1)
    if (view == 0).float().mean() > (plain == 0).float().mean() + 0.2:  # such as by a mask
        # This leaves out zeros of sparse vectors, too; most numbers that a mask keeps are not 0.
        view, plain = (x.masked_fill(x == 0, torch.nan) for x in (view, plain))
    both = view, plain
    sizes = torch.stack([x.square().nanmean().sqrt() for x in both]).clamp_min(1e-6)
    if not 1 / 16 < float(sizes[0] / sizes[1]) < 16:
        return True
    moved = view.nanmedian(1).values - plain.nanmedian(1).values
    shift = moved.nanmedian()
    error = 1.5 * (moved - shift).abs().nanmedian() / len(moved) ** 0.5
    spread = min(float(x[~x.isnan()].std()) for x in both)
    if float(shift.abs()) > max(spread, 6 * float(error), 0.01 * float(sizes.min())):
        return True
    if not images:  # the noise of vectors has a scale of its own
        return False
    ends = torch.tensor([0.25, 0.75])
    quartiles = [x[:, :: 1 + x.shape[1] // 4096].nanquantile(ends, 1) for x in both]
    ranges = torch.stack([high - low for low, high in quartiles])  # (2, n)
    ranges = ranges[:, (ranges > 0).all(0)]
    return ranges.shape[1] >= JUDGED // 2 and not 1 / 6 < (ranges[0] / ranges[1]).median() < 2.5


class KeysOfOwnView(Symptom):
    """The own key of an anchor comes from the anchor's own view, so there is nothing to learn."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the anchors of the first batch with their keys, and the views of both.

        With a predictor, anchors differ from keys of their own view, and this check finds nothing.
        """
        if not seen.first or seen.few or not is_first():
            return
        pairs = seen.pairs
        for i, j in pairs.cross():
            anchors, keys = (
                functional.normalize(x.float(), dim=-1)
                for x in (pairs.anchors[i], pairs.keys[j, pairs.rows])
            )
            spread = (anchors - anchors.mean(0)).square().sum(1).mean()
            apart = (anchors - keys).square().sum(1).max()
            if spread < SAME_ROWS or apart > SAME_KEYS * spread:
                continue
            if _differ(seen.batch, pairs.anchor_views[i], pairs.key_views[j]):
                yield Finding(
                    "keys-are-of-the-own-view",
                    seen.step,
                    f"keys are of the own view: in {type(seen.method).__name__} each anchor of view"
                    f" {pairs.anchor_views[i]} equals its key of view {pairs.key_views[j]}, although these"
                    " views differ, so there is nothing to learn; take keys of other views in embed and"
                    " pairs (method)",
                )
                return


def _differ(batch: Batch, i: int, j: int) -> bool:
    """Whether two views of a batch are different images; False if the batch lacks one of them."""
    views = batch.views
    if batch.index.ndim == 2 or max(i, j) >= len(views) or views[i].shape != views[j].shape:
        return batch.index.ndim == 2 or max(i, j) < len(views)
    first, second = views[i].float(), views[j].float()
    return bool((first - second).square().mean() > OTHER_VIEWS * first.var())


class UnreadCondition(Symptom):
    """The loss does not depend on the values of a condition that the objective declares.

    The loss is compared at the first step, and once more before the finding, when a queue is full.
    A weight that rises during training has time until half of the run.
    """

    follows = True

    def __init__(self) -> None:
        self.unread: list[str] = []
        """The conditions without effect at the last check."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the loss with the losses of other values, on the same embeddings."""
        names = [*seen.objective.conditions] if seen.first else self.unread
        self.unread = [name for name in names if _changes_nothing(seen, name)]
        if seen.first or (_may_rise(seen.objective) and not seen.late):
            return
        for name in self.unread:
            yield Finding(
                "a-condition-changes-nothing",
                seen.step,
                f"condition {name!r} changes nothing: the loss of {type(seen.objective).__name__} is the"
                " same when the samples of a batch exchange their values; read it in terms, or take it out"
                " of the objective's conditions",
                about=name,
                explains=False,
            )
        self.unread = []


def _changes_nothing(seen: Observation, name: str) -> bool:
    """Whether the loss stays equal if samples exchange their values, and if all share one value."""
    pairs, objective = seen.pairs, seen.objective
    values = pairs.samples.condition.get(name)
    if values is None or pairs.positive is not None:  # masks of a user stand for the condition
        return False
    of_samples = values.ndim - 2 if values.ndim == 3 else 0
    one = values.narrow(of_samples, 0, 1).expand_as(values)
    losses = []
    try:
        for each in (values, values.roll(1, of_samples), one):
            samples = replace(pairs.samples, condition={**pairs.samples.condition, name: each})
            with undisturbed(), torch.no_grad():
                losses.append(objective.loss(replace(pairs, samples=samples)))
        equal = all(torch.equal(loss, losses[0]) for loss in losses) and not torch.equal(
            values, one
        )
    except Exception:  # it may refuse values that no data have
        equal = False
    return ranks.all_of(equal)


def _may_rise(objective: Any) -> bool:
    """Whether the loss of the same pairs may change later in the run."""
    own = getattr(type(objective), "progress", ContrastiveObjective.progress)
    scheduled = any(isinstance(each, Scheduled) for each in objective.modules())
    return scheduled or own is not ContrastiveObjective.progress


FIRST_STEPS: tuple[type[Symptom], ...] = (EqualViews, OtherScale, KeysOfOwnView, UnreadCondition)
"""The symptoms of the first steps, in the order of the checks."""
