"""The checkpoint that a run continues from.

Lightning is imported when a checkpoint is read, not here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccl_plugins.files.run_folder import RunFolder


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint that a run continues from, and the part of it that Lightning does not restore.

    Args:
        path: The checkpoint's file.
        step: Optimizer steps taken until then.
        record: The record of the run, as plain data; its ``"data"`` identifies the data.
        consumed: Global batches consumed until then.
        tables: The state of the conditions' tables.
        generators: The states of the random generators of each process.
    """

    path: Path
    step: int
    record: Mapping[str, Any]
    consumed: int
    tables: Mapping[str, Any]
    generators: Sequence[Mapping[str, Any]]

    @classmethod
    def newest(cls, run: RunFolder) -> ResumePoint:
        """The newest readable checkpoint of a run.

        Raises:
            FileNotFoundError: If there is none.
            DamagedCheckpoint: If none can be read.
            MissingTable: If a condition's table in a file is not there, or is another one.

        Warns:
            UserWarning: If a damaged file is passed over for an older one; names the damaged file.
        """
        from ccl_plugins.training.checkpointing import OURS, newest
        from ccl_plugins.training.table_files import tables_of

        path, saved = newest(run)
        state = saved[OURS]
        names = ("consumed", "tables", "generators")
        record = json.loads(state["record"])
        known = {name: state[name] for name in names}
        known["tables"] = tables_of(state["tables"], run.checkpoints)
        return cls(path, saved["global_step"], record, **known)
