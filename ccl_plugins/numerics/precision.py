"""The floating-point precision in which losses are computed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """``x``, converted to float32 if it holds narrower floats."""
    return x.float() if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x


def unit(x: Tensor) -> Tensor:
    """Vectors (..., d) at unit length; zeros stay zeros.

    Each vector is first multiplied by a power of two, which changes no digit, so that its largest
    entry is near 1: float32 cannot hold the squares of 1e20 and of 1e-30.
    """
    y, _ = _Unit.apply(x)  # type: ignore[no-untyped-call]  # torch's
    return y  # type: ignore[no-any-return]  # torch's


class _Unit(torch.autograd.Function):
    """Unit vectors, and the lengths by which they were divided.

    The gradient is that of `torch.nn.functional.normalize` to the last digit, in half the operations.
    It is computed from both outputs, and both have a gradient, so it can be differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        largest = x.abs().amax(-1, keepdim=True)
        most = 1022 if x.dtype == torch.float64 else 126
        power = torch.frexp(largest).exponent.clamp_(-most, most)
        scale = torch.ldexp(torch.ones_like(largest), -power)
        scaled = x * scale
        length = scaled.norm(dim=-1, keepdim=True).clamp_min_(1e-12)
        y = scaled / length
        ctx.save_for_backward(y, length, scale)
        ctx.set_materialize_grads(False)
        return y, length

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, of_length: Tensor | None) -> Tensor | None:
        y, length, scale = ctx.saved_tensors
        if grad is None:
            return None if of_length is None else of_length * y * scale
        along = (grad * (y / length)).sum(-1, keepdim=True)
        if of_length is not None:
            along = along - of_length
        return (grad / length - y * along) * scale
