"""The contract of loggers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ccl_plugins.protocols.traits import traits_of


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


@traits_of("logger")
class LoggerTraits:
    """What a logger may have beside its protocol."""

    files: Sequence[str] = ()
    """Read when a run begins. The names and patterns of what the logger leaves in the folder of a run, as
    `("log.db",)`; what was not there before is noted by its name, and deleted with the run."""
    on_disk: bool = False
    """Read when a run is measured in a later session. True if the logger writes to this machine alone; it
    then gets these numbers too. A service, which may ask for a password, is opened by the session that
    trains."""

    def check(self) -> None:
        """Called before anything is written.

        Raises a ValueError if a package is missing or an option is wrong.
        """
