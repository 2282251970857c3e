"""Checkpoints of a run: when they are written, and their content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins import TorchCheckpointIO
from pytorch_lightning.callbacks import Checkpoint
from torch import distributed as dist
from torch import nn

from ccl_plugins.files.checkpoints import read_checkpoint, versions, write_checkpoint
from ccl_plugins.files.lock import FolderGone, is_owned
from ccl_plugins.files.processes import is_first
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.numerics.generators import generator_states
from ccl_plugins.training import ranks
from ccl_plugins.training.interrupt import Interrupt
from ccl_plugins.training.loss_log import LossLog
from ccl_plugins.training.saved import OURS
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step_checks import non_finite_weights, refuse_non_finite_weights


class CheckpointFiles(TorchCheckpointIO):
    """Lightning's checkpoints, and those of callbacks, as files of plain data.

    Args:
        run: The run's folder, whose inventory lists its checkpoints.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write a file."""
        self.run.note(Path(path))
        write_checkpoint(Path(path), checkpoint)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a file, never with pickle, even if ``weights_only`` is False."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Delete a file of the run; files elsewhere belong to the callback."""
        self.run.delete(Path(path))
        super().remove_checkpoint(path)


class Checkpointing(Checkpoint):
    """Writes checkpoints every few epochs or steps, at the end, and when a stop is requested.

    It writes between optimizer steps only: checkpoints have no accumulated gradients. Losses and
    weights are checked first: if they are not finite, nothing is written, and the earlier
    checkpoint stays the newest.
    """

    def __init__(
        self,
        run: RunFolder,
        settings: FitSettings,
        record: Mapping[str, Any],
        interrupt: Interrupt,
        losses: LossLog,
    ) -> None:
        self.run = run
        self.settings = settings
        self.record = json.dumps(record)
        self.interrupt = interrupt
        self.losses = losses
        self.stopped = False
        """Whether the run was stopped on request."""
        self._saved = False
        self._step = 0
        self._owned = False
        self._tables: dict[Path, set[str]] = {}
        """The files of tables named by each checkpoint that this process wrote."""
        self._infinite: set[str] = set()
        """Buffers that hold infinity by design, such as those of a minimum."""

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Note the buffers that hold infinity before training, and whether the folder has an owner."""
        self._owned = is_first() and is_owned(self.run.path)
        non_finite = non_finite_weights(pl_module.parts.networks)
        self._infinite = {name for name, is_parameter in non_finite.items() if not is_parameter}

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Install the signal handlers again, over Lightning's; end a run that has all its steps."""
        self._step = trainer.global_step
        trainer.should_stop |= self._step >= pl_module.length.steps
        self.interrupt.listen()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After an optimizer step, stop if requested, and write a checkpoint if one is due."""
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        self._saved = False
        # All processes must stop after the same step, but a signal may reach them in different ones.
        if trainer.strategy.reduce_boolean_decision(self.interrupt.requested, all=False):
            self.stopped = self.losses.paused = trainer.should_stop = True
        trainer.should_stop |= self._step == pl_module.length.steps
        due = self._is_due_by_steps() or trainer.should_stop
        if due and not trainer.is_last_batch:
            self._save(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Write the checkpoint of a whole epoch."""
        if not trainer.is_last_batch:  # stopped within the epoch
            return
        epoch = trainer.current_epoch + 1
        due = epoch % self.settings.checkpoint_every == 0 or epoch == trainer.max_epochs
        if (due or trainer.should_stop or self._is_due_by_steps()) and not self._saved:
            self._save(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """Add the state that Lightning does not save."""
        states: list[Any] = [generator_states()]
        if ranks.world_size() > 1:
            states = [None] * ranks.world_size()
            dist.all_gather_object(states, generator_states())
        checkpoint[OURS] = {
            "format": 1,
            "consumed": pl_module.consumed.batches,
            "total": pl_module.length.steps,
            "tables": pl_module.tables.state_dict(),
            "generators": states,
            "settings": pl_module.settings.to_dict(),
            "record": self.record,
            "versions": versions(),
        }

    def check_weights(self, networks: Mapping[str, nn.Module], step: int) -> None:
        """Refuse weights that have become NaN or infinite; see `refuse_non_finite_weights`."""
        refuse_non_finite_weights(networks, step, self._infinite)

    def _is_due_by_steps(self) -> bool:
        every = self.settings.checkpoint_every_steps
        return every is not None and self._step % every == 0

    def _save(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.losses.check(trainer)
        self.check_weights(pl_module.parts.networks, self._step)
        for logger in trainer.loggers:  # a resumed run logs later steps only
            logger.save()
        if self._owned and not is_owned(self.run.path):
            raise FolderGone(
                f"the run's folder {self.run.path} was moved or deleted while it trains: step"
                f" {self._step} is not saved; move it back, and resume the run"
            )
        path = self.run.checkpoint(self._step)
        if is_first():
            self.run.claim(path)
        trainer.save_checkpoint(path)
        if is_first():
            self._leave_newest(path, pl_module.tables.files())
        self._saved = True

    def _leave_newest(self, latest: Path, tables: set[str]) -> None:
        """Delete old checkpoints of the run, and their tables; the newest up to the one just written stay.

        Checkpoints of later steps are deleted too: they are damaged, or the run would have resumed
        from them.

        Args:
            latest: The checkpoint just written.
            tables: The files of tables that it names.
        """
        files = self.run.steps
        place = files.index(latest)
        self.run.delete(*files[:place], *files[place + self.settings.keep_last :])
        self._tables[latest] = tables
        kept = self.run.steps
        if self._tables.keys() >= {*kept}:
            used = set().union(*(self._tables[path] for path in kept))
            self.run.delete(*(each for each in self.run.tables if each.name not in used))
