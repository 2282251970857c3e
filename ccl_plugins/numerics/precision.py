"""The floating-point precision in which losses are computed."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def at_least_float32(x: Tensor) -> Tensor:
    """``x``, converted to float32 if it holds narrower floats."""
    return x.float() if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x


def unit(x: Tensor) -> Tensor:
    """Vectors (..., d) at unit length; zeros stay zeros.

    Each is first multiplied by a power of two, which changes no digit, so that its largest entry is near 1:
    the squares of 1e20 and of 1e-30 are not float32 numbers.
    """
    with (
        torch.no_grad()
    ):  # the gradient of `ldexp` itself is 0 for negative exponents in torch 2.11
        largest = x.abs().amax(-1, keepdim=True)
        most = 1022 if x.dtype == torch.float64 else 126
        power = torch.frexp(largest).exponent.clamp_(-most, most)
        scale = torch.ldexp(torch.ones_like(largest), -power)
    return functional.normalize(x * scale, dim=-1)
