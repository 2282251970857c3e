"""The contract of loggers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class Logger(Protocol):
    """Where the numbers of a run go.

    It may also have, as attributes of its class or of the object:

    - ``files``: names and patterns of what it leaves in the run's folder, as ``("log.db",)``; they are
      deleted with the run.
    - ``on_disk``: True if it writes to this machine alone.  What is measured in a later session is then
      logged too; a service, which may ask for a password, is opened by the session that trains.
    - ``check()``: raises a ValueError if a package is missing or an option is wrong; called before
      anything is written.

    And the logger that it opens, beside what Lightning asks for:

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
