"""The floating-point precision in which losses are computed."""

from __future__ import annotations

from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """``x``, converted to float32 if it holds narrower floats."""
    return x.float() if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x
