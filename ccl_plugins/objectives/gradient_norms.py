"""The gradients of losses at the backbone's features, to compare how strongly each loss acts on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ccl_plugins.numerics.distributed import gather
from ccl_plugins.pairs.pairs import Pairs

COPYING = (
    "Alias",
    "Cat",
    "Clone",
    "Permute",
    "ReshapeAlias",
    "Select",
    "Slice",
    "Split",
    "SplitWithSizes",
    "Squeeze",
    "Stack",
    "T",
    "ToCopy",
    "Transpose",
    "Unbind",
    "UnsafeView",
    "Unsqueeze",
    "View",
)
"""Operations that only move or copy numbers; autograd calls them ``<name>Backward<number>``."""


def gradient_norms(losses: Sequence[Tensor], pairs: Pairs) -> list[Tensor]:
    """0-d, the norms of the losses' gradients at the features of all processes' samples.

    A method may return a reshaped, cast or concatenated copy of the features that the projections
    were made of. So the gradient is taken at the source of that copy; where pairs have no features,
    at the anchors.

    Args:
        losses: Scalars, whose graph is retained.
        pairs: The pairs that the losses were computed from.

    Raises:
        ValueError: If the first loss has no gradient with respect to the features.
    """
    if torch.compiler.is_compiling():
        raise RuntimeError(
            'balance="gradient" takes gradients within the loss, which is not compiled'
        )
    edges = [*dict.fromkeys(origins(meeting_point(pairs)))]
    gradients = [_gradients(loss, edges) for loss in losses]
    if not gradients[0]:
        raise ValueError(
            'balance = "gradient" finds no gradient of the base by the features that guides read: the'
            " projections must be made of these features"
        )
    zero = losses[0].detach() * 0
    total = torch.stack(
        [sum((g.to(zero).square().sum() for g in of_loss), zero) for of_loss in gradients]
    )
    return list((gather(total[None]).sum(0) if pairs.processes > 1 else total).sqrt())


def meeting_point(pairs: Pairs) -> Tensor:
    """The features from which all losses are computed; for pairs without features, the anchors."""
    features = pairs.samples.features
    return pairs.anchors if features is None else features


def _gradients(loss: Tensor, edges: list[Any]) -> list[Tensor]:
    if not loss.requires_grad:
        return []
    gradients = torch.autograd.grad(loss, edges, retain_graph=True, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


def origins(x: Tensor) -> Iterator[GradientEdge]:
    """The source of a tensor's numbers, before all operations that only copy them."""
    waiting = [get_gradient_edge(x)]
    while waiting:
        edge = waiting.pop()
        name = edge.node.name().rpartition("::")[2]
        if name.rpartition("Backward")[0] in COPYING:
            waiting += [GradientEdge(node, i) for node, i in edge.node.next_functions if node]
        else:
            yield edge
