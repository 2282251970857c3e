"""Optimisers: which parameters decay, and how fast each learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.LocalResponseNorm,
)


def parameter_groups(
    method: nn.Module, objective: nn.Module, decay: str = "matrices", layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """The parameters that learn, in named groups with a factor of the learning rate, the heads' first.

    ``decay``: the method's matrices and filters.  ``no_decay``, without weight decay: its 1-D
    parameters, biases, those of norms, and what ``backbone.no_weight_decay()`` names (position
    embeddings, say).  ``objective``: all of the objective's own, as a temperature; without decay.

    Args:
        method: Has a ``backbone``.
        objective: May have parameters of the method; these count as the method's.
        decay: ``"matrices"``, or ``"all"`` to decay all of the method's.
        layer_decay: Factor from each layer of the backbone to the one before it, whose parameters
            then are in groups ``decay/<layer>``; the heads are one layer above.

    Raises:
        ValueError: If ``layer_decay`` is not 1 and the backbone does not know its ``layer_numbers()``.
    """
    kept = _undecayed(method) if decay == "matrices" else set()
    layers = _layers(method) if layer_decay != 1 else {}
    top = 1 + max(layers.values(), default=-1)
    groups: dict[tuple[int, str], list[nn.Parameter]] = {}
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            key = layers.get(name, top), "no_decay" if name in kept else "decay"
            groups.setdefault(key, []).append(parameter)
    named = [
        {
            "name": f"{name}/{layer}" if layers else name,
            "params": groups[layer, name],
            "lr_scale": layer_decay ** (top - layer),
            **({} if name == "decay" else {"weight_decay": 0.0}),
        }
        for layer, name in sorted(groups, key=lambda key: (-key[0], key[1]))
    ]
    owned = {id(p) for p in method.parameters()}
    own = [p for p in objective.parameters() if p.requires_grad and id(p) not in owned]
    if own:
        named.append({"name": "objective", "params": own, "lr_scale": 1.0, "weight_decay": 0.0})
    return named


def _undecayed(method: nn.Module) -> set[str]:
    names = set()
    for prefix, module in method.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if parameter.ndim <= 1 or name.endswith("bias") or isinstance(module, NORMS):
                names.add(name)
    backbone: Any = getattr(method, "backbone", None)
    if hasattr(backbone, "no_weight_decay"):
        names |= {f"backbone.{name}" for name in backbone.no_weight_decay()}
    return names


def _layers(method: nn.Module) -> dict[str, int]:
    backbone: Any = getattr(method, "backbone", None)
    if not hasattr(backbone, "layer_numbers"):
        raise ValueError(
            f"optimizer layer_decay needs a backbone that knows its layers, as those of timm do, and"
            f" {type(backbone).__name__} does not: leave layer_decay out"
        )
    return {f"backbone.{name}": layer for name, layer in backbone.layer_numbers().items()}


def make_optimizer(
    groups: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], samples: int
) -> torch.optim.Optimizer:
    """The optimiser that ``FitSettings.optimizer`` describes.

    Args:
        groups: As `parameter_groups` gives them.
        settings: Complete.
        samples: In each of its steps, over all devices.
    """
    lr = settings["lr"] * (samples / settings["lr_per"] if settings["lr_per"] else 1)
    options = {
        key: settings[key] for key in ("weight_decay", "momentum", "nesterov") if key in settings
    }
    scaled = [{**group, "lr": lr * group["lr_scale"]} for group in groups]
    if settings["name"] == "adam":
        return torch.optim.Adam(scaled, lr, **options)
    if settings["name"] == "adamw":
        return torch.optim.AdamW(scaled, lr, **options)
    if settings["name"] == "sgd":
        return torch.optim.SGD(scaled, lr, **options)
    from lightly.utils.lars import LARS

    # Groups without weight decay get no layer-wise scaling from it, as 1-D parameters should not.
    return LARS(scaled, lr, **options)
