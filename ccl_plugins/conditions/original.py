"""The backbone's features before training as conditioning variable."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ccl_plugins.protocols import Embedder, ReadsEmbeddings, Refresh, Table, ValueType


class Original:
    """The backbone's own features of each image before the first step.

    The network that the run begins with, pretrained or not, computes them from un-augmented images,
    which the run's transform prepares. They are computed once; a resumed run uses the same
    features.

    Shape:
        N samples -> (N, f)
    """

    refresh: Refresh = "never"
    value_type: ValueType = "continuous"
    reads_embeddings: ReadsEmbeddings = "features"

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """The features of the training split."""
        return embed()
