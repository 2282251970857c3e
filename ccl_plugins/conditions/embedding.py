"""The model's own embedding as conditioning variable."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.protocols import Embedded, Refresh, ValueType


class Embedding:
    """The model's own embedding of each view, without gradient, computed in every batch.

    Projections and keys are always L2-normalized, even if the objective reads raw embeddings.

    Shape:
        a batch of u views -> (u, n, c)

    Args:
        of: ``"projection"``: the head's output, which objectives compare (the paper's z = g(x));
            ``"backbone"``: the features before the head (as in the released code); views of other
            modalities get the features of the first image. ``"key"``: the momentum encoder's keys.

    Raises:
        ValueError: For another value of ``of``, and for ``"key"`` under a method without keys.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (9).
    """

    refresh: Refresh = "batch"
    value_type: ValueType = "continuous"

    def __init__(self, of: Literal["projection", "backbone", "key"] = "projection") -> None:
        self.of = one_of("of", of, ("projection", "backbone", "key"))

    def __call__(self, embedded: Embedded) -> Tensor:
        """(u, n, c) features, detached."""
        if self.of == "backbone":
            features, views = embedded.features.detach(), len(embedded.projections)
            # Of several modalities, only images have features: other views get those of the first image.
            others = features[:1].expand(max(0, views - len(features)), -1, -1)
            return torch.cat([features, others]) if len(others) else features
        if self.of == "projection":
            return embedded.projections.detach()
        if embedded.keys is None:
            raise ValueError(
                "embedding(of='key') needs a method with a momentum encoder, such as moco_v2;"
                " of='projection' works with every method"
            )
        return embedded.keys.detach()
