"""The contract of loggers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class Logger(Protocol):
    """Where the numbers of a run go.

    The logger that it opens may have, beside what Lightning asks for:

    - ``continues_run``: True if it continues a run that has its hyperparameters already.
    - ``log_evaluation(metrics, step)``: called in place of ``log_metrics`` for what is measured before and
      after training; the numbers take the place of those measured before at this step.
    """

    def open(self, folder: Path, done: int | None) -> Any:
        """A ``pytorch_lightning.loggers.Logger`` for the run in a folder, opened on the first process.

        Args:
            folder: The run's folder, which exists.
            done: The step of the checkpoint to resume from: what was logged until then is continued, and
                later steps are logged again; None begins a new run.
        """
