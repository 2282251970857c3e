"""Lightning's TensorBoard logger, adapted to a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only

from ccl_plugins.files.events import catch_thread_errors, raise_thread_error, replacing_events
from ccl_plugins.files.run_folder import RunFolder


class Events(TensorBoardLogger):
    """Lightning's TensorBoard logger, without sub-folders and without ``hparams.yaml``.

    Events after ``done``, the step of the checkpoint to resume from, are hidden.  Options are those of
    torch's ``SummaryWriter``.
    """

    def __init__(self, folder: Path, done: int | None = None, **options: Any) -> None:
        options |= {} if done is None else {"purge_step": done + 1}
        name = RunFolder(folder).lightning.name
        super().__init__(folder, name=name, version="", default_hp_metric=False, **options)
        self.continues_run = done is not None
        catch_thread_errors()

    @property
    def log_dir(self) -> str:
        """The folder of the events, without the name: Lightning puts checkpoints of callbacks there."""
        return str(self.save_dir)

    root_dir = log_dir

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write numbers; if the disk is full, Lightning wrongly reports that it cannot log such numbers."""
        try:
            super().log_metrics(metrics, step)
        except ValueError as error:
            raise error.__cause__ or error from None

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Close the file; raises the error of the thread that could not write."""
        super().finalize(status)
        raise_thread_error()

    @rank_zero_only
    def save(self) -> None:
        """Flush the events to disk, if there are any; otherwise no writer, file and thread are made."""
        if self._experiment is not None:
            self.experiment.flush()

    @rank_zero_only
    def log_evaluation(self, metrics: Mapping[str, float], step: int) -> None:
        """Write measurements of a step, and replace earlier ones of this step."""
        if metrics:
            with replacing_events(Path(self.save_dir), f".evaluation-{step}") as writer:
                for name, value in metrics.items():
                    writer.add_scalar(name, value, step)
