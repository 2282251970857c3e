"""The parameters that learn, in groups with their learning rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from ccl_plugins.protocols import trait

NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.LocalResponseNorm,
)
"""The normalization layers of torch."""


def scaled(
    groups: Iterable[Mapping[str, Any]], lr: float, samples: int, lr_per: int | None
) -> list[dict[str, Any]]:
    """The groups with their learning rates, for steps of ``samples`` samples over all devices.

    Args:
        groups: The groups of `parameter_groups`.
        lr: The optimizer's learning rate.
        samples: Samples in a step.
        lr_per: The number of samples that ``lr`` is for; None: any number.
    """
    rate = lr * (samples / lr_per if lr_per else 1)
    return [{**group, "lr": rate * group["lr_scale"]} for group in groups]


def parameter_groups(
    method: nn.Module, objective: nn.Module, decay: str = "matrices", layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """The parameters that learn, in named groups with a factor of the learning rate.

    Group ``decay`` has the method's matrices and filters.  ``no_decay`` has its 1-D parameters, biases,
    parameters of norms, and parameters that ``no_weight_decay()`` of the backbone, or of a tower,
    names, such as position embeddings. ``objective`` has the objective's own parameters, such as a
    temperature, without decay.

    Args:
        method: Its backbone is called ``backbone``.
        objective: Parameters that it shares with the method count as the method's.
        decay: ``"matrices"``, or ``"all"`` for weight decay on all of the method's parameters.
        layer_decay: Factor from each layer of the backbone to the one before it; groups are then named
            ``decay/<layer>``, heads are one layer above the backbone, and their groups come first.

    Raises:
        ValueError: If ``layer_decay`` is not 1 and the backbone has no ``layer_numbers()``.
    """
    backbone = getattr(method, "backbone", None)
    kept = _undecayed(method, backbone) if decay == "matrices" else set()
    layers = _layers(backbone) if layer_decay != 1 else {}
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
    shared = {id(p) for p in method.parameters()}
    own = [p for p in objective.parameters() if p.requires_grad and id(p) not in shared]
    if own:
        named.append({"name": "objective", "params": own, "lr_scale": 1.0, "weight_decay": 0.0})
    return named


def _undecayed(method: nn.Module, backbone: Any) -> set[str]:
    names = set()
    for prefix, module in method.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if parameter.ndim <= 1 or name.endswith("bias") or isinstance(module, NORMS):
                names.add(name)
    networks = {"backbone": backbone}
    networks |= {f"towers.{name}": tower for name, tower in getattr(method, "towers", {}).items()}
    return names | {
        f"{place}.{name}"
        for place, network in networks.items()
        for name in trait(network, "no_weight_decay")()
    }


def _layers(backbone: Any) -> dict[str, int]:
    numbers = trait(backbone, "layer_numbers")
    if numbers is None:
        raise ValueError(
            f"layer_decay needs a backbone with layer_numbers(), as those of timm do, and"
            f" {type(backbone).__name__} does not: leave layer_decay out"
        )
    return {f"backbone.{name}": layer for name, layer in numbers().items()}
