"""Checks of constructor arguments: each returns the argument, or raises an error that quotes it.

A value out of range is a ``ValueError``, a value of another type a ``TypeError``. Every whole
number has an upper bound, so that a typing error, such as 1e14 views, is refused before it takes
hours or all memory. The bound is `MOST`, or `WIDEST`, `DEEPEST` or `SHARPEST` where something of
this size is made. A matrix with two such sides has at most `LARGEST` numbers.

`checked` adds a check to a field of a dataclass: one line holds a parameter's name, hint, default
and check, and `dataclasses.dataclass` writes the constructor. A subclass with another default
must repeat the check, because a plain ``k: int = 5`` replaces the checked field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING
from functools import partial
from numbers import Integral, Real
from typing import Any

from ccl_registry.errors import did_you_mean as did_you_mean

MOST = 2**32 - 1
"""The upper bound of numbers that only count, such as samples and rounds; numpy's largest seed."""

WIDEST = 2**20
"""The most numbers in a vector, and the most classes, prototypes, words and channels."""

DEEPEST = 2**10
"""The most layers, heads and views, which are made one by one."""

SHARPEST = 2**14
"""The most pixels along a side of an image."""

LARGEST = 2**32
"""The most numbers in a matrix, 16 GiB of float32."""


def positive(name: str, value: float) -> float:
    """A finite number above 0."""
    right = math.isfinite(number(name, value)) and value > 0
    return _require(right, name, "a finite number above 0", value)


def non_negative(name: str, value: float) -> float:
    """A finite number, 0 or more."""
    right = math.isfinite(number(name, value)) and value >= 0
    return _require(right, name, "a finite number, 0 or more", value)


def zero_or_seen(name: str, value: float) -> float:
    """0, or a finite number of at least 1e-12; float64 loses less beside a similarity of 1."""
    right = non_negative(name, value) == 0 or value >= 1e-12
    return _require(
        right, name, "0, or at least 1e-12 (float64 loses less beside a similarity of 1)", value
    )


def below_one(name: str, value: float) -> float:
    """A number from 0 to below 1."""
    return _require(0 <= number(name, value) < 1, name, "from 0 to below 1", value)


def fraction(name: str, value: float) -> float:
    """A number above 0 and at most 1."""
    return _require(0 < number(name, value) <= 1, name, "above 0 and at most 1", value)


def probability(name: str, value: float) -> float:
    """A number from 0 to 1."""
    return _require(0 <= number(name, value) <= 1, name, "a probability, 0 to 1", value)


def finite(name: str, value: float) -> float:
    """A finite number."""
    return _require(math.isfinite(number(name, value)), name, "a finite number", value)


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """One of ``choices``."""
    return _require(value in choices, name, f"one of {', '.join(map(repr, choices))}", value)


def whole(name: str, value: Any, least: int, most: int = MOST) -> int:
    """A whole number from ``least`` to ``most``, as an int; numpy's integers count, truth values do not."""
    integral = isinstance(value, Integral) and not isinstance(value, bool)
    _require(integral, name, "a whole number", value, TypeError)
    _require(value >= least, name, f"{least} or more", value)
    return int(_require(value <= most, name, f"at most {most}", value))


def wholes(name: str, values: Any, least: int, most: int = MOST) -> list[int]:
    """Whole numbers from ``least`` to ``most``, as a list."""
    several = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    _require(several, name, "whole numbers, such as [1, 5]", values, TypeError)
    return [whole(f"each of {name}", value, least, most) for value in values]


def matrix(*sides: tuple[str, int]) -> None:
    """Refuse a matrix of more than `LARGEST` numbers; the error names its sides."""
    if math.prod(size for _, size in sides) > LARGEST:
        given = " and ".join(f"{name}={size}" for name, size in sides)
        raise ValueError(f"{given} make a matrix of more than {LARGEST} numbers: take less of one")


def number(name: str, value: Any) -> float:
    """A number within the range of a float; numpy's numbers are accepted, truth values are not."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    _require(real, name, "a number", value, TypeError)
    try:
        float(value)
    except OverflowError:
        _require(False, name, "a number that fits a float", value)
    return value  # type: ignore[no-any-return]  # ints stay ints


class Checked:
    """An attribute that is checked when it is set. Read from the class, it is its default, if it has one.

    Args:
        check: Takes the attribute's name and the value, and returns the value to keep.
        default: The default; None also allows None.
    """

    def __init__(self, check: Callable[[str, Any], Any], *, default: Any = MISSING) -> None:
        self.check, self.default = check, default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, holder: Any, owner: type | None = None) -> Any:
        if holder is not None:
            return holder.__dict__[self.name]
        if self.default is MISSING:
            raise AttributeError(self.name)
        return self.default

    def __set__(self, holder: Any, given: Any) -> None:
        allowed = given is None and self.default is None
        holder.__dict__[self.name] = given if allowed else self.check(self.name, given)


def checked(check: Callable[..., Any], *, default: Any = MISSING, **limits: Any) -> Any:
    """`Checked`, as the value of a field that is annotated with the type of the value.

    ``k: int = checked(whole, least=1, default=20)``.
    """
    return Checked(partial(check, **limits) if limits else check, default=default)


def word(*words: str) -> Any:
    """A field that is one of several words, by default the first."""
    return Checked(partial(one_of, choices=words), default=words[0])


def _require(
    fits: bool, name: str, right: str, value: Any, error: type[Exception] = ValueError
) -> Any:
    if not fits:
        raise error(f"{name} must be {right}, not {_quoted(value)}")
    return value


def _quoted(value: Any) -> str:
    """A value for a message of one line; Python refuses to write integers of more than 4300 digits."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"one of {value.bit_length()} bits"
    return f"{' '.join(repr(value).split()):.200}"
