"""Heads: from features to projections."""

from __future__ import annotations

from typing import Any, Literal, get_args

from torch import nn

from ccl_plugins.arguments import one_of, whole

LastNorm = Literal["affine", "plain", "none"]
"""What follows the last linear layer: batch normalization with a scale and shift of its own, without,
or nothing."""


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
    """A projection head of lightly: linear layers, normalized and rectified but for the last.

    Args:
        inputs: Length of a feature vector.
        hidden: Width of the hidden layers.
        dim: Dimension of the projections.
        layers: Linear layers, 1 or more.
        batch_norm: Whether layers are normalized over the batch; those that are have no bias.
        last_norm: Of the last layer, where there is batch normalization.
        last_bias: Whether a last layer that is not normalized has a bias.

    Raises:
        TypeError: For a width or a number of layers that is no whole number.
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
