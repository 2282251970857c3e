"""Checks of constructor arguments: each returns the argument, or raises an error that quotes it.

A value out of range is a ``ValueError``, a value of another type a ``TypeError``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any


def positive(name: str, value: float) -> float:
    """A finite number above 0."""
    return _require(_is_finite(value) and value > 0, name, "a finite number above 0", value)


def non_negative(name: str, value: float) -> float:
    """A finite number, 0 or more."""
    return _require(_is_finite(value) and value >= 0, name, "a finite number, 0 or more", value)


def zero_or_seen(name: str, value: float) -> float:
    """0, or a finite number of 1e-12 or more, which float64 still sees beside a similarity of 1."""
    right = non_negative(name, value) == 0 or value >= 1e-12
    return _require(
        right, name, "0, or 1e-12 or more: beside a similarity of 1 less is lost", value
    )


def below_one(name: str, value: float) -> float:
    """A number from 0 to below 1."""
    return _require(0 <= value < 1, name, "from 0 to below 1", value)


def fraction(name: str, value: float) -> float:
    """A number above 0 and at most 1."""
    return _require(0 < value <= 1, name, "above 0 and at most 1", value)


def finite(name: str, value: float) -> float:
    """A finite number."""
    return _require(_is_finite(value), name, "a finite number", value)


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """One of ``choices``."""
    return _require(value in choices, name, f"one of {', '.join(map(repr, choices))}", value)


def whole(name: str, value: Any, least: int) -> int:
    """A whole number, ``least`` or more, as an int; numpy's integers count, truth values do not."""
    integral = isinstance(value, Integral) and not isinstance(value, bool)
    _require(integral, name, "a whole number", value, TypeError)
    return int(_require(value >= least, name, f"{least} or more", value))


def number(name: str, value: Any) -> float:
    """A number; numpy's numbers count, truth values do not."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    return _require(real, name, "a number", value, TypeError)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond float64
        return False


def _require(
    fits: bool, name: str, right: str, value: Any, error: type[Exception] = ValueError
) -> Any:
    if not fits:
        raise error(f"{name} must be {right}, not {value!r}")
    return value
