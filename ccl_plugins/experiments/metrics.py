"""The measurements of a run on the disk, and what they cost."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Literal

from ccl_plugins._engine import engine
from ccl_plugins.experiments.layout import Layout
from ccl_plugins.experiments.record import read_json, write_json
from ccl_plugins.files.sums import WrongSum, check_sum, summed
from ccl_plugins.protocols import Measurement

Time = Literal["before", "after", "validation"]
"""What was measured: the network before training, its weights, or these on a part of the training split."""

TIMES = ("before", "after", "validation")


def numbers(measurements: Mapping[str, Measurement]) -> dict[str, float]:
    """The values of measurements, by name."""
    return {name: float(each.value) for name, each in measurements.items()}


def read_measurements(layout: Layout, time: Time) -> dict[str, Measurement]:
    """What was measured of a run at a time, by name; nothing before the first measurement.

    Warns:
        UserWarning: For a file that is damaged, or holds something else; nothing of it is used.
    """
    return {each.name: each for each in _read(layout)[time]}


def read_costs(layout: Layout) -> dict[str, float]:
    """Seconds of training, of its monitors and of the last evaluation; warns as `read_measurements`."""
    found: dict[str, float] = _read(layout)["costs"]
    return found


def write_measurements(
    layout: Layout,
    measured: Mapping[Time, Mapping[str, Measurement]] | None = None,
    costs: Mapping[str, float] | None = None,
) -> None:
    """Put measurements and costs beside those that are there, in the place of older ones.

    Both files are written atomically, with their checksums in ``SHA256SUMS``; ``metrics.json`` has the
    numbers after training alone.
    """
    measured = measured or {}
    found = _read(layout)
    found |= {time: [*each.values()] for time, each in measured.items()}
    found["costs"] |= costs or {}
    if "after" in measured:
        layout.metrics.unlink(missing_ok=True)  # never those of other measurements
    rows = {time: [asdict(each) for each in found[time]] for time in TIMES}
    _write(layout.measurements, {**rows, "costs": found["costs"]})
    if "after" in measured:
        _write(layout.metrics, numbers(measured["after"]))


def forget_measurements(layout: Layout) -> None:
    """Delete what was measured of a run's weights, which are trained further."""
    layout.metrics.unlink(missing_ok=True)
    if layout.measurements.exists():
        found = _read(layout)
        rows = [asdict(each) for each in found["before"]]
        _write(
            layout.measurements,
            {"before": rows, "after": [], "validation": [], "costs": found["costs"]},
        )


def _write(file: Any, values: Mapping[str, Any]) -> None:
    with summed(file):
        write_json(file, values)


def _read(layout: Layout) -> dict[str, Any]:
    """The measurements of each time, and the costs by name."""
    file, nothing = layout.measurements, {**{time: [] for time in TIMES}, "costs": {}}
    if not file.is_file():
        return nothing
    try:
        check_sum(file)
        given = read_json(file)
    except (WrongSum, engine.InvalidConfig) as error:
        warnings.warn(f"{error}; nothing of it is used", stacklevel=4)
        return nothing
    try:
        found: dict[str, Any] = {time: [*map(_measurement, given[time])] for time in TIMES}
        costs = zip(given["costs"], _numbers(given["costs"].values()), strict=True)
        return {**found, "costs": dict(costs)}
    except (KeyError, TypeError, AttributeError) as error:
        warnings.warn(
            f"{file} must hold measurements and costs: {error}; it is not used", stacklevel=4
        )
        return nothing


def _measurement(given: Mapping[str, Any]) -> Measurement:
    ends = given["interval"]
    (value,) = _numbers([given["value"]])
    if ends is not None:
        low, high = _numbers(ends)
        ends = low, high
    return Measurement(**{**given, "value": value, "interval": ends})


def _numbers(values: Iterable[Any]) -> list[float]:
    found = [*values]
    for each in found:
        if type(each) not in (int, float):
            raise TypeError(f"{each!r} is no number")
    return found
