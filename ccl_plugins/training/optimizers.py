"""The optimizer, its parameter groups, and the schedule of its learning rate."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
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


def make_optimizer(
    groups: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], samples: int
) -> torch.optim.Optimizer:
    """The optimizer of ``FitSettings.optimizer``, for steps of ``samples`` samples over all devices."""
    from lightly.utils.lars import LARS

    makers: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "sgd": torch.optim.SGD,
        # It does not scale the steps of groups without weight decay, such as 1-D parameters.
        "lars": LARS,
    }
    lr = settings["lr"] * (samples / settings["lr_per"] if settings["lr_per"] else 1)
    options = {
        key: settings[key] for key in ("weight_decay", "momentum", "nesterov") if key in settings
    }
    scaled = [{**group, "lr": lr * group["lr_scale"]} for group in groups]
    made: torch.optim.Optimizer = makers[settings["name"]](scaled, lr, **options)
    return made


def parameter_groups(
    method: nn.Module, objective: nn.Module, decay: str = "matrices", layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """The parameters that learn, in named groups with a factor of the learning rate.

    Group ``decay`` has the method's matrices and filters.  ``no_decay`` has its 1-D parameters, biases,
    parameters of norms, and those that ``backbone.no_weight_decay()`` names, such as position
    embeddings.  ``objective`` has the objective's own parameters, such as a temperature, without decay.

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
    return names | {f"backbone.{name}" for name in trait(backbone, "no_weight_decay")()}


def _layers(backbone: Any) -> dict[str, int]:
    numbers = trait(backbone, "layer_numbers")
    if numbers is None:
        raise ValueError(
            f"optimizer layer_decay needs a backbone with layer_numbers(), as those of timm do, and"
            f" {type(backbone).__name__} does not: leave layer_decay out"
        )
    return {f"backbone.{name}": layer for name, layer in numbers().items()}


def make_schedule(
    settings: Mapping[str, Any], epochs: int, steps_per_epoch: int, warmup_epochs: float
) -> Callable[[int], float]:
    """The factor of the learning rate as a function of the optimizer step, from 0 on.

    It is a function, so that the number of steps is not part of the scheduler's state: a resumed run
    may be longer.  ``settings`` are ``FitSettings.schedule``.
    """
    per = steps_per_epoch if settings["per"] == "epoch" else 1
    total = epochs * steps_per_epoch // per
    warmup = warmup_epochs if settings["per"] == "epoch" else round(warmup_epochs * steps_per_epoch)
    name, start = settings["name"], settings["start"]
    overlap = name != "cosine" or settings["overlap"]

    def factor(step: int) -> float:
        at = step // per
        # The first step is above the start already: with a start of 0 it would change nothing.
        rise = min(start + (1 - start) * (at + 1) / warmup, 1.0) if warmup else 1.0
        if name == "constant":
            return rise
        if name == "step":
            passed = bisect_right(settings["milestones"], step // steps_per_epoch)
            return min(rise, settings["factor"] ** passed)
        if overlap:
            return min(rise, _cosine(at, total, settings))
        return rise if at < warmup else _cosine(at - warmup, total - warmup, settings)

    return factor


def _cosine(at: float, total: float, settings: Mapping[str, Any]) -> float:
    """From 1 down to ``end``, at the last of ``total`` steps with ``reach_end``, else one step later."""
    from lightly.utils.scheduler import cosine_schedule

    # lightly's schedule ends at the last of its steps, so it gets one more.
    return cosine_schedule(
        min(at + settings["reach_end"], total),
        total + 1,
        start_value=1.0,
        end_value=settings["end"],
    )
