"""The protocol of the classes that draw a partner for each anchor."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from torch import Tensor


class Partners(Protocol):
    """The distribution P(.|z) of samples given an anchor's condition z.

    Constructors take ``values``, (N,) or (N, c) of the condition, and ``own_pair``, whether a
    sample may be its own partner, which it always is without another candidate.
    """

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) a partner for each of (n,) anchors, with random numbers from ``draws``."""
        ...
