"""Symptoms of problems in runs: the class, its view of a run, and the symptoms that every run checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.objectives.scalars import Scheduled
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import trait
from ccl_plugins.training.findings import Finding
from ccl_plugins.training.kernel_check import what_is_off
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables
from ccl_plugins.watching.batches import SAME_ROWS, Embeddings, kernel_matrices
from ccl_plugins.watching.chance import Scale

SHORT = 20
"""The number of optimizer steps before the first judgment."""

FEW = 4
"""The least number of samples of a batch for a judgment: few samples always lie on a line or at a point."""

UNMOVED, THROWN, FAR_THROWN = 1e-3, 2.0, 10.0
"""Changes of the weights, relative to their norm, by a rate that is too low or too high."""

TEMPERATURES = (0.01, 3.0)
"""The usual range of temperatures: beyond it, only the nearest key counts, or all keys count equally."""

MOSTLY = 0.95
"""The share of samples with a unique class id above which a condition makes no pairs."""

NARROW = 1e-2
"""A smaller variance of embeddings on the unit sphere is a collapse, if it was larger before."""

LEAST_RANK = 1.5
"""An effective rank of embeddings below this is that of a line."""


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """The facts about a run without a batch.

    Args:
        step: Optimizer steps taken; 0 before training.
        total: The optimizer steps of the whole run.
        settings: The settings of training.
        rate: The learning rate that was chosen, before schedules.
        objective: The objective.
        read: The conditions that the objective or the sampler reads.
        tables: The tables of the conditions.
        fresh: The conditions whose tables were fitted since the last check.
        temperatures: The setting and the value of each temperature; for a scheduled one, both ends.
    """

    step: int
    total: int
    settings: FitSettings
    rate: float
    objective: Any
    read: frozenset[str]
    tables: Tables
    fresh: tuple[str, ...]
    temperatures: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Start:
    """The state at the first step of a run, kept over resumes.

    Args:
        embeddings: Numbers of its batch's embeddings.
        loss: The loss of its batch.
        scale: The ends of the loss on its pairs; None if they are undefined.
    """

    embeddings: Embeddings
    loss: float
    scale: Scale | None


@dataclass(frozen=True, kw_only=True)
class Observation(Beginning):
    """The state of a run when it logs its losses: at the first step, and after every interval.

    Args:
        method: The method.
        transform: The transform of the views.
        split: The training split.
        first: Whether this is the first step of the run.
        halfway: Whether half of the time before ``late`` has passed.
        late: Whether half of the run and the warm-up have passed, so that a run should have learned.
        due: Whether this is the first check that is late, or the end of the run.
        batch: The last batch, the method's input; None after the last step of a run.
        pairs: The pairs of the last batch, without gradient.
        loss: The mean loss of the interval.
        recent: The mean of this loss and of the one before.
        deviation: The standard deviation of the losses of the interval.
        embeddings: Numbers of the last batch's embeddings.
        start: The state at the first step.
        momentum: The momentum of the key encoder; None: there is none.
        moved: The change of the weights since the first step, relative to their norm.
        scale: The ends of the loss on these pairs. All processes must read this at the same time.
    """

    method: Any
    transform: Any
    split: Any
    first: bool
    halfway: bool
    late: bool
    due: bool
    batch: Any
    pairs: Pairs
    loss: float
    recent: float
    deviation: float
    embeddings: Embeddings
    start: Start
    momentum: float | None
    moved: Callable[[], float]
    scale: Callable[[], Scale | None]

    @property
    def few(self) -> bool:
        """Whether the batch has too few samples on this process to judge its embeddings."""
        return self.pairs.anchors.shape[1] < FEW


class Symptom:
    """A possible problem of a run: the check, and the line that reports it.

    Its state is kept in attributes of plain data, which are in the checkpoint.

    Example:
        ```python
        class LossIsZero(Symptom):
            def look(self, seen):
                if seen.recent == 0:
                    yield Finding("the-loss-is-zero", seen.step, "the loss is 0: give the objective work")
        ```
    """

    follows: bool = False
    """Whether other problems cause the symptom: it is not reported if another one was found."""

    def begin(self, seen: Beginning) -> Iterable[Finding]:
        """The findings before the first step of a run, or of a resumed one."""
        return ()

    def look(self, seen: Observation) -> Iterable[Finding]:
        """The findings at this step; a finding with the same name and subject is reported once."""
        return ()

    def state_dict(self) -> dict[str, Any]:
        """The symptom's state, as plain data."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        vars(self).update(state)


class WrongTemperature(Symptom):
    """A temperature, an end of its schedule, or its learned value is too high or too low."""

    def begin(self, seen: Beginning) -> Iterator[Finding]:
        """Compare each temperature with the usual range."""
        for setting, value in seen.temperatures:
            high = value > TEMPERATURES[1]
            if not high and not value < TEMPERATURES[0]:
                continue
            name = "high" if high else "low"
            yield Finding(
                f"the-temperature-is-too-{name}",
                seen.step,
                f"the temperature is too {name}: at {value:.3g}"
                f" {'all keys count nearly the same' if high else 'only the nearest key counts'};"
                f" {'lower' if high else 'raise'} {setting}, to 0.05 to 1",
                about=setting,
            )

    look = begin


class UnfitCondition(Symptom):
    """A condition that is read has the same value in all samples, or a unique class id for each."""

    def begin(self, seen: Beginning) -> Iterator[Finding]:
        """Check the tables that are fitted once."""
        yield from self._found(seen, late=False)

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Check the tables that were fitted again."""
        yield from self._found(seen, seen.late)

    def _found(self, seen: Beginning, late: bool) -> Iterator[Finding]:
        for name in (each for each in seen.fresh if each in seen.read):
            values, variable = seen.tables.with_values(name).values, seen.tables.variables[name]
            size = len(values)
            setting = "condition" if name == "condition" else f"conditions.{name}"
            if size < 2:
                continue
            if is_constant(values):
                yield Finding(
                    "a-condition-is-constant",
                    seen.step,
                    f"condition {name!r} is constant: all {size} samples have one value, so it does not"
                    f" tell them apart; choose another {setting}",
                    about=name,
                )
            # Clusters may wait for the network: until they are formed, every sample is one by itself.
            if seen.tables.conditions[name].refresh == "epoch" and not late:
                continue
            compared = name in seen.objective.conditions and seen.objective.min_views > 1
            if variable.value_type != "categorical" or values.ndim != 1 or not compared:
                continue
            alone = int((torch.unique(values, return_counts=True)[1] == 1).sum())
            if alone > MOSTLY * size:
                yield Finding(
                    "a-condition-is-unique-per-sample",
                    seen.step,
                    f"condition {name!r} is unique per sample: {alone} of {size} samples share their value"
                    f" with no other, so it makes no pairs; choose a coarser {setting}",
                    about=name,
                )


def is_constant(values: Tensor) -> bool:
    """Whether all rows of values (N, ...) are equal; some rows are compared first."""
    some = values[:: max(1, len(values) // 4096)]
    return bool((some == some[0]).all()) and bool((values == values[0]).all())


class OldKeys(Symptom):
    """The queue is stale, the momentum encoder does not follow, or keys no longer match."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the length of the queue and the momentum with the run, and old keys with new ones."""
        queue, step, total, momentum = seen.pairs.queue, seen.step, seen.total, seen.momentum
        size = 0 if queue is None else queue.keys.shape[-2]
        span = size / (seen.settings.batch_size * seen.settings.accumulate)
        if total >= SHORT and span > total / 2:
            yield Finding(
                "the-queue-is-stale",
                step,
                f"the queue is stale: it holds the keys of {span:.0f} steps, and the run has {total}, so"
                " most keys are of an encoder that has learned little; lower method.queue_size"
                f" (now {size})",
                explains=False,
            )
        if momentum is not None:
            yield from _of_momentum(momentum, span, step, total)
        if step >= SHORT and not seen.few and seen.embeddings.apart > (1.0 if seen.late else 5.0):
            yield Finding(
                "the-keys-no-longer-match",
                step,
                "the keys no longer match: keys in the queue are"
                f" {seen.embeddings.apart**0.5:.1f} times as far from the present keys as these are from"
                " each other; raise method.momentum, to 0.99, or lower method.queue_size",
            )


def _of_momentum(momentum: float, span: float, step: int, total: int) -> Iterator[Finding]:
    if momentum < 0.5 and span >= 4:
        yield Finding(
            "the-keys-no-longer-match",
            step,
            f"the keys no longer match: with a momentum of {momentum:g} the key encoder changes in every"
            f" step, and the queue holds keys of {span:.0f} steps; raise method.momentum, to 0.99",
        )
    followed = (1 - momentum) * total
    if total >= SHORT and followed < (0.1 if total >= 100 else 0.05):
        yield Finding(
            "the-keys-do-not-follow",
            step,
            f"the keys do not follow: with a momentum of {momentum:g} the key encoder takes"
            f" {1 / (1 - momentum):.0f} steps to follow, and the run has {total}; lower method.momentum",
            explains=False,
        )


class BlindKernel(Symptom):
    """A kernel gives almost no weight to others, or equal weight to all; tables are checked by training."""

    @torch.no_grad()
    def look(self, seen: Observation) -> Iterator[Finding]:
        """Check the first batch, and one when the run should have learned."""
        if not seen.first and not seen.due:
            return
        for reading, values, matrix in kernel_matrices(seen.objective, seen.pairs):
            if not {*seen.tables}.issuperset(reading.names):
                yield from what_is_off(seen.step, reading, values, matrix)


class BatchesOfOneClass(Symptom):
    """All checked batches have one class of the condition that the objective reads."""

    def __init__(self) -> None:
        self.looks = self.alone = 0
        """The number of checked batches, and of those with one class."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Check the classes of the batch."""
        scale, pairs = seen.start.scale, seen.pairs
        if scale is None or scale.distinguishes or pairs.keys.shape[1] < FEW:
            return
        self.looks += 1
        for name in seen.objective.conditions:
            values = pairs.samples.condition.get(name)
            if values is None or values.ndim != 1 or values.is_floating_point():
                continue
            if not bool((values == values[0]).all()):
                continue
            self.alone += 1
            several = (
                name in [*seen.tables] and len(seen.tables.with_values(name).values.unique()) > 1
            )
            certain = self.alone == self.looks and (self.looks > 2 or seen.step == seen.total)
            if several and certain:
                yield Finding(
                    "batches-have-one-class",
                    seen.step,
                    f"batches have one class: all {len(values)} samples of each have one value of"
                    f" condition {name!r}, so {type(seen.objective).__name__} has nothing to tell apart;"
                    ' take another sampler, such as sampler = "uniform", or a larger fit.batch_size',
                    about=name,
                )
            return


class Collapse(Symptom):
    """The embeddings of different samples have become nearly equal."""

    follows = True

    def __init__(self) -> None:
        self.equal_before = False
        """Whether the embeddings were equal at the last check."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the variance of the embeddings with 0, and with the variance at the start."""
        if seen.few:
            return
        spread, scale = seen.embeddings.spread, seen.start.scale
        equal, before = spread < SAME_ROWS, self.equal_before
        self.equal_before = equal
        narrowed = spread < min(NARROW, 0.2 * seen.start.embeddings.spread)
        if not (equal and before and seen.step >= SHORT) and not (seen.late and narrowed):
            return
        if seen.moved() < UNMOVED and not narrowed:
            return  # equal from the start: the symptoms of the loss say why
        if scale is None:
            remedy = (
                f"lower fit.optimizer.lr (now {seen.rate:g}), or take an objective with negatives"
            )
        elif scale.distinguishes:
            remedy = f"lower fit.optimizer.lr (now {seen.rate:g})"
        else:
            remedy = (
                "nothing keeps samples apart: take an objective with negatives, or others of its"
            )
            remedy += " weights (objective)"
        yield Finding(
            "the-embeddings-collapse",
            seen.step,
            f"the embeddings collapse: those of different samples are nearly equal, with a variance of"
            f" {spread:.1g} on the unit sphere; {remedy}",
        )


class Line(Symptom):
    """Nearly all variance of the embeddings is in one direction."""

    follows = True

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Check their rank, unless the objective reads so few values that a line suffices."""
        now = seen.embeddings
        if not seen.late or seen.few or now.spread < SAME_ROWS or now.width <= 3:
            return
        if any(_is_narrow(seen.tables, name) for name in seen.objective.conditions):
            return
        thrown = now.rank < 2 * LEAST_RANK and seen.moved() > FAR_THROWN
        if not thrown and now.rank >= LEAST_RANK:
            return
        remedy = f"lower fit.optimizer.lr (now {seen.rate:g})"
        if thrown:
            remedy = f"the weights change too much: {remedy}"
        else:
            remedy = f"widen the head (method.hidden), {remedy}, or take views that leave several"
            remedy += " differences between images"
        yield Finding(
            "the-embeddings-lie-on-a-line",
            seen.step,
            f"the embeddings lie on a line: their effective rank is {now.rank:.1f} of"
            f" {now.width:.0f} dimensions; {remedy}",
        )


def _is_narrow(tables: Tables, name: str) -> bool:
    """Whether a condition has so few values that embeddings on a line can separate them."""
    if name not in [*tables]:
        return True
    values = tables[name].values
    if values.is_floating_point():
        return values.ndim == 1 or values.shape[1] < 3
    return values.ndim == 1 and len(values.unique()) <= 3


class RisingLoss(Symptom):
    """The loss rose far above its start, or lost most of its gain.

    A loss may also change because a queue fills, clusters are formed again or a temperature is scheduled.
    The loss is therefore compared with the chance level of the present batch.
    """

    follows = True

    def __init__(self) -> None:
        self.best = math.inf
        """The lowest loss so far."""
        self.borne = math.inf
        """The scale is computed again when the loss exceeds this bound, which is infinite at first."""
        self.regained = self.chance = -math.inf
        """The bound for a loss that had fallen, and the chance level at the time of the lowest loss."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the loss with its start and its best."""
        if trait(seen.objective, "adversarial"):
            return  # in an adversarial game, a rise may be right
        if seen.fresh:  # another condition has another loss
            self.best = math.inf
        best = min(self.best, seen.start.loss) if seen.start.scale else self.best
        if self._rises(seen):
            yield from rise(seen.step, seen.recent, best, seen.deviation, seen.rate)
        self.best = min(self.best, seen.loss)

    def _rises(self, seen: Observation) -> bool:
        loss, start, scale = seen.recent, seen.start.loss, seen.start.scale
        if scale is None:
            return loss > start + 2 * max(abs(start), 0.5) and seen.step >= SHORT
        if self.chance == -math.inf:
            self.chance = scale.chance
        best, room = self.best, max(scale.room, 0.0)
        fallen = start - best  # far below 0 while there is no best
        borne = self.borne if self.borne < math.inf else start + 0.1 * room
        lost = fallen > 0.3 * room > 0 and loss > max(best + 0.7 * fallen, self.regained)
        rising = seen.step >= SHORT and (loss > borne or lost)
        if not seen.due and not rising:
            return False
        now = seen.scale()
        if now is None or not now.distinguishes:
            return False
        before = scale.progress(start) if scale.distinguishes else 0.0
        scheduled = any(isinstance(each, Scheduled) for each in seen.objective.modules())
        if abs(now.chance - self.chance) > 0.05 * now.room:
            self.chance, self.best = now.chance, loss  # a queue fills, or the objective changes
        if not rising:
            return False
        reached = 0.0 if scheduled else now.progress(min(self.best, loss))
        self.borne = max(loss, borne) + 0.05 * now.room
        self.regained = loss + 0.05 * now.room
        progress = now.progress(loss)
        fell = progress < before - (0.5 if scheduled else 0.15)
        return fell or (reached > 0.3 and progress < 0.25 * reached)


def rise(step: int, loss: float, best: float, deviation: float, rate: float) -> Iterator[Finding]:
    """The line of a loss that rose from its best, unless losses of single batches differ as much."""
    if loss - best > 2 * deviation:
        yield Finding(
            "the-loss-rises",
            step,
            f"the loss rises: it is {loss:.3g}, and was {best:.3g}; lower fit.optimizer.lr (now"
            f" {rate:g}), or set fit.warmup_epochs or fit.clip = 1.0",
        )


class UnmovedLoss(Symptom):
    """The loss is near that of guessing, or near its start, when the run should have learned."""

    follows = True

    def __init__(self) -> None:
        self.halfway = math.inf
        """The loss at half of the time that is waited."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the loss with its start, with half of the time before, and with guessing."""
        if trait(seen.objective, "adversarial"):
            return  # in an adversarial game, a constant loss may be right
        loss = seen.recent
        if self.halfway == math.inf and seen.halfway:
            self.halfway = loss
        if not seen.due:
            return
        if seen.start.scale is None:
            if seen.step >= SHORT and loss > 0.9 * seen.start.loss and seen.moved() < UNMOVED:
                yield Finding(
                    "the-loss-stays-at-chance",
                    seen.step,
                    f"the loss does not fall: it is {loss:.3g}, and began at {seen.start.loss:.3g};"
                    f" the weights hardly move: raise fit.optimizer.lr (now {seen.rate:g})",
                )
            return
        scale = seen.scale()
        if scale is None or not scale.distinguishes or seen.step < SHORT:
            return
        remedy = self._remedy(seen, seen.start.scale, scale)
        self.halfway = loss
        if remedy:
            at_chance = scale.progress(loss) < 0.1
            yield Finding(
                "the-loss-stays-at-chance",
                seen.step,
                f"the loss {'stays at chance' if at_chance else 'does not fall'}: it is {loss:.3g},"
                f" began at {seen.start.loss:.3g}, and guessing gives {scale.chance:.3g}; {remedy}",
            )

    def _remedy(self, seen: Observation, first: Scale, scale: Scale) -> str:
        """What to change; nothing if the loss falls, or the embeddings of views come nearer."""
        progress, moved = scale.progress(seen.recent), seen.moved()
        gained = progress - (first.progress(seen.start.loss) if first.distinguishes else 0.0)
        # Weights that stay where they are gain nothing but the noise of the first batch.
        least = 0.1 if moved < UNMOVED else 0.02
        lately = progress - scale.progress(self.halfway)
        stays = (progress < 0.5 and gained < least) or (progress < 0.05 and lately < 0.05)
        now, start = seen.embeddings.nearer, seen.start.embeddings.nearer
        nearer = now > 0.1 and abs(now - start) > 0.1
        if not stays or (nearer and UNMOVED < moved < THROWN):
            return ""
        rate = f"fit.optimizer.lr (now {seen.rate:g})"
        if moved < UNMOVED:
            return f"the weights hardly move: raise {rate}"
        if not seen.late:
            return ""
        if moved > THROWN:
            return f"the weights change too much: lower {rate}"
        if now < 0.1:
            return (
                "two views of an image are as far apart as two images: take weaker views (transform), or"
                f" change {rate}"
            )
        return f"change {rate}, or lower objective.temperature"


SYMPTOMS: tuple[type[Symptom], ...] = (
    WrongTemperature,
    UnfitCondition,
    OldKeys,
    BlindKernel,
    BatchesOfOneClass,
    Collapse,
    Line,
    RisingLoss,
    UnmovedLoss,
)
"""Those that every run looks for, in the order in which they are looked for: causes before what follows.

What is compared in the first steps is in `FIRST_STEPS`.
"""
