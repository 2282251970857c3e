"""The contract of loggers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ccl_plugins.protocols.traits import traits_of


class Logger(Protocol):
    """Where the numbers of a run go.

    The logger that it opens may have, in addition to Lightning's members:

    - ``continues_run``: True if it continues a run that has its hyperparameters already.
    - ``log_evaluation(metrics, step)``: called in place of ``log_metrics`` for measurements before
      and after training; the numbers replace earlier ones of this step.
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
    """The optional members of a logger."""

    files: Sequence[str] = ()
    """Read when a run begins. The names and patterns of the files that the logger writes into a
    run's folder, such as `("log.db",)`; new files are noted by name, and deleted with the run."""
    on_disk: bool = False
    """Read when a run is measured in a later session. True if the logger writes only to this
    machine; it then gets these numbers too. A service, which may ask for a password, is opened by
    the session that trains."""

    def check(self) -> None:
        """Called before anything is written.

        Raises a ValueError if a package is missing or an option is wrong.
        """
