"""The scalars that a run logged."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING

from ccl_plugins.experiments.layout import Layout
from ccl_plugins.files.events import EVENTS, check_events
from ccl_plugins.files.reading import reading
from ccl_plugins.files.sums import check_sum

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run

Curves = dict[str, list[tuple[int, float]]]
"""The (step, value) points of each scalar, by its name, in the order of steps."""


def curves(run: Run) -> Curves:
    """Every scalar of a run: from its TensorBoard events, else from ``history.csv``.

    Steps that a resumed run repeated are listed once, with the value that was logged last.

    Args:
        run: A run; one that is still trained has the scalars written so far.

    Raises:
        FileNotFoundError: If the run has neither events nor ``history.csv``.
        ValueError: If a file of them is damaged.
    """
    history = Layout(run.path).history
    if any(run.path.glob(f"{EVENTS}*")):
        series = _from_events(run.path)
    elif history.is_file():
        series = _from_csv(history)
    else:
        raise FileNotFoundError(
            f"{run.path} has no curves: neither TensorBoard events nor {history.name}"
        )
    return {name: sorted(dict(points).items()) for name, points in sorted(series.items())}


def _from_events(folder: Path) -> Curves:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for file in folder.glob(f"{EVENTS}*"):
        if not check_sum(file):  # a run that is still trained, or was killed
            check_events(file)
    # 0: all scalars; of other kinds, one.
    sizes = {"scalars": 0, "images": 1, "histograms": 1, "audio": 1, "tensors": 1}
    events = EventAccumulator(str(folder), size_guidance=sizes).Reload()
    return {
        name: [(event.step, float(event.value)) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def _from_csv(file: Path) -> Curves:
    """A row for each number: step, name, value."""
    series: Curves = {}
    check_sum(file)
    with reading(file, "table of curves"), file.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
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
