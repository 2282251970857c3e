"""What is watched while training: the loss, the rate, the speed, and whether all is finite."""

from __future__ import annotations

import math
import time
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor

from ccl_plugins.objectives.base import own_terms
from ccl_plugins.training import ranks
from ccl_plugins.training.loader import Batch


class NonFiniteLoss(ArithmeticError):
    """The loss became NaN or infinite."""


class Monitor(Callback):
    """Logs loss, rates and the objective's changing numbers, and stops a run whose loss is not finite.

    Losses stay on the device until they are logged or a checkpoint is written: the device is waited
    for once per interval.

    Args:
        log_every: Optimizer steps between logged values.
        batch_size: Samples in a global batch.
    """

    def __init__(self, log_every: int, batch_size: int) -> None:
        self.log_every = log_every
        self.batch_size = batch_size
        self.latest: dict[str, float] = {}
        """The values that were logged last."""
        self._losses: list[Tensor] = []
        self._seen: list[tuple[int, Tensor]] = []
        self._finite: list[float] = []
        """Losses of this interval that were found finite."""
        self._step = 0
        self._since = 0.0
        self._timed = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._step = trainer.global_step
        self._since = time.perf_counter()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Note the samples of the step that begins, or goes on where batches are accumulated."""
        self._seen.append((trainer.global_step + 1, batch.index))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Keep the loss, and log where an interval is full."""
        self._losses.append(outputs["loss"].detach())
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            if self._step % self.log_every == 0:
                self.flush(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Log what is left, unless a resumed run will."""
        self.check(trainer)
        if trainer.global_step >= pl_module.total_steps:
            self.flush(trainer, pl_module)

    def check(self, trainer: pl.Trainer) -> None:
        """Make sure that all losses until now are finite.

        Raises:
            NonFiniteLoss: Naming the first step at which one was not, and its samples.
        """
        if not self._losses:
            return
        losses = torch.stack(self._losses).float()
        whole = trainer.strategy.reduce(losses, reduce_op="mean").tolist()
        for (step, index), mine, mean in zip(
            self._seen, losses.isfinite().tolist(), whole, strict=True
        ):
            if not mine or not math.isfinite(mean):
                raise NonFiniteLoss(_describe(step, index, mine))
        self._losses, self._seen = [], []
        self._finite += whole
        self._timed += len(whole)

    def flush(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Log the steps since the last time.

        Raises:
            NonFiniteLoss: As `check`.
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
        self._finite, self._timed, self._since = [], 0, now
        if trainer.logger is not None:
            trainer.logger.log_metrics(self.latest, step=self._step)

    def state_dict(self) -> dict[str, Any]:
        """The interval that a checkpoint breaks off, so that a resumed run logs it whole."""
        return {"finite": list(self._finite)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with an interval."""
        self._finite = list(state_dict["finite"])


def _scalars(objective: Any) -> dict[str, float]:
    """The objective's scheduled and learned numbers, in one transfer."""
    found = objective.scalars() if hasattr(objective, "scalars") else {}
    if not found:
        return {}
    values = torch.stack([value.float() for value in found.values()]).tolist()
    return {f"objective/{name}": value for name, value in zip(found, values, strict=True)}


def _describe(step: int, index: Tensor, finite_here: bool) -> str:
    if not finite_here:
        return (
            f"the loss is not finite at step {step}; samples {_some(index)} are in its batch."
            " detect_anomaly=True stops at the first such step and names the samples at fault"
        )
    return f"the loss is not finite at step {step}, on another process"


def _some(index: Tensor) -> str:
    rows = index.tolist()
    return f"{rows[:8]}"[:-1] + (f", ...] ({len(rows)} in all)" if len(rows) > 8 else "]")


def refuse_non_finite(loss: Tensor, objective: Any, pairs: Any, index: Tensor, step: int) -> None:
    """Stop before the gradient of a loss that is not finite is taken.

    Args:
        loss: The scalar.
        objective: Its ``terms(pairs)`` say which anchors are at fault.
        pairs: What the loss was taken on.
        index: (n,) or (n, 2) dataset indices of the anchors.
        step: The optimizer step that is being taken, from 1.

    Raises:
        NonFiniteLoss: On all processes, naming the step and the samples whose terms are not finite.
    """
    mine = bool(loss.isfinite())
    if ranks.all_of(mine):
        return
    with torch.no_grad():  # on all processes, as an objective may gather
        values, weights = own_terms(objective, pairs)
    if mine:
        raise NonFiniteLoss(_describe(step, index, finite_here=True))
    bad = ~(values.isfinite() & weights.isfinite())
    at_fault = bad.reshape(-1, bad.shape[-1]).any(0)
    if len(at_fault) == len(index) and bool(at_fault.any()):
        which = f"the terms of samples {_some(index[at_fault])} are not finite"
    else:
        which = f"samples {_some(index)} are in its batch"
    raise NonFiniteLoss(f"the loss is {float(loss.detach()):g} at step {step}; {which}")
