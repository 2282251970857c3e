"""What identifies a run, given to every logger when training begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from ccl_plugins.files.checkpoints import versions
from ccl_plugins.files.fingerprints import MOST_IN_MEMORY, of_parts, of_tensors
from ccl_plugins.protocols import Table


class Hyperparameters(Callback):
    """Logs the record, the versions of the code, and a fingerprint of each condition's table.

    Args:
        record: The record of the run.
        resumed: Whether a run is continued.  A logger that has its hyperparameters gets none.
    """

    def __init__(self, record: Mapping[str, Any], resumed: bool) -> None:
        self.record = record
        self.resumed = resumed

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Log them."""
        if not trainer.is_global_zero:
            return
        tables = pl_module.tables
        values = {
            "pipeline": dict(self.record),
            "code": versions(),
            "tables": {name: _of_table(tables[name]) for name in tables},
        }
        for logger in trainer.loggers:
            # MLflow refuses a second value; one that is new, or forgets, has none yet.
            if self.resumed and getattr(logger, "continues_run", False):
                continue
            logger.log_hyperparams(values)


def _of_table(table: Table) -> str:
    if table.values.nbytes > MOST_IN_MEMORY:
        return of_parts(table.values)
    return of_tensors({"values": table.values, **table.extras})
