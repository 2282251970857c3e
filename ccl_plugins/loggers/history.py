"""A logger that appends to a CSV file: one row for each value."""

from __future__ import annotations

import csv
import json
import math
import warnings
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.reading import reading

COLUMNS = ("step", "name", "value")


class History(Logger):
    """Appends every logged number to a CSV file with the columns step, name and value.

    A row is on the disk when the next step begins.

    Args:
        file: The file.
        hyperparameters: The JSON file that hyperparameters go into; None: they are not kept.
        done: The step of the checkpoint to resume from: later rows are cut; None begins a new file.

    Warns:
        UserWarning: If the file of a resumed run is missing.
    """

    def __init__(
        self, file: Path, hyperparameters: Path | None = None, done: int | None = None
    ) -> None:
        super().__init__()
        if done and not file.is_file():
            warnings.warn(
                f"{file} is missing: the run's curves begin after step {done}",
                stacklevel=2,
            )
        self.continues_run = done is not None and (
            hyperparameters is None or hyperparameters.is_file()
        )
        self.file = file
        self.hyperparameters = hyperparameters
        file.parent.mkdir(parents=True, exist_ok=True)
        self._write([] if done is None else rows_until(file, done))

    @property
    def name(self) -> str:
        """Empty, so that Lightning's callbacks write to their default folder."""
        return ""

    @property
    def version(self) -> str:
        """Empty: a folder holds one run."""
        return ""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Append a row for each number."""
        with self.file.open("a", encoding="utf-8", newline="") as out:
            rows = csv.writer(out)
            rows.writerows((step or 0, name, repr(float(value))) for name, value in metrics.items())

    @rank_zero_only
    def log_evaluation(self, metrics: Mapping[str, float], step: int) -> None:
        """Write measurements of a step, and replace earlier ones of this step."""
        kept = [row for row in rows_until(self.file) if row[0] != step or row[1] not in metrics]
        self._write([*kept, *((step, name, repr(float(x))) for name, x in metrics.items())])

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *_: Any, **__: Any) -> None:
        """Write the hyperparameters."""
        if self.hyperparameters is None:
            return
        values = vars(params) if isinstance(params, Namespace) else params
        with atomic_write(self.hyperparameters) as temporary:
            temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")

    def _write(self, rows: Iterable[tuple[int, str, str]]) -> None:
        with (
            atomic_write(self.file) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as out,
        ):
            csv.writer(out).writerows([COLUMNS, *rows])


def rows_until(file: Path, step: float = math.inf) -> list[tuple[int, str, str]]:
    """The rows of a file up to a step, without a row that a killed run did not finish."""
    if not file.is_file():
        return []
    with reading(file, "table of curves"), file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines) if len(row) == len(COLUMNS) and row[0].isdecimal()]
    return [(int(n), name, x) for n, name, x in rows if int(n) <= step and _is_number(x)]


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text)) or text == "nan"
    except ValueError:
        return False
