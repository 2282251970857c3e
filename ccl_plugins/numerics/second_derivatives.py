"""Refuse a second derivative, instead of computing a wrong one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def differentiable_once(value: Tensor) -> Tensor:
    """``value``, whose second derivative raises a RuntimeError.

    Use it for a value whose gradient is computed by hand, and for a loss that holds a factor
    constant. `torch.autograd.function.once_differentiable` allows an incomplete second derivative
    if the incoming gradient is constant, such as that of a mean. Compiled code refuses it by
    itself.
    """
    if torch.compiler.is_compiling():
        return value
    return _DifferentiableOnce.apply(value)  # type: ignore[no-any-return, no-untyped-call]  # torch's


class _DifferentiableOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        ctx.save_for_backward(value)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        if torch.is_grad_enabled():  # for a second derivative, which then reaches the value
            grad = _Refused.apply(grad, *ctx.saved_tensors)  # type: ignore[no-untyped-call]  # torch's
        return grad


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, value: Tensor) -> Tensor:
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError(
            "this loss can be differentiated once: its gradient is computed by hand, or holds a factor"
            " constant (stops_gradient = True), and the gradient of that would silently lack a part"
        )
