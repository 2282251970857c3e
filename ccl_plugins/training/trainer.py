"""The Trainer that a pipeline is given, and what surrounds it."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ProgressBar
from pytorch_lightning.strategies import DDPStrategy
from torch.nn.parallel import DistributedDataParallel

from ccl_plugins.training.checkpointing import CheckpointFiles
from ccl_plugins.training.events import Events
from ccl_plugins.training.loader import default_workers, half_the_cores
from ccl_plugins.training.monitor import Monitor
from ccl_plugins.training.progress import Progress
from ccl_plugins.training.settings import FitSettings


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
