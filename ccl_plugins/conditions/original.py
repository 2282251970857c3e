"""The backbone's features before training as conditioning variable."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ccl_plugins.protocols import Embedder, ReadsEmbeddings, Refresh, Table, ValueType


class Original:
    """The backbone's own features of each image before the first step.

    They are of un-augmented images, prepared as the run's transform says, by the network that the run
    begins with, pretrained or not.  They are computed once, and a resumed run goes on with the same.

    Shape:
        N samples -> (N, f)
    """

    refresh: Refresh = "never"
    value_type: ValueType = "continuous"
    reads_embeddings: ReadsEmbeddings = "features"

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """The features of the training split."""
        return embed()
