"""TensorBoard's event files in the run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only


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
