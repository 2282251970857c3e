"""The Trainer that a pipeline is given, and what surrounds it."""

from __future__ import annotations

import inspect
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.utilities import rank_zero_only
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm  # type: ignore[import-untyped]  # it ships no types

from ccl_plugins.training.checkpointing import CheckpointFiles
from ccl_plugins.training.loader import default_workers, half_the_cores
from ccl_plugins.training.monitor import Monitor
from ccl_plugins.training.settings import FitSettings


class Events(TensorBoardLogger):
    """Lightning's TensorBoard logger, writing to the folder itself and no ``hparams.yaml``.

    Args:
        folder: The run's folder.
        step: Events after this step, of a run that went on after its checkpoint, are hidden; None
            in a new run.
    """

    def __init__(self, folder: Path, step: int | None = None) -> None:
        options: dict[str, Any] = {} if step is None else {"purge_step": step + 1}
        super().__init__(folder, name="", version="", default_hp_metric=False, **options)

    @rank_zero_only
    def save(self) -> None:
        """Bring the events to the disk."""
        self.experiment.flush()


SECONDS_BETWEEN_LINES = 30.0


class Progress(ProgressBar):
    """One bar for the whole run, with loss and images per second.

    Where standard error is no terminal, a line every half minute and one at the end instead, since
    a bar that redraws itself makes a log unreadable.

    Args:
        monitor: Knows the loss and the speed.
    """

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self.monitor = monitor
        self.enabled = True
        self._bar: tqdm[Any] | None = None
        self._next_line = 0.0
        self._written = -1

    def disable(self) -> None:
        """Show nothing, as Lightning asks of every process but the first."""
        self.enabled = False

    def enable(self) -> None:
        """Show progress again."""
        self.enabled = True

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Open the bar."""
        if not self.enabled:
            return
        if _in_terminal():
            whole = (trainer.max_epochs or 0) * int(trainer.num_training_batches)
            done = pl_module.consumed.batches
            self._bar = tqdm(total=whole, initial=done, unit="batch", dynamic_ncols=True)
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Advance."""
        if self._bar is not None:
            self._bar.set_description(self._epoch(trainer), refresh=False)
            self._bar.set_postfix_str(self._values(), refresh=False)
            self._bar.update()
        elif self.enabled and time.monotonic() >= self._next_line:
            self._write_line(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Close the bar, or write the last line."""
        if self._bar is None and self.enabled and self._written != trainer.global_step:
            self._write_line(trainer)
        self._close()

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        """Leave the terminal as it was."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _write_line(self, trainer: pl.Trainer) -> None:
        self._written = trainer.global_step
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        line = f"{self._epoch(trainer)}  step {trainer.global_step}  {self._values()}"
        sys.stderr.write(line.rstrip() + "\n")
        sys.stderr.flush()

    def _epoch(self, trainer: pl.Trainer) -> str:
        return (
            f"epoch {min(trainer.current_epoch + 1, trainer.max_epochs or 0)}/{trainer.max_epochs}"
        )

    def _values(self) -> str:
        latest = self.monitor.latest
        if not latest:
            return ""
        return f"loss {latest['loss']:.4f}  {latest['images_per_second']:,.0f} images/s"


def _in_terminal() -> bool:
    """Whether a bar would be seen: tqdm draws none where a terminal does not say how large it is."""
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).lines > 1
    except OSError:
        return False


def make_trainer(
    settings: FitSettings,
    out: Path,
    monitor: Monitor,
    callbacks: Sequence[Any],
    progress: bool,
    done: int | None,
) -> pl.Trainer:
    """A Trainer that does what the settings say, and nothing of its own accord.

    Args:
        settings: How to train.
        out: Where events go.
        monitor: Knows the loss; comes before the other callbacks.
        callbacks: Further ones, with a progress bar or without.
        progress: Whether a bar is shown where none is among them.
        done: The step of the checkpoint that is resumed, or None.
    """
    bars = [each for each in callbacks if isinstance(each, ProgressBar)]
    if progress and not bars:
        bars = [Progress(monitor)]
        callbacks = [*callbacks, *bars]
    several = settings.processes > 1
    return pl.Trainer(
        accelerator="auto",
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy=_many_processes() if several else "auto",
        precision=settings.precision,  # type: ignore[arg-type]  # one of PRECISIONS
        max_epochs=settings.epochs,
        accumulate_grad_batches=settings.accumulate,
        gradient_clip_val=settings.clip,
        detect_anomaly=settings.detect_anomaly,
        callbacks=[monitor, *callbacks],
        logger=Events(out, done),
        plugins=[CheckpointFiles()],
        default_root_dir=out,
        use_distributed_sampler=False,
        # It does not run on a CPU.
        sync_batchnorm=several and torch.cuda.is_available(),
        enable_progress_bar=bool(bars),
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )


def _many_processes() -> DDPStrategy:
    # Buffers are the same on all processes by construction (queues) or belong to each (norms).
    options = inspect.signature(DistributedDataParallel.__init__).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in options else "broadcast_buffers"
    handed_on: dict[str, Any] = {name: False}
    return DDPStrategy(**handed_on)


def count_workers(settings: FitSettings, trainer: pl.Trainer) -> int:
    """Processes that load for each that trains."""
    if settings.workers is not None:
        return settings.workers
    return default_workers(settings.devices, trainer.strategy.root_device.type != "cpu")


def beside_workers(settings: FitSettings, trainer: pl.Trainer) -> AbstractContextManager[None]:
    """The cores that training on a CPU has beside its workers."""
    if trainer.strategy.root_device.type != "cpu":
        return nullcontext()
    return half_the_cores(settings.devices)


@contextmanager
def quiet() -> Iterator[None]:
    """Without Lightning's news of devices, tips and limits reached, which say nothing of the run."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        with warnings.catch_warnings():
            # Lightning's walk over a batch asks torch in a way that newer torch versions deprecate.
            warnings.filterwarnings(
                "ignore", category=FutureWarning, module=r"pytorch_lightning\.utilities\._pytree"
            )
            # Frozen encoders are in evaluation mode on purpose.
            warnings.filterwarnings(
                "ignore", message=r"Found \d+ module\(s\) in eval", module="pytorch_lightning"
            )
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
