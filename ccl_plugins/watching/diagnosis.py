"""Why a run does not learn: one line for each thing that is off, and none for a healthy run.

Most is read where the `LossLog` logs an interval, from the pairs of its last batch: the processor waits for
the device there in any case.  The ends of the loss's scale take two or three more losses without gradient,
at the first step, once or twice later, and where the loss has risen.
"""

from __future__ import annotations

import json
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor
from torch.nn import functional

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.methods.feature_queue import FeatureQueue
from ccl_plugins.numerics.condition_values import missing_samples
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.objectives.scalars import Scheduled
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.training import ranks
from ccl_plugins.training.findings import Finding, Findings
from ccl_plugins.training.kernel_check import (
    describe_kernel,
    kernels_read,
    say_what_vanishes,
    take,
    together,
    values_read,
)
from ccl_plugins.training.loss_log import LossLog
from ccl_plugins.watching.chance import Scale, detached, scale_of

TEMPERATURES = (0.01, 3.0)
"""Beyond these, only the nearest key counts, or all count the same."""
SHORT, LEAST, MOST = 20, 40, 2000
"""Optimizer steps before which nothing is judged, and between which half of a run is waited for."""
UNMOVED, THROWN, FAR_THROWN = 1e-3, 2.0, 10.0
"""Changes of the weights, in parts of their norm, by a rate that is too low or too high."""
SAME_ROWS, NARROW = 1e-5, 1e-2
"""Variances of embeddings on the unit sphere that are equal, and nearly so."""
LEAST_RANK = 1.5
"""An effective rank of embeddings below this is that of a line."""
KEYS = {"the-queue-is-stale", "the-keys-do-not-follow"}
"""Findings of keys, which need not be why the loss is as it is."""


class Diagnosis(Callback):
    """Says why a run does not learn, once for each reason, and keeps the lines in a file.

    Args:
        file: The file of the findings, a list of ``{"name", "step", "line", "about"}``.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._findings = Findings()
        self._monitor: LossLog | None = None
        self._seen: Mapping[str, float] = {}
        self._pairs: Pairs | None = None
        self._weights: list[tuple[Tensor, Tensor]] = []
        self._epochs: dict[str, int] = {}
        self._recent: deque[float] = deque(maxlen=2)
        self._equal_before = False
        self._looks = self._alone = 0
        """How many batches were looked at, and how many of these had one class."""
        self._scale: Scale | None = None
        self._start: dict[str, float] = {}
        """What was measured at the first step."""
        self._halfway = float("inf")
        """The loss at half of the time that is waited."""
        self._best = self._borne = float("inf")
        """The lowest loss, and one up to which it may rise before the scale is computed again."""
        self._regained = self._chance = float("-inf")
        """One up to which a loss that had fallen may rise again, and the chance when the best was known."""

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        """Read what was found before a resume, and listen to what the training itself finds."""
        found = _read(self.file)
        self._findings = pl_module.findings
        self._findings.found[:0] = found
        self._findings.known |= {(each.name, each.about) for each in found}
        self._findings.listener = self._write

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Check what is known before the first step."""
        callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
        self._monitor = next(each for each in callbacks if isinstance(each, LossLog))
        self._seen = self._monitor.latest
        self._weights = _sample(pl_module.method)
        step, total = trainer.global_step, pl_module.total_steps
        if ranks.rank() == 0:
            self._write()
        for setting, value in _temperatures(pl_module.objective):
            self._check_temperature(step, setting, value)
        self._check_tables(step, pl_module)
        check_keys(self._findings, step, total, pl_module.method, pl_module.settings)

    def on_after_backward(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Keep the pairs of a batch after which an interval is logged."""
        step = trainer.global_step + 1
        last = step == pl_module.total_steps
        if not self._start or step % pl_module.settings.log_every == 0 or last:
            self._pairs = detached(pl_module.pairs)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Look at the first batch, and at the last one of each interval that was logged."""
        assert self._monitor is not None
        if self._monitor.latest is not self._seen:
            self._seen = self._monitor.latest
            self._look(trainer, pl_module, self._seen["loss"])
        elif not self._start and self._pairs is not None and trainer.global_step:
            self._look(trainer, pl_module, float(trainer.callback_metrics["loss"]))

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Look at what an unfinished interval at the end of the run logged."""
        assert self._monitor is not None
        if self._monitor.latest is not self._seen:
            self._look(trainer, pl_module, self._monitor.latest["loss"])
        self._pairs = None
        self._weights = []

    def state_dict(self) -> dict[str, Any]:
        """What later losses and embeddings are compared with."""
        scale = [] if self._scale is None else [self._scale.chance, self._scale.reached]
        return {
            "start": dict(self._start),
            "recent": list(self._recent),
            "scale": scale,
            "looks": [self._looks, self._alone],
            "halfway": self._halfway,
            "best": self._best,
            "borne": self._borne,
            "regained": self._regained,
            "chance": self._chance,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue."""
        self._start = dict(state_dict["start"])
        self._recent.extend(state_dict["recent"])
        self._scale = Scale(*state_dict["scale"]) if state_dict["scale"] else None
        self._looks, self._alone = state_dict["looks"]
        self._halfway = state_dict["halfway"]
        self._best, self._borne = state_dict["best"], state_dict["borne"]
        self._regained, self._chance = state_dict["regained"], state_dict["chance"]

    def _look(self, trainer: pl.Trainer, module: Any, loss: float) -> None:
        """Look at the last pairs, given the mean loss of the interval."""
        pairs, self._pairs = self._pairs, None
        if pairs is None:  # the first interval of a resumed run may have begun before
            return
        step, total = trainer.global_step, module.total_steps
        self._check_tables(step, module)
        now = self._measure(step, module, pairs)
        self._recent.append(loss)
        first = not self._start
        if first:
            self._scale = _scale(module.objective, pairs)
            self._start = {**now, "loss": loss}
            self._chance = self._scale.chance if self._scale else self._chance
        if first or self._is_due(step, module):
            self._check_batch_kernels(step, module, pairs)
        self._check_classes(step, step == total, module, pairs)
        late = step >= patience(total, module)
        if step >= SHORT and now.get("apart", 0.0) > (1.0 if late else 5.0):
            self._findings.say(
                "the-keys-no-longer-match",
                step,
                "the keys no longer match: those in the queue lie"
                f" {now['apart'] ** 0.5:.1f} times as far from those of now as these from each other; raise"
                " method.momentum, to 0.99, or lower method.queue_size",
            )
        if not self._check_collapse(step, total, module, now):
            self._check_loss(step, total, module, pairs, now)
        self._best = min(self._best, loss)

    def _is_due(self, step: int, module: Any) -> bool:
        """Whether it is the time that is waited for, or the end."""
        total = module.total_steps
        before = step - module.settings.log_every
        return step == total or before < patience(total, module) <= step

    def _measure(self, step: int, module: Any, pairs: Pairs) -> dict[str, float]:
        """Numbers of the embeddings, and the learned temperatures, copied from the device at once."""
        changing = [
            (setting, value)
            for setting, value in _temperatures(module.objective)
            if isinstance(value, Tensor)
        ]
        found = describe(pairs, module.objective.embedding == "raw")
        tensors = [*found.values(), *(value.detach().float() for _, value in changing)]
        numbers = torch.stack([x.to(tensors[0]) for x in tensors]).tolist()
        for (setting, _), value in zip(changing, numbers[len(found) :], strict=True):
            self._check_temperature(step, setting, value)
        return dict(zip(found, numbers, strict=False))

    def _check_temperature(self, step: int, setting: str, value: Any) -> None:
        if isinstance(value, Tensor):
            value = float(value.detach())
        if not value < TEMPERATURES[0] and not value > TEMPERATURES[1]:
            return
        high = value > TEMPERATURES[1]
        name = "high" if high else "low"
        self._findings.say(
            f"the-temperature-is-too-{name}",
            step,
            f"the temperature is too {name}: at {value:.3g}"
            f" {'all keys count nearly the same' if high else 'only the nearest key counts'};"
            f" {'lower' if high else 'raise'} {setting}, to 0.05 to 1",
            about=setting,
        )

    def _check_tables(self, step: int, module: Any) -> None:
        """Look at the tables that were fitted since the last look."""
        tables = module.tables
        fresh = [name for name in tables if tables.epochs[name] != self._epochs.get(name)]
        if fresh and self._epochs:  # another condition has another loss
            self._best = float("inf")
        self._epochs = dict(tables.epochs)
        read = {*module.objective.conditions}
        for name in fresh if ranks.rank() == 0 else ():
            if name in read or name == module.parts.sampler_on:
                self._check_table(step, module, name, name in read)

    def _check_table(self, step: int, module: Any, name: str, compared: bool) -> None:
        condition, values = module.tables.conditions[name], module.tables.known(name).values
        size, setting = len(values), _place(name)
        if size < 2:
            return
        some = values[:: max(1, size // 4096)]
        if bool((some == some[0]).all()) and bool((values == values[0]).all()):
            self._findings.say(
                "a-condition-is-constant",
                step,
                f"condition {name!r} is constant: all {size} samples have one value, so it tells them not"
                f" apart; choose another {setting}",
                about=name,
            )
        # Before its clusters are formed, every sample is one by itself.
        waits = getattr(condition, "warmup", 0) > module.tables.epochs[name]
        pairs_needed = compared and module.objective.min_views > 1
        if condition.value_type != "categorical" or values.ndim != 1 or waits or not pairs_needed:
            return
        counts = torch.unique(values, return_counts=True)[1]
        alone = int((counts == 1).sum())
        if alone > 0.95 * size:
            self._findings.say(
                "a-condition-is-unique-per-sample",
                step,
                f"condition {name!r} is unique per sample: {alone} of {size} samples share their value with"
                f" no other, so it makes no pairs; choose a coarser {setting}",
                about=name,
            )

    def _check_batch_kernels(self, step: int, module: Any, pairs: Pairs) -> None:
        """Look at kernels on conditions that have no table, on the first batch."""
        tables = set(module.tables)
        for kernel, names in kernels_read(module.objective):
            if tables.issuperset(names) or not all(name in pairs.condition for name in names):
                continue
            values = {name: pairs.condition_of(name)[:512] for name in names}
            lost = torch.stack([missing_samples(z) for z in values.values()]).any(0)
            values = take(values, (~lost).nonzero().flatten())
            if len(values[names[0]]) < 2:
                continue
            read = values_read(values, names)
            with torch.no_grad():
                surviving = float(describe_kernel(similarities(kernel, read, read))[0])
                say_what_vanishes(self._findings, step, kernel, read, together(names), surviving)

    def _check_classes(self, step: int, last: bool, module: Any, pairs: Pairs) -> None:
        """Look for batches of one class, with which an objective that reads classes compares nothing."""
        if self._scale is None or self._scale.distinguishes or pairs.keys.shape[1] < 4:
            return
        self._looks += 1
        for name in module.objective.conditions:
            values = pairs.condition.get(name)
            if values is None or values.ndim != 1 or values.is_floating_point():
                continue
            if not bool((values == values[0]).all()):
                continue
            self._alone += 1
            several = (
                name in [*module.tables] and len(module.tables.known(name).values.unique()) > 1
            )
            if several and self._alone == self._looks and (self._looks > 2 or last):
                self._findings.say(
                    "batches-have-one-class",
                    step,
                    f"batches have one class: all {len(values)} samples of each have one value of"
                    f" condition {name!r}, so {type(module.objective).__name__} has nothing to tell apart;"
                    ' take another sampler, as sampler = "uniform", or a larger fit.batch_size',
                    about=name,
                )
            return

    def _check_collapse(self, step: int, total: int, module: Any, now: Mapping[str, float]) -> bool:
        """Look if the embeddings have become equal, or lie on a line; whether they are equal."""
        late = step >= patience(total, module)
        equal, before = now["spread"] < SAME_ROWS, self._equal_before
        self._equal_before = equal
        narrowed = now["spread"] < min(NARROW, 0.2 * self._start["spread"])
        rate = module.settings.optimizer["lr"]
        if (equal and before and step >= SHORT) or (late and narrowed):
            if self._moved() < UNMOVED and not narrowed:
                return False  # it has always been so, and the loss says why it stays so
            if self._scale is None or self._scale.distinguishes:
                remedy = f"lower fit.optimizer.lr (now {rate:g})"
            else:
                remedy = "nothing keeps samples apart: take an objective with negatives, or others of its"
                remedy += " weights (objective)"
            self._say_symptom(
                "the-embeddings-collapse",
                step,
                f"the embeddings collapse: those of different samples are nearly equal, with a variance of"
                f" {now['spread']:.1g} on the unit sphere; {remedy}",
            )
            return True
        if not late or equal or now["width"] <= 3:
            return False
        if any(_is_narrow(module.tables, name) for name in module.objective.conditions):
            return False
        thrown = now["rank"] < 2 * LEAST_RANK and self._moved() > FAR_THROWN
        if thrown or now["rank"] < LEAST_RANK:
            remedy = f"the weights are thrown about: lower fit.optimizer.lr (now {rate:g})"
            if not thrown:
                remedy = f"widen the head (method.hidden), lower fit.optimizer.lr (now {rate:g}), or take"
                remedy += " views that leave more than one thing to tell images apart by"
            self._say_symptom(
                "the-embeddings-lie-on-a-line",
                step,
                f"the embeddings lie on a line: their effective rank is {now['rank']:.1f} of"
                f" {now['width']:.0f} dimensions; {remedy}",
            )
        return False

    def _check_loss(
        self, step: int, total: int, module: Any, pairs: Pairs, now: Mapping[str, float]
    ) -> None:
        """Look if the loss stays where it began, or rises; both may be right where it is a game."""
        if getattr(module.objective, "adversarial", False):
            return
        loss = sum(self._recent) / len(self._recent)
        wait = patience(total, module)
        if self._halfway == float("inf") and step >= wait // 2:
            self._halfway = loss
        due = self._is_due(step, module)
        if self._scale is None:
            start = self._start["loss"]
            if loss > start + 2 * max(abs(start), 0.5) and step >= SHORT:
                self._say_rising(step, module, loss, self._best)
            if due and step >= SHORT and loss > 0.9 * start and self._moved() < UNMOVED:
                rate = module.settings.optimizer["lr"]
                self._say_symptom(
                    "the-loss-stays-at-chance",
                    step,
                    f"the loss does not fall: it is {loss:.3g}, and began at {start:.3g}; the weights"
                    f" hardly move: raise fit.optimizer.lr (now {rate:g})",
                )
            return
        start, best, room = self._start["loss"], self._best, max(self._scale.room, 0.0)
        fallen = start - best  # far below 0 while there is no best
        borne = self._borne if self._borne < float("inf") else start + 0.1 * room
        lost = fallen > 0.3 * room > 0 and loss > max(best + 0.7 * fallen, self._regained)
        rising = step >= SHORT and (loss > borne or lost)
        if not due and not rising:
            return
        scale = _scale(module.objective, pairs)
        if scale is None or not scale.distinguishes:
            return
        before = self._scale.progress(start) if self._scale.distinguishes else 0.0
        progress = scale.progress(loss)
        scheduled = any(isinstance(each, Scheduled) for each in module.objective.modules())
        if abs(scale.chance - self._chance) > 0.05 * scale.room:
            self._chance, self._best = scale.chance, loss  # a queue fills, or the objective changes
        reached = 0.0 if scheduled else scale.progress(min(self._best, loss))
        if rising:
            self._borne = max(loss, borne) + 0.05 * scale.room
            self._regained = loss + 0.05 * scale.room
            if progress < before - (0.5 if scheduled else 0.15) or (
                reached > 0.3 and progress < 0.25 * reached
            ):
                self._say_rising(step, module, loss, min(best, start))
                return
        if due and step >= SHORT:
            begun, lately = progress - before, progress - scale.progress(self._halfway)
            self._check_chance(step, step >= wait, module, now, loss, scale, begun, lately)
            self._halfway = loss

    def _say_rising(self, step: int, module: Any, loss: float, best: float) -> None:
        if self._monitor is not None and loss - best <= 2 * self._monitor.spread:
            return  # losses of single batches differ as much
        self._say_symptom(
            "the-loss-rises",
            step,
            f"the loss rises: it is {loss:.3g}, and was {best:.3g}; lower fit.optimizer.lr (now"
            f" {module.settings.optimizer['lr']:g}), or set fit.warmup_epochs or fit.clip = 1.0",
        )

    def _check_chance(
        self,
        step: int,
        late: bool,
        module: Any,
        now: Mapping[str, float],
        loss: float,
        scale: Scale,
        gained: float,
        lately: float,
    ) -> None:
        progress, moved = scale.progress(loss), self._moved()
        rate = module.settings.optimizer["lr"]
        # Weights that stay where they are gain nothing but the noise of the first batch.
        least = 0.1 if moved < UNMOVED else 0.02
        stays = (progress < 0.5 and gained < least) or (progress < 0.05 and lately < 0.05)
        nearer = now["nearer"] > 0.1 and abs(now["nearer"] - self._start["nearer"]) > 0.1
        if not stays or (nearer and UNMOVED < moved < THROWN):
            return
        if moved < UNMOVED:
            remedy = f"the weights hardly move: raise fit.optimizer.lr (now {rate:g})"
        elif not late:
            return
        elif moved > THROWN:
            remedy = f"the weights are thrown about: lower fit.optimizer.lr (now {rate:g})"
        elif now["nearer"] < 0.1:
            remedy = "two views of an image are as far apart as two images: take weaker views"
            remedy += f" (views), or change fit.optimizer.lr (now {rate:g})"
        else:
            remedy = f"change fit.optimizer.lr (now {rate:g}), or lower objective.temperature"
        of = f", the log of {round(_exp(scale.chance))} candidates" if 0 < scale.chance < 20 else ""
        self._say_symptom(
            "the-loss-stays-at-chance",
            step,
            f"the loss {'stays at chance' if progress < 0.1 else 'does not fall'}: it is {loss:.3g},"
            f" began at {self._start['loss']:.3g}, and guessing"
            f" gives {scale.chance:.3g}{of}; {remedy}",
        )

    def _say_symptom(self, name: str, step: int, line: str) -> None:
        """Say what follows from something that is off, unless that, or another such thing, was said."""
        if not {known for known, _ in self._findings.known} - KEYS:
            self._findings.say(name, step, line)

    def _moved(self) -> float:
        """How far the weights are from where they were, in parts of their norm."""
        with torch.no_grad():
            far = [(now.flatten()[: len(was)] - was).square().sum() for now, was in self._weights]
            size = [was.square().sum() for _, was in self._weights]
            if not far:
                return 1.0
            total = torch.stack([torch.stack(far).sum(), torch.stack(size).sum()]).tolist()
        return float((total[0] / max(total[1], 1e-30)) ** 0.5)

    def _write(self, _: Finding | None = None) -> None:
        rows = [vars(each) for each in self._findings.found]
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(self.file) as temporary:
                temporary.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
        except OSError as error:  # the run is worth more than what is said of it
            warnings.warn(f"{self.file} cannot be written: {error}", stacklevel=2)


def patience(total: int, module: Any) -> int:
    """The step from which a loss that has not moved is off: after half of the run, and the warm-up."""
    warmup = int(module.settings.warmup_epochs * total / max(module.settings.epochs, 1))
    return max(LEAST, min(total // 2, MOST), warmup + LEAST)


def describe(pairs: Pairs, raw: bool) -> dict[str, Tensor]:
    """Numbers of the embeddings of one view, 0-d each, on their device.

    Args:
        pairs: The pairs of a batch.
        raw: Whether the objective takes embeddings as they are; then features are looked at, if there are.

    Returns:
        ``spread``: variance of the rows on the unit sphere, 0 to 1; ``rank``: the effective rank of their
        covariance, ``(Σλ)² / Σλ²``; ``width``: their dimensions; ``nearer``: how much nearer a sample's
        views are to each other than to other samples, 1 less the ratio of their mean squared distances;
        ``apart``, with a queue: the squared distance of its mean key from that of the batch, in parts of
        the variance of the batch's keys.
    """
    given = pairs.anchors if not raw or pairs.features is None else pairs.features
    rows = functional.normalize(given[0].float(), dim=-1)
    centered = rows - rows.mean(0)
    spread = centered.square().sum(1).mean()
    # The covariance and the Gram matrix have the same eigenvalues above 0: take the smaller.
    gram = centered.T @ centered if rows.shape[1] < len(rows) else centered @ centered.T
    rank = gram.diagonal().sum().square() / gram.square().sum().clamp_min(1e-30)
    keys = pairs.keys[-1, pairs.rows] if not raw else given[-1]
    apart = (rows - functional.normalize(keys.float(), dim=-1)).square().sum(1).mean()
    nearer = 1 - apart / (2 * spread).clamp_min(1e-30)
    found = {"spread": spread, "rank": rank, "nearer": nearer}
    found["width"] = spread.new_tensor(float(rows.shape[1]))
    if pairs.queue is not None and pairs.queue_valid is not None:
        valid = pairs.queue_valid.float()
        queued = (valid @ pairs.queue_of(0).float()) / valid.sum().clamp_min(1)
        now = pairs.keys[-1].float()
        around = (now - now.mean(0)).square().sum(1).mean().clamp_min(1e-30)
        apart = (now.mean(0) - queued).square().sum() / around
        found["apart"] = apart * (valid.sum() > 0)
    return found


def check_keys(findings: Findings, step: int, total: int, method: Any, settings: Any) -> None:
    """Look if the keys of a momentum encoder, and those in a queue, can match the encoder.

    Args:
        findings: Those of the run.
        step: Optimizer steps taken.
        total: Optimizer steps of the run.
        method: The method.
        settings: The settings of training.
    """
    queue = next((each for each in method.modules() if isinstance(each, FeatureQueue)), None)
    span = 0.0 if queue is None else len(queue) / (settings.batch_size * settings.accumulate)
    if total >= SHORT and span > total / 2:
        findings.say(
            "the-queue-is-stale",
            step,
            f"the queue is stale: it holds the keys of {span:.0f} steps, and the run has {total}, so most"
            " keys are of an encoder that has learned little; lower method.queue_size"
            f" (now {len(queue or ())})",
        )
    momentum = getattr(method, "momentum", None)
    if not isinstance(momentum, float):
        return
    if momentum < 0.5 and span >= 4:
        findings.say(
            "the-keys-no-longer-match",
            step,
            f"the keys no longer match: with a momentum of {momentum:g} the key encoder changes in every"
            f" step, and the queue holds keys of {span:.0f} steps; raise method.momentum, to 0.99",
        )
    followed = (1 - momentum) * total
    if total >= SHORT and followed < (0.1 if total >= 100 else 0.05):
        findings.say(
            "the-keys-do-not-follow",
            step,
            f"the keys do not follow: with a momentum of {momentum:g} the key encoder takes"
            f" {1 / (1 - momentum):.0f} steps to follow, and the run has {total}; lower method.momentum",
        )


def _scale(objective: Any, pairs: Pairs) -> Scale | None:
    try:
        found = scale_of(objective, pairs)
    except Exception:  # a stranger's objective may refuse embeddings that no network gives
        return None
    finite = found is not None and abs(found.chance) < 1e6 and abs(found.reached) < 1e6
    return found if finite else None


def _temperatures(objective: Any) -> Iterator[tuple[str, Any]]:
    """The setting and the value of each temperature, both ends of a schedule; a learned one is a tensor."""
    for each in objective.modules():
        place = getattr(each, "place", "")
        within = f"objectives.{place.replace('/', '.objectives.')}." if place else ""
        setting = f"objective.{within}temperature"
        held = getattr(each, "_temperature", None)
        if isinstance(held, Scheduled):
            yield setting, max(held.start, held.end)
            yield setting, min(held.start, held.end)
            continue
        value = getattr(each, "temperature", None)
        if isinstance(value, float | int) or (isinstance(value, Tensor) and value.ndim == 0):
            yield setting, value


def _place(name: str) -> str:
    """The setting of a condition."""
    return "condition" if name == "condition" else f"conditions.{name}"


def _is_narrow(tables: Any, name: str) -> bool:
    """Whether a condition has so few values that embeddings on a line may tell them apart."""
    if name not in [*tables]:
        return True
    values = tables[name].values
    if values.is_floating_point():
        return values.ndim == 1 or values.shape[1] < 3
    return values.ndim == 1 and len(values.unique()) <= 3


def _sample(method: Any) -> list[tuple[Tensor, Tensor]]:
    """Some of the trained weights, and copies of their first values."""
    trained = [p for p in method.parameters() if p.requires_grad and p.ndim > 1]
    chosen = trained[:: max(1, len(trained) // 32)]
    return [(p, p.detach().flatten()[:1024].clone()) for p in chosen]


def _exp(x: float) -> float:
    return float(torch.tensor(x, dtype=torch.float64).exp())


def _read(file: Path) -> list[Finding]:
    """The findings in a file; none if there is no such file."""
    if not file.is_file():
        return []
    try:
        return [Finding(**each) for each in json.loads(file.read_text(encoding="utf-8"))]
    except (ValueError, TypeError):  # damaged: the lines are said again
        return []
