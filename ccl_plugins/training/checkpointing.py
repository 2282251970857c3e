"""Checkpoints of a run: when they are written, what they hold, and the one to resume from."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins import CheckpointIO
from pytorch_lightning.callbacks import Checkpoint
from torch import distributed as dist

from ccl_plugins.checkpoint import DamagedCheckpoint, read, versions, write
from ccl_plugins.training import ranks
from ccl_plugins.training.interrupt import Interrupt
from ccl_plugins.training.monitor import Monitor
from ccl_plugins.training.randomness import generator_states

LAST, PREVIOUS = "last.ckpt", "previous.ckpt"
OURS = "ccl_plugins"


class CheckpointFiles(CheckpointIO):
    """Lightning's checkpoints as files of plain data, the last one and the one before."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write a file; one that was there is kept as the previous."""
        path = Path(path)
        write(path, checkpoint, keep=path.with_name(PREVIOUS))

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a file; never with pickle, whatever ``weights_only`` is."""
        return read(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Delete a file."""
        os.remove(path)


def newest(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The newest checkpoint in a folder that can be read.

    Raises:
        FileNotFoundError: If there is none.
        DamagedCheckpoint: If none can be read.

    Warns:
        UserWarning: Naming the damaged file where an older one is used.
    """
    paths = [folder / name for name in (LAST, PREVIOUS) if (folder / name).is_file()]
    if not paths:
        raise FileNotFoundError(f"there is no checkpoint to resume from in {folder}")
    damage: DamagedCheckpoint | None = None
    for path in paths:
        try:
            found = read(path)
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


class Checkpointing(Checkpoint):
    """Writes checkpoints every few epochs, at the end, and where a stop is requested.

    Only between optimiser steps: gradients that are being accumulated are in no checkpoint.

    Args:
        folder: Where the files go.
        every: Epochs between checkpoints.
        record: What the run is, as plain data.
        interrupt: Says whether a stop is requested.
        monitor: Makes sure that what is written is finite.
    """

    def __init__(
        self,
        folder: Path,
        every: int,
        record: Mapping[str, Any],
        interrupt: Interrupt,
        monitor: Monitor,
    ) -> None:
        self.folder = folder
        self.every = every
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
        """Stop here if asked to, between two optimiser steps."""
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        self._saved = False
        # All processes must stop after the same step, and a signal reaches them in different ones.
        if trainer.strategy.reduce_boolean_decision(self.interrupt.requested, all=False):
            self.stopped = trainer.should_stop = True
        if trainer.should_stop and not trainer.is_last_batch:
            self._save(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Write the checkpoint of a whole epoch, unless the epoch was broken off."""
        if not trainer.is_last_batch:
            return
        epoch = trainer.current_epoch + 1
        due = epoch % self.every == 0 or epoch == trainer.max_epochs or trainer.should_stop
        if due and not self._saved:
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

    def _save(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.monitor.flush(trainer, pl_module)
        trainer.save_checkpoint(self.folder / LAST)
        self._saved = True
