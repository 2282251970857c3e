"""Weights of keys by the similarity of their condition to the anchor's."""

from __future__ import annotations

import torch
from ccl_plugins.numerics import log_weights
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Kernel
from torch import Tensor


def log_kernel(kernel: Kernel, pairs: Pairs, on: str, i: int) -> Tensor:
    """(n, m + q) log k(z, z') of the anchors of view ``i`` and all samples, without gradient.

    ``EMPTY`` where a similarity is not above 0.
    """
    with torch.no_grad():
        z = pairs.everyone(on, i)
        return log_weights(similarities(kernel, z[pairs.rows], z).to(pairs.anchors.dtype))
