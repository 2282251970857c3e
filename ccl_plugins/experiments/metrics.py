"""The measurements of a run on the disk, and what they cost."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import ccl_registry as engine
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.protocols import Measurement

Time = Literal["before", "after", "validation"]
"""What was measured: the network before training, its weights, or these on a part of the training split."""

TIMES: tuple[Time, ...] = ("before", "after", "validation")


@dataclass(frozen=True)
class Measured:
    """What is known of a run: measurements by name, and what they cost.

    Args:
        before: Of the untrained or pretrained backbone.
        after: Of the weights.
        validation: Of the weights, on a part of the training split.
        costs: Seconds of training, of its monitors and of the last evaluation, and the monitors' share.
    """

    before: Mapping[str, Measurement] = field(default_factory=dict)
    after: Mapping[str, Measurement] = field(default_factory=dict)
    validation: Mapping[str, Measurement] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)


def numbers(measurements: Mapping[str, Measurement]) -> dict[str, float]:
    """The values of measurements, by name."""
    return {name: float(each.value) for name, each in measurements.items()}


def read_measurements(run: RunFolder) -> Measured:
    """What was measured of a run; nothing before the first measurement.

    Warns:
        UserWarning: For a file that is damaged, or holds something else; nothing of it is used.
    """
    try:
        given = run.read(run.measurements)
    except ValueError as error:
        warnings.warn(f"{error}; nothing of it is used", stacklevel=3)
        return Measured()
    if given is None:
        return Measured()
    try:
        measured = {
            time: {each["name"]: _measurement(each) for each in given[time]} for time in TIMES
        }
        return Measured(**measured, costs={k: _number(v) for k, v in given["costs"].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = engine.escaped(str(error))
        warnings.warn(
            f"{run.measurements} must hold measurements and costs ({reason}): it is not used",
            stacklevel=3,
        )
        return Measured()


def write_measurements(
    run: RunFolder,
    measured: Mapping[Time, Mapping[str, Measurement]] | None = None,
    costs: Mapping[str, float] | None = None,
) -> None:
    """Put measurements in the place of older ones, and costs beside those that are there.

    Both files are written atomically, with their checksums in ``SHA256SUMS``; ``metrics.json`` has the
    numbers after training alone, and is never that of other measurements.
    """
    changed: dict[str, Any] = {str(time): each for time, each in (measured or {}).items()}
    known = read_measurements(run)
    known = replace(known, **changed, costs={**known.costs, **(costs or {})})
    run.adopt()
    if "after" in changed:
        run.delete(run.metrics)
    rows: dict[str, Any] = {
        time: [asdict(each) for each in getattr(known, time).values()] for time in TIMES
    }
    run.write(run.measurements, {**rows, "costs": known.costs})
    if "after" in changed:
        run.write(run.metrics, numbers(known.after))


def forget_measurements(run: RunFolder) -> None:
    """Delete what was measured of a run's weights, since they are trained further."""
    if run.measurements.exists():
        write_measurements(run, {"after": {}, "validation": {}})
    run.delete(run.metrics)


def _measurement(given: Mapping[str, Any]) -> Measurement:
    for text in (given["name"], given["sentence"], given["column"] or ""):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")
    ends = given["interval"]
    if ends is not None:
        low, high = map(_number, ends)
        ends = low, high
    return Measurement(**{**given, "value": _number(given["value"]), "interval": ends})


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} is no number")
    number: float = value
    return number
