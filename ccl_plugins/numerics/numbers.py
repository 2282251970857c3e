"""Numbers: floats if they are fixed, 0-d tensors if they change over training."""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor

Number: TypeAlias = float | Tensor
"""A float if the number is fixed, a 0-d tensor if it is scheduled or learned."""


def is_zero(number: Number) -> bool:
    """Whether a number is fixed at 0; the value of a number that changes is never read."""
    return not isinstance(number, Tensor) and number == 0


def log(number: Number) -> Number:
    """The logarithm of a float or a tensor."""
    return number.log() if isinstance(number, Tensor) else math.log(number)


def plus(x: Tensor, number: Number, y: Tensor) -> Tensor:
    """``x + number · y``, in one pass if the number is fixed."""
    return x + number * y if isinstance(number, Tensor) else torch.add(x, y, alpha=number)
