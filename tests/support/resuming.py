"""What tests share that stop a run, resume it, and compare it with an unbroken one."""

from __future__ import annotations

import os
import signal
from typing import Any

import torch
from pytorch_lightning import Callback


class StopAfter(Callback):
    """Sends the process a signal in the middle of an optimizer step, as Ctrl-C does.

    Args:
        step: The step, counted from 1 in this process.
        number: The signal.
    """

    def __init__(self, step: int = 1, number: int = signal.SIGINT) -> None:
        self.left = step
        self.number = number

    def on_before_zero_grad(self, *_: Any) -> None:
        """Count a step."""
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


def assert_equal(found: Any, expected: Any) -> None:
    """Tensors, and those in dicts and lists, are equal to the bit."""
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
