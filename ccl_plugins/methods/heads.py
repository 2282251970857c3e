"""Heads: from features to projections."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.arguments import DEEPEST, WIDEST, did_you_mean, matrix, one_of, whole

LastNorm = Literal["affine", "plain", "none"]
"""The batch normalization after the last layer: with learned scale and shift, without, or none."""

NamedHead: TypeAlias = str | Mapping[str, Any] | None
"""A class in ``lightly.models.modules.heads``, such as ``"VICRegProjectionHead"``, or a table of
its ``name`` and further arguments; None: `mlp_head`."""


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
        hidden: Width of the hidden layers, 1 to 2^20.
        dim: Dimension of the projections, 1 to 2^20.
        layers: Linear layers, 1 to 1024.
        batch_norm: Whether layers have batch normalization; these layers have no bias.
        last_norm: The normalization of the last layer, if ``batch_norm``.
        last_bias: Whether a last layer without normalization has a bias.

    Raises:
        TypeError: For a width or a number of layers that is not a whole number.
        ValueError: For one out of range, and for another ``last_norm``.
    """
    from lightly.models.modules.heads import ProjectionHead

    whole("hidden", hidden, 1, WIDEST)  # checked even if no layer has this width
    between = [("hidden", hidden)] * (whole("layers", layers, 1, DEEPEST) - 1)
    _check_widths(("features", inputs), *between, ("dim", dim))
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


def chosen_head(
    method: type, head: NamedHead, inputs: int, hidden: int, dim: int, **settings: Any
) -> nn.Module:
    """A method's head: `mlp_head` with these settings, or lightly's of that name.

    Args:
        method: The method's class; with a named head, settings must keep its defaults.
        head: The name, or a table of name and arguments.
        inputs: Length of a feature vector.
        hidden: Width of the hidden layers.
        dim: Dimension of the projections.
        settings: The other arguments of `mlp_head`.

    Raises:
        TypeError: For a table without a name, and for arguments that the class does not take.
        ValueError: For an unknown name, and for settings beside a named head.
    """
    if head is None:
        return mlp_head(inputs, hidden, dim, **settings)
    name, options = (head, {}) if isinstance(head, str) else _read(head)
    defaults = inspect.signature(method).parameters
    for setting, value in settings.items():
        if value != defaults[setting].default:
            raise ValueError(
                f"head={name!r} has layers of its own: leave out {setting}={value!r}, or give the head's"
                f" arguments, such as head={{name = {name!r}, num_layers = 3}}"
            )
    known = _lightly_heads()
    if name not in known:
        near = did_you_mean(name, known)
        raise ValueError(f"lightly has no projection head {name!r} of one output.{near}")
    parameters = inspect.signature(known[name]).parameters
    _check_widths(("features", inputs), ("hidden", hidden), ("dim", dim))
    widths = {"input_dim": inputs, "hidden_dim": hidden, "output_dim": dim}
    allowed = [each for each in parameters if each not in widths]
    for option, value in options.items():
        if option not in allowed:
            own = f"takes {', '.join(allowed)}" if allowed else "takes no arguments"
            raise TypeError(f"lightly's {name} {own} beside hidden and dim, not {option!r}")
        if option == "num_layers":  # asked for fewer, most heads have two layers
            whole(option, value, 1 if name == "MMCRProjectionHead" else 2, DEEPEST)
    built: nn.Module = known[name](**widths, **options)
    return built


def _check_widths(*layers: tuple[str, int]) -> None:
    """Refuse widths of successive layers that are out of range, or that make too large a matrix."""
    for name, width in dict(layers[1:]).items():  # without the first width, that of the features
        whole(name, width, 1, WIDEST)
    for pair in pairwise(layers):
        matrix(*pair)


def _read(head: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    options = dict(head)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise TypeError(f"head must be a name or {{name = ..., ...}}, not {head!r}")
    return name, options


def _lightly_heads() -> dict[str, Any]:
    """Lightly's heads from features to one projection, without heads of prototype scores."""
    from lightly.models.modules import heads

    def projects(head: Any) -> bool:
        names = inspect.signature(head).parameters.keys()
        return {"input_dim", "hidden_dim", "output_dim"} <= names and "bottleneck_dim" not in names

    return {
        name: head
        for name, head in vars(heads).items()
        if name.endswith("ProjectionHead") and projects(head)
    }


class PrototypeHead(nn.Module):
    """Prototype scores: an MLP onto the unit sphere, and its inner products with unit vectors.

    With equal weights it computes the same as lightly's ``DINOProjectionHead``; unlike that, it can
    be copied.

    Args:
        inputs: Length of a feature vector.
        hidden: Width of the hidden layers, 1 to 2^20.
        bottleneck: Width of the prototypes, 1 to 2^20.
        dim: Number of prototypes, 1 to 2^20.
        batch_norm: Whether hidden layers have batch normalization.
        learned_norms: Whether the prototypes' norms, 1 at first, are learned.

    Raises:
        TypeError: For a width that is not a whole number.
        ValueError: For one out of range.
    """

    is_frozen: Tensor
    """Whether the prototypes get a gradient of 0."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        bottleneck: int,
        dim: int,
        *,
        batch_norm: bool = False,
        learned_norms: bool = False,
    ) -> None:
        from lightly.models.modules.heads import ProjectionHead

        super().__init__()
        between = [("hidden", hidden)] * 2
        _check_widths(("features", inputs), *between, ("bottleneck", bottleneck), ("dim", dim))
        blocks: list[tuple[Any, ...]] = [
            (before, hidden, nn.BatchNorm1d(hidden) if batch_norm else None, nn.GELU())
            for before in (inputs, hidden)
        ]
        head = ProjectionHead([*blocks, (hidden, bottleneck, None, None)])
        self.layers: nn.Module = head.layers
        for layer in self.layers.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        self.prototypes = nn.Parameter(nn.Linear(bottleneck, dim, bias=False).weight.detach())
        self.norms = nn.Parameter(torch.ones(dim)) if learned_norms else None
        self.register_buffer("is_frozen", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        """Scores (n, dim) of features (n, inputs)."""
        prototypes = functional.normalize(self.prototypes, dim=1)
        if self.norms is not None:
            prototypes = prototypes * self.norms[:, None]
        # A gradient of zero, and not none, so that every process has one.
        prototypes = torch.where(self.is_frozen, prototypes.detach(), prototypes)
        return functional.normalize(self.layers(x), dim=1) @ prototypes.T
