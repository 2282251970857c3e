"""Heads: from features to projections."""

from __future__ import annotations

from typing import Any, Literal, get_args

from torch import nn

from ccl_plugins.arguments import one_of, whole

LastNorm = Literal["affine", "plain", "none"]
"""The batch normalization after the last layer: with learned scale and shift, without, or none."""


def mlp_head(
    inputs: int,
    hidden: int,
    dim: int,
    layers: int,
    *,
    batch_norm: bool = True,
    last_norm: LastNorm = "affine",
    last_bias: bool = True,
) -> nn.Module:
    """A projection head of lightly: linear layers, each but the last with batch norm and ReLU.

    Args:
        inputs: Length of a feature vector.
        hidden: Width of the hidden layers.
        dim: Dimension of the projections.
        layers: Linear layers, 1 or more.
        batch_norm: Whether layers have batch normalization; those that do have no bias.
        last_norm: The normalization of the last layer, if ``batch_norm``.
        last_bias: Whether a last layer without normalization has a bias.

    Raises:
        TypeError: For a width or a number of layers that is not a whole number.
        ValueError: For one below 1, and for another ``last_norm``.
    """
    from lightly.models.modules.heads import ProjectionHead

    for name, value in (("hidden", hidden), ("dim", dim), ("layers", layers)):
        whole(name, value, 1)
    one_of("last_norm", last_norm, get_args(LastNorm))
    widths = [inputs, *[hidden] * (layers - 1)]
    blocks: list[tuple[Any, ...]] = [
        (before, hidden, nn.BatchNorm1d(hidden) if batch_norm else None, nn.ReLU())
        for before in widths[:-1]
    ]
    if batch_norm and last_norm != "none":
        norm = nn.BatchNorm1d(dim, affine=last_norm == "affine")
        blocks.append((widths[-1], dim, norm, None))
    else:
        blocks.append((widths[-1], dim, None, None, last_bias))
    head: nn.Module = ProjectionHead(blocks)
    return head
