"""The sample itself as conditioning variable."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ccl_plugins.protocols import Embedder, Refresh, Table, ValueType


class Instance:
    """Instance discrimination: every sample is a class of its own.

    This is the finest condition: with clusters of one image each, Cl-InfoNCE is InfoNCE.

    Shape:
        N samples -> (N,) class ids, 0 to N - 1

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 3.
    """

    refresh: Refresh = "never"
    value_type: ValueType = "categorical"

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """0 to N - 1."""
        return torch.arange(len(split))
