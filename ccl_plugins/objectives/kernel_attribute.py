"""The kernel of an objective, of one condition or of several."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from torch import nn

from ccl_plugins.numerics.joint import Joint
from ccl_plugins.numerics.kernel_functions import conditions_of_kernel
from ccl_plugins.pairs.pairs import Pairs


class KernelAttribute:
    """An attribute of an objective that is set to a kernel, or to None.

    A kernel that names the conditions that it reads becomes a kernel of their packed values.
    """

    def __get__(self, objective: nn.Module | None, owner: type | None = None) -> Any:
        if objective is None:
            return self
        held = getattr(objective, "_kernel", None)
        if held is None and (module := objective._modules.get("kernel")) is not None:
            held = as_kernel(module)  # nn.Module holds a kernel that is a module under its own name
            objective.__dict__["_kernel"] = held
        return held

    def __set__(self, objective: nn.Module, kernel: Any) -> None:
        objective._kernel = as_kernel(kernel)


def as_kernel(kernel: Any) -> Any:
    """A kernel of one tensor: of packed values, if it names several conditions."""
    if isinstance(kernel, Joint) or not callable(kernel) or not conditions_of_kernel(kernel):
        return kernel
    return Joint(kernel)


def joined(pairs: Pairs, kernel: Any, on: str) -> Pairs:
    """Pairs with the packed conditions of a kernel that names several, as the condition ``on``."""
    if not isinstance(kernel, Joint):
        return pairs
    condition = {**pairs.condition, on: kernel.pack(pairs.condition)}
    queued = pairs.queue_condition
    if pairs.queue is not None:
        queued = {**queued, on: kernel.pack(queued)}
    return replace(pairs, condition=condition, queue_condition=queued)


def refuse_on(objective: Any) -> None:
    """Refuse an objective's ``on`` beside a kernel that names conditions itself.

    Raises:
        ValueError: If ``on`` is not its default, with the conditions that the kernel names.
    """
    kernel = objective.kernel
    if torch.compiler.is_compiling() or not isinstance(kernel, Joint):
        return
    parameter = signature(type(objective)).parameters.get("on")
    if parameter is not None and objective.on != parameter.default:
        raise ValueError(
            f"{type(objective).__name__} reads the conditions that its kernel names"
            f" ({', '.join(kernel.names)}): leave out on={objective.on!r}"
        )
