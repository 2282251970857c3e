"""What a training step must not do: wait for a GPU to read a value.

Without one, it is seen by the operations that would: reading a number, counting what is True, and taking
a Python number or list to the device.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = (
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "unique",
    "lift_fresh",
    "_assert_async",
    "nanmedian.default",  # without a dimension, its implementation for GPUs reads a number
)


class Refusing(TorchDispatchMode):
    """Raises at an operation that waits for a GPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        indices = args[1] if name.startswith("aten.index.") else ()
        of_bools = any(x is not None and x.dtype == torch.bool for x in indices)
        assert not of_bools, "an index of bools waits"
        assert not any(operation in name for operation in WAITING), f"{name} waits"
        return func(*args, **(kwargs or {}))
