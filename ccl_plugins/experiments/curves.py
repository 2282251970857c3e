"""The scalars that a run logged."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ccl_plugins.files.reading import reading
from ccl_plugins.files.sums import check_sum

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run

Curves = dict[str, list[tuple[int, float]]]
"""The (step, value) points of each scalar, by its name, in the order of steps."""


def curves(run: Run) -> Curves:
    """Every scalar of a run, from its first step on, independent of its loggers.

    Steps that a resumed run repeated are listed once, with the value that was logged last.  The file is
    read again if it has changed.

    Args:
        run: A run; a run in training has the scalars written so far.

    Raises:
        FileNotFoundError: If the run has no ``history.csv``.
        ValueError: If the file is damaged.
    """
    history = run.folder.history
    if not history.is_file():
        raise FileNotFoundError(f"{run.path} has no curves: it has no {history.name}")
    state = history.stat()
    version = state.st_mtime_ns, state.st_size
    if run not in _read_of or _read_of[run][0] != version:
        series = _read(history)
        found = {name: sorted(dict(points).items()) for name, points in sorted(series.items())}
        _read_of[run] = version, found
    return dict(_read_of[run][1])


_read_of: WeakKeyDictionary[Run, tuple[tuple[int, int], Curves]] = WeakKeyDictionary()
"""The cached curves of runs for figures, with time and size of the file that was read."""


def _read(file: Path) -> Curves:
    """A row for each number: step, name, value."""
    series: Curves = {}
    with reading(file, "table of curves"):
        whole = check_sum(file)
        text = file.read_bytes().decode("utf-8")
        if not whole:  # a run that is trained still, or was killed, may have begun a row
            text = text[: text.rfind("\n") + 1]
        reader = csv.DictReader(io.StringIO(text, newline=""))
        if missing := {"step", "name", "value"} - {*(reader.fieldnames or ())}:
            raise ValueError(f"{file}: the first line lacks {', '.join(sorted(missing))}")
        for row in reader:
            try:
                step, number = int(row["step"]), float(row["value"])
            except (TypeError, ValueError) as error:
                raise ValueError(f"{file}, line {reader.line_num}: {error}") from error
            if not math.isnan(number):
                series.setdefault(row["name"], []).append((step, number))
    return series
