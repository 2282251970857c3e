"""Checkpoints of a run: when they are written, what they hold, and the one to resume from."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins import CheckpointIO
from pytorch_lightning.callbacks import Checkpoint
from torch import distributed as dist

from ccl_plugins.files.checkpoints import (
    DamagedCheckpoint,
    read_checkpoint,
    versions,
    write_checkpoint,
)
from ccl_plugins.training import ranks
from ccl_plugins.training.monitor import Monitor
from ccl_plugins.training.randomness import generator_states
from ccl_plugins.training.settings import FitSettings

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Remembers that a stop was requested while it is entered; a second Ctrl-C stops at once.

    In a thread other than the main one nothing is changed, since python has signals only there.
    """

    def __init__(self) -> None:
        self.requested = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.getsignal(number) for number in SIGNALS}
            self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def listen(self) -> None:
        """Take the signals (again: Lightning takes SIGTERM when it starts)."""
        for number in self._former:
            signal.signal(number, self._request)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        logger.warning(
            "%s: finishing the step and writing a checkpoint; Ctrl-C again stops at once",
            signal.Signals(number).name,
        )


OURS = "ccl_plugins"
"""The name in a checkpoint of what Lightning does not know of."""


class CheckpointFiles(CheckpointIO):
    """Lightning's checkpoints as files of plain data."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write a file."""
        write_checkpoint(Path(path), checkpoint)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a file; never with pickle, whatever ``weights_only`` is."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Delete a file."""
        os.remove(path)


def file_of(folder: Path, step: int) -> Path:
    """The checkpoint's file of a step."""
    return folder / f"step-{step:08d}.ckpt"


def by_step(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    return sorted(folder.glob("step-*.ckpt"), key=lambda path: path.name, reverse=True)


def leave_newest(folder: Path, written: Path, keep: int) -> None:
    """Delete what a checkpoint just written makes needless.

    Those beyond the ``keep`` newest; those of later steps, which were damaged or the run would have
    gone on from them; and what was left of one whose writing was cut off.
    """
    files = by_step(folder)
    place = files.index(written)
    for old in [*files[:place], *files[place + keep :], *folder.glob(".step-*.partial")]:
        old.unlink()


def newest(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The newest checkpoint in a folder that can be read.

    Raises:
        FileNotFoundError: If there is none.
        DamagedCheckpoint: If none can be read.

    Warns:
        UserWarning: Naming the damaged file where an older one is used.
    """
    if not (paths := by_step(folder)):
        raise FileNotFoundError(f"there is no checkpoint to resume from in {folder}")
    damage: DamagedCheckpoint | None = None
    for path in paths:
        try:
            found = read_checkpoint(path)
            if OURS not in found:
                raise DamagedCheckpoint(f"{path} is not a checkpoint of a run")
        except DamagedCheckpoint as error:
            damage = damage or error
            continue
        if damage is not None:
            warnings.warn(f"{damage}; resuming from {path.name}, which is older", stacklevel=3)
        return path, found
    assert damage is not None
    raise damage


def last_good(folder: Path) -> str:
    """Which checkpoint a run can go back to, as a sentence of an error."""
    try:
        path, found = newest(folder)
    except (FileNotFoundError, DamagedCheckpoint):
        return "No checkpoint was written before"
    return f"The last good checkpoint is {path}, of step {found['global_step']}"


class Checkpointing(Checkpoint):
    """Writes checkpoints every few epochs or steps, at the end, and where a stop is requested.

    Only between optimizer steps: gradients that are being accumulated are in no checkpoint.

    Args:
        folder: Where the files go.
        settings: When they are written, and how many are kept.
        record: What the run is, as plain data.
        interrupt: Says whether a stop is requested.
        monitor: Makes sure that what is written is finite.
    """

    def __init__(
        self,
        folder: Path,
        settings: FitSettings,
        record: Mapping[str, Any],
        interrupt: Interrupt,
        monitor: Monitor,
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.record = json.dumps(record)
        self.interrupt = interrupt
        self.monitor = monitor
        self.stopped = False
        """Whether the run was stopped on request."""
        self._saved = False
        self._step = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Take the signals back from Lightning."""
        self._step = trainer.global_step
        self.interrupt.listen()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop here if asked to, between two optimizer steps."""
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        self._saved = False
        # All processes must stop after the same step, and a signal reaches them in different ones.
        if trainer.strategy.reduce_boolean_decision(self.interrupt.requested, all=False):
            self.stopped = trainer.should_stop = True
        if (self._is_due_by_steps() or trainer.should_stop) and not trainer.is_last_batch:
            self._save(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Write the checkpoint of a whole epoch, unless the epoch was broken off."""
        if not trainer.is_last_batch:
            return
        epoch = trainer.current_epoch + 1
        due = epoch % self.settings.checkpoint_every == 0 or epoch == trainer.max_epochs
        if (due or trainer.should_stop or self._is_due_by_steps()) and not self._saved:
            self._save(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """Add what Lightning does not know of."""
        states: list[Any] = [generator_states()]
        if ranks.world_size() > 1:
            states = [None] * ranks.world_size()
            dist.all_gather_object(states, generator_states())
        checkpoint[OURS] = {
            "format": 1,
            "consumed": pl_module.consumed.batches,
            "tables": pl_module.tables.state_dict(),
            "generators": states,
            "settings": pl_module.settings.to_dict(),
            "record": self.record,
            "versions": versions(),
        }

    def _is_due_by_steps(self) -> bool:
        every = self.settings.checkpoint_every_steps
        return every is not None and self._step % every == 0

    def _save(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.monitor.check(trainer)
        if trainer.logger is not None:
            # What is logged up to here is in no later run.
            trainer.logger.save()
        path = file_of(self.folder, self._step)
        trainer.save_checkpoint(path)
        if trainer.is_global_zero:
            leave_newest(self.folder, path, self.settings.keep_last)
        self._saved = True
