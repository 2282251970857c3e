"""Lightning's Trainer for a run, without Lightning's messages."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.utilities.warnings import PossibleUserWarning
from pytorch_lightning.callbacks import ProgressBar
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.trainer.connectors.checkpoint_connector import _CheckpointConnector
from torch.nn.parallel import DistributedDataParallel

from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.training.checkpointing import CheckpointFiles
from ccl_plugins.training.interrupt import BOUND
from ccl_plugins.training.loss_log import LossLog
from ccl_plugins.training.progress import Progress
from ccl_plugins.training.settings import FitSettings


class Restoring(_CheckpointConnector):
    """Restores only the given checkpoint.

    In a job of SLURM, Lightning would otherwise restore any ``hpc_ckpt_1.ckpt`` in its folder:
    weights of another run.
    """

    _hpc_resume_path = None  # type: ignore[assignment]  # a property of Lightning's


def make_trainer(
    settings: FitSettings,
    run: RunFolder,
    losses: LossLog,
    callbacks: Sequence[Any],
    progress: bool,
    loggers: Sequence[Any] = (),
    all_learn: bool = True,
) -> pl.Trainer:
    """Build the Trainer from the settings; Lightning's automatic behavior is off.

    The log of losses is called before the other callbacks; a progress bar among these replaces the
    default one. Without ``all_learn``, some parameters get no gradient, and processes must not wait
    for it.
    """
    has_bar = any(isinstance(each, ProgressBar) for each in callbacks)
    if progress and not has_bar:
        callbacks, has_bar = [*callbacks, Progress(losses)], True
    several = settings.processes > 1
    plugins: list[Any] = [CheckpointFiles(run)]
    if SLURMEnvironment.detect() and not torch.distributed.is_torchelastic_launched():
        # A signal stops the run; Lightning would write a checkpoint of its own and submit the job again.
        plugins.append(SLURMEnvironment(auto_requeue=False))
    trainer = pl.Trainer(
        accelerator="auto",
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy=_several_processes(all_learn) if several else "auto",
        precision=settings.precision,  # type: ignore[arg-type]  # one of PRECISIONS
        max_epochs=settings.epochs,
        max_steps=-1,  # or Lightning would count epochs differently when it resumes at the end of one
        accumulate_grad_batches=settings.accumulate,
        gradient_clip_val=settings.clip,
        detect_anomaly=settings.detect_anomaly,
        callbacks=[losses, *callbacks],
        logger=[*loggers] or False,
        plugins=plugins,
        default_root_dir=run.lightning,
        use_distributed_sampler=False,
        # SyncBatchNorm does not run on a CPU.
        sync_batchnorm=several and torch.cuda.is_available(),
        enable_progress_bar=has_bar,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )
    trainer._checkpoint_connector = Restoring(trainer)
    return trainer


def _several_processes(all_learn: bool) -> DDPStrategy:
    # Not copied from the first process: queues are equal on all, batch statistics differ on purpose.
    options = inspect.signature(DistributedDataParallel.__init__).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in options else "broadcast_buffers"
    # To look for parameters without a gradient takes time, and without any, torch warns of it.
    passed: dict[str, Any] = {name: False, "find_unused_parameters": not all_learn}
    return DDPStrategy(**passed, timeout=BOUND)


@contextmanager
def arithmetic(settings: FitSettings) -> Iterator[None]:
    """Set torch's options of speed and precision, and restore them."""
    precision, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn
    before = cudnn.benchmark
    try:
        torch.set_float32_matmul_precision(settings.matmul_precision or precision)
        cudnn.benchmark = before or settings.cudnn_benchmark
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        cudnn.benchmark = before


@contextmanager
def quiet() -> Iterator[None]:
    """Hide Lightning's messages about devices, tips and limits, and warnings that no user can act on."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        with warnings.catch_warnings():
            # Lightning's walk over a batch calls torch in a way that newer versions deprecate.
            warnings.filterwarnings(
                "ignore", category=FutureWarning, module=r"pytorch_lightning\.utilities\._pytree"
            )
            # Frozen encoders are in evaluation mode on purpose.
            warnings.filterwarnings(
                "ignore", message=r"Found \d+ module\(s\) in eval", module="pytorch_lightning"
            )
            # Advice for the authors of modules and loaders, which are this library's.
            warnings.filterwarnings("ignore", category=PossibleUserWarning)
            # A resume may leave out or add callbacks.
            warnings.filterwarnings("ignore", message="Be aware that when using `ckpt_path`")
            # An own ModelCheckpoint of a resumed run writes into the folder that it wrote into before.
            warnings.filterwarnings("ignore", message=r"Checkpoint directory .* exists and is not")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
