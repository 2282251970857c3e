"""Checks of constructor arguments; their errors quote the value and say what is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any


def positive(name: str, value: float) -> float:
    """``value`` if it is a finite number above 0.

    Raises:
        ValueError: Otherwise.
    """
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0, not {value!r}")
    return value


def non_negative(name: str, value: float) -> float:
    """``value`` if it is a finite number, 0 or more.

    Raises:
        ValueError: Otherwise.
    """
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be a finite number, 0 or more, not {value!r}")
    return value


def below_one(name: str, value: float) -> float:
    """``value`` if it is a number from 0 to below 1.

    Raises:
        ValueError: Otherwise.
    """
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be from 0 to below 1, not {value!r}")
    return value


def fraction(name: str, value: float) -> float:
    """``value`` if it is a number above 0 and at most 1.

    Raises:
        ValueError: Otherwise.
    """
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, not {value!r}")
    return value


def finite(name: str, value: float) -> float:
    """``value`` if it is a finite number.

    Raises:
        ValueError: Otherwise.
    """
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return value


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """``value`` if it is one of ``choices``.

    Raises:
        ValueError: Otherwise.
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def whole(name: str, value: Any, least: int) -> int:
    """``value`` as an int if it is a whole number, ``least`` or more; numpy's integers count.

    Raises:
        TypeError: For a value of another type, and for a truth value.
        ValueError: For a smaller number.
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, not {value!r}")
    return int(value)


def number(name: str, value: Any) -> float:
    """``value`` if it is a number; numpy's numbers count.

    Raises:
        TypeError: For a value of another type, and for a truth value.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return value  # type: ignore[return-value]  # a Real
