"""A CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ccl_plugins.files.run_folder import HISTORY

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger


class CSV:
    """The file ``history.csv``, with a row for each number: its step, name and value.

    Every run keeps this file; with this logger, hyperparameters go into ``hyperparameters.json`` beside it.
    """

    files = (HISTORY, "hyperparameters.json")
    on_disk = True

    def open(self, folder: Path, done: int | None) -> Logger:
        """Open the file of the run in a folder; rows after step ``done`` are cut."""
        from ccl_plugins.loggers.history import History

        return History(folder / HISTORY, folder / "hyperparameters.json", done)
