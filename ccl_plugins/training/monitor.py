"""Values logged while training, and the check that losses are finite."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Collection, Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping
from torch import Tensor, nn

from ccl_plugins.methods.feature_queue import holds_conditions
from ccl_plugins.objectives.base import own_terms
from ccl_plugins.protocols import trait
from ccl_plugins.training import ranks
from ccl_plugins.training.findings import Findings
from ccl_plugins.training.loader import Batch

PROBE = "monitor/label/linear"
"""The published value that the progress bar shows beside the loss."""

COSTS = "costs/monitors"
"""The published share of the time that was spent on monitors."""


class NotFinite(ArithmeticError):
    """Training reached a number that is NaN or infinite."""


class NonFiniteLoss(NotFinite):
    """The loss became NaN or infinite."""


class NonFiniteWeights(NotFinite):
    """The weights became NaN or infinite."""


class Monitor(Callback):
    """Logs loss, learning rate, speed and the objective's scalars; stops a run with a non-finite loss.

    Losses stay on the device until they are logged, an epoch ends or a checkpoint is written, so that the
    processor waits for the device once per interval of ``log_every`` optimizer steps.  What is logged is
    in ``trainer.callback_metrics`` too, for other callbacks; at the end of an epoch ``loss`` is its mean.
    """

    def __init__(self, log_every: int, batch_size: int) -> None:
        self.log_every = log_every
        self.batch_size = batch_size
        self.begun = False
        """Whether training has reached its first step."""
        self.latest: dict[str, float] = {}
        """The values logged last."""
        self.spread = 0.0
        """The standard deviation of the losses of the interval that was logged last."""
        self._unchecked: list[tuple[int, Tensor, Tensor]] = []
        """Optimizer step, samples and loss of the batches since the last check."""
        self._finite: list[float] = []
        """Losses of this interval that are known to be finite."""
        self._epoch = [0.0, 0.0]
        """The sum and the number of this epoch's losses."""
        self.paused = False
        """Whether the run was stopped on request, and will be resumed."""
        self._step = 0
        self._since = 0.0
        self._timed = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Start the clock."""
        self.begun = True
        self._step = trainer.global_step
        self._since = time.perf_counter()
        publish(trainer, pl_module.described)  # Lightning has deleted what was published before
        for each in trainer.callbacks:  # type: ignore[attr-defined]
            # A run that it ended stays ended when it is resumed.
            if isinstance(each, EarlyStopping) and each.stopped_epoch:
                trainer.should_stop = True

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Keep the loss, and log at the end of an interval."""
        self._unchecked.append((self._step + 1, batch.index, outputs["loss"].detach()))
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            if self._step % self.log_every == 0:
                self.flush(trainer, pl_module)
            elif "loss" not in trainer.callback_metrics:
                self.check(trainer)
                publish(trainer, {"loss": sum(self._finite) / len(self._finite)})

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Publish the mean loss of the epoch."""
        self.check(trainer)
        total, count = self._epoch
        if count and trainer.is_last_batch:
            publish(trainer, {"loss": total / count})
            self._epoch = [0.0, 0.0]

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Log the unfinished interval at the end of the run; a stopped run logs it once it is resumed."""
        self.check(trainer)
        if not self.paused or trainer.global_step >= pl_module.total_steps:
            self.flush(trainer, pl_module)

    def check(self, trainer: pl.Trainer) -> None:
        """Check that all losses until now are finite.

        Raises:
            NonFiniteLoss: With the first step at which one was not, and its samples.
        """
        if not self._unchecked:
            return
        losses = torch.stack([loss for _, _, loss in self._unchecked]).float()
        means = trainer.strategy.reduce(losses, reduce_op="mean").tolist()
        finite = losses.isfinite().tolist()
        for (step, index, _), here, mean in zip(self._unchecked, finite, means, strict=True):
            if not here or not math.isfinite(mean):
                raise NonFiniteLoss(_message(step, index, here))
        self._unchecked = []
        if 0.0 in means:
            module: Any = trainer.lightning_module
            module.may_count_nothing = True
        self._finite += means
        self._epoch = [self._epoch[0] + sum(means), self._epoch[1] + len(means)]
        self._timed += len(means)

    def flush(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Log the interval.

        Raises:
            NonFiniteLoss: See `check`.
        """
        self.check(trainer)
        if not self._finite:
            return
        now = time.perf_counter()
        self.latest = {
            "loss": sum(self._finite) / len(self._finite),
            "lr": float(pl_module.used_lr),
            "images_per_second": self._timed * self.batch_size / max(now - self._since, 1e-9),
            **_scalars(pl_module.objective),
        }
        self.spread = statistics.pstdev(self._finite)
        self._finite, self._timed, self._since = [], 0, now
        publish(trainer, self.latest, self._step)

    def state_dict(self) -> dict[str, Any]:
        """The losses of an unfinished interval, which a resumed run completes and logs."""
        return {"finite": list(self._finite), "epoch": list(self._epoch)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue an interval."""
        self._finite, self._epoch = list(state_dict["finite"]), list(state_dict["epoch"])


def publish(trainer: pl.Trainer, values: Mapping[str, float], step: int | None = None) -> None:
    """Give values to other callbacks and, with a step, to the loggers."""
    trainer.callback_metrics.update({name: torch.tensor(value) for name, value in values.items()})
    if step is not None:
        for each in trainer.loggers:
            each.log_metrics(dict(values), step=step)


def _scalars(objective: Any) -> dict[str, float]:
    """The objective's scheduled and learned numbers, copied from the device at once."""
    found = trait(objective, "scalars")()
    if not found:
        return {}
    values = torch.stack([value.float() for value in found.values()]).tolist()
    return {f"objective/{name}": value for name, value in zip(found, values, strict=True)}


def _message(step: int, index: Tensor, finite_here: bool) -> str:
    if finite_here:
        return f"the loss is not finite at step {step}, on another process"
    return (
        f"the loss is not finite at step {step}; samples {_some(index)} are in its batch."
        " detect_anomaly=True stops at the first such step and names the samples at fault"
    )


def _some(index: Tensor) -> str:
    rows = index.tolist()
    return f"{rows[:8]}"[:-1] + (f", ...] ({len(rows)} in all)" if len(rows) > 8 else "]")


def nothing_counts(loss: Tensor, objective: Any, pairs: Any, step: int, findings: Findings) -> bool:
    """Warn if no anchor of a batch counts: all weights are 0, or there is nothing to compare with.

    All processes call this at the same time; it waits for the device.

    Returns:
        Whether this is so.
    """
    if not ranks.all_of(bool(loss == 0)):
        return False
    with torch.no_grad():  # on all processes, since an objective may gather
        _, weights = own_terms(objective, pairs)
    queued = None if pairs.queue_valid is None else int(pairs.queue_valid.sum())
    if queued == 0:  # a queue that will be filled
        return False
    samples = pairs.keys.shape[1] + (queued or 0)
    if samples > 1 and not ranks.all_of(not bool(weights.any())):
        return False
    known = {name for name, _ in findings.known}
    if known & {"a-condition-is-constant", "a-condition-is-unique-per-sample"}:
        return True  # this is why
    findings.say(
        "no-anchor-of-the-batch-counts",
        step,
        f"no anchor of the batch counts in the loss of {type(objective).__name__}, so nothing is"
        f" learned: {_why_nothing_counts(objective, pairs, samples)}",
    )
    return True


def _why_nothing_counts(objective: Any, pairs: Any, samples: int) -> str:
    if samples == 1:
        return "batch_size = 1 leaves no other sample to compare with; take a larger batch_size"
    if pairs.negative is not None and not pairs.negative.any():
        return "the method compares anchors with their own keys alone; take an objective without negatives"
    read = [name for name in objective.conditions if name in pairs.condition]
    if not read:
        return f"the batch has {samples} samples; take a larger batch_size"
    found = []
    for name in read:
        values = pairs.condition[name]
        rows = values[0] if values.ndim == 3 else values
        count = len(torch.unique(rows, dim=0))
        found.append(f"{count} value{'' if count == 1 else 's'} of condition {name!r}")
    return (
        f"its {len(rows)} samples have {' and '.join(found)}; take another condition, a larger batch_size"
        " or another sampler"
    )


def refuse_non_finite(loss: Tensor, objective: Any, pairs: Any, index: Tensor, step: int) -> None:
    """Refuse a loss of ``pairs`` that is not finite, before its gradient is computed.

    Raises:
        NonFiniteLoss: On all processes, with the step and the samples whose terms are not finite.
    """
    finite = bool(loss.isfinite())
    if ranks.all_of(finite):
        return
    with torch.no_grad():  # on all processes, since an objective may gather
        values, weights = own_terms(objective, pairs)
    if finite:
        raise NonFiniteLoss(_message(step, index, finite_here=True))
    bad = ~(values.isfinite() & weights.isfinite())
    at_fault = bad.reshape(-1, bad.shape[-1]).any(0)
    if len(at_fault) == len(index) and bool(at_fault.any()):
        which = f"the terms of samples {_some(index[at_fault])} are not finite"
    else:
        which = f"samples {_some(index)} are in its batch"
    raise NonFiniteLoss(f"the loss is {float(loss.detach()):g} at step {step}; {which}")


def non_finite_weights(networks: Mapping[str, nn.Module]) -> dict[str, bool]:
    """Names of the parameters and buffers with NaN or infinity; True for a parameter.

    The state of optimizers is not looked at: an infinite second moment only stops a weight; nor are the
    conditions in a queue, where NaN is a missing value.  It waits for the device once.
    """
    values = {
        f"{name}.{key}": value
        for name, network in networks.items()
        for key, value in network.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor) and value.is_floating_point() and not holds_conditions(key)
    }
    if not values:
        return {}
    device = next(iter(values.values())).device
    finite = torch.stack([value.detach().isfinite().all().to(device) for value in values.values()])
    return {
        name: isinstance(value, nn.Parameter)
        for (name, value), is_finite in zip(values.items(), finite.tolist(), strict=True)
        if not is_finite
    }


def refuse_non_finite_weights(
    networks: Mapping[str, nn.Module], step: int, except_: Collection[str] = ()
) -> None:
    """Refuse weights that are not finite, before they are written.

    Args:
        networks: The networks by their names in checkpoints.
        step: Optimizer steps taken.
        except_: Names that are allowed.

    Raises:
        NonFiniteWeights: On all processes, if a weight of one is not finite.
    """
    bad = [name for name in non_finite_weights(networks) if name not in except_]
    if ranks.all_of(not bad):
        return
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    which = f"{bad[0]}{more}" if bad else "those of another process"
    raise NonFiniteWeights(
        f"the weights are not finite after step {step}, with a finite loss ({which}), and are not"
        " written; a lower learning rate (optimizer.lr) or clip=1.0 may help"
    )
