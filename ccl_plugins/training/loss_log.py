"""The values logged while training: loss, learning rate, speed and the objective's scalars."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping
from torch import Tensor

from ccl_plugins.protocols import trait
from ccl_plugins.training.loader import Batch
from ccl_plugins.training.step_checks import NonFiniteLoss, where

PROBE = "monitor/linear/top1"
"""The published value that the progress bar shows next to the loss."""

COSTS = "costs/monitors"
"""The published share of the time that was spent on monitors."""


class LossLog(Callback):
    """Logs loss, learning rate, speed and the objective's scalars; stops a run with a non-finite loss.

    Losses stay on the device until they are logged, an epoch ends or a checkpoint is written, so that the
    processor waits for the device once per interval of ``log_every`` optimizer steps. Logged values
    are in ``trainer.callback_metrics`` too, for other callbacks; at the end of an epoch ``loss`` is
    its mean.
    """

    def __init__(self, log_every: int, batch_size: int) -> None:
        self.log_every = log_every
        self.batch_size = batch_size
        self.begun = False
        """Whether training has reached its first step."""
        self.latest: dict[str, float] = {}
        """The values logged last."""
        self.deviation = 0.0
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
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            # A run that early stopping ended stays ended when it is resumed.
            if isinstance(callback, EarlyStopping) and callback.stopped_epoch:
                trainer.should_stop = True

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Keep the loss, and log at the end of an interval."""
        # Lightning gives the part that a batch has in the step's loss.
        loss = outputs["loss"].detach() * trainer.accumulate_grad_batches
        self._unchecked.append((self._step + 1, batch.index, loss))
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
        """Log the unfinished interval at the end of the run; a stopped run logs it after a resume."""
        self.check(trainer)
        if not self.paused or trainer.global_step >= pl_module.length.steps:
            self.flush(trainer, pl_module)

    def check(self, trainer: pl.Trainer) -> None:
        """Check that all losses until now are finite.

        Raises:
            NonFiniteLoss: For such a loss; the message names the first such step and its samples.
        """
        if not self._unchecked:
            return
        losses = torch.stack([loss for _, _, loss in self._unchecked]).float()
        means = trainer.strategy.reduce(losses, reduce_op="mean").tolist()
        finite = losses.isfinite().tolist()
        for (step, index, _), here, mean in zip(self._unchecked, finite, means, strict=True):
            if not here or not math.isfinite(mean):
                raise NonFiniteLoss(where(step, index, here))
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
        self.deviation = statistics.pstdev(self._finite)
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
        for logger in trainer.loggers:
            logger.log_metrics(dict(values), step=step)


def _scalars(objective: Any) -> dict[str, float]:
    """The objective's scheduled and learned numbers, copied from the device at once."""
    scalars = trait(objective, "scalars")()
    if not scalars:
        return {}
    values = torch.stack([value.float() for value in scalars.values()]).tolist()
    return {f"objective/{name}": value for name, value in zip(scalars, values, strict=True)}
