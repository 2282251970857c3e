"""Optimizers: which parameters decay, and how fast each learns."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from ccl_plugins.arguments import below_one, non_negative, number, one_of, positive, whole

_SHARED = {"lr_per": None, "decay": "matrices", "layer_decay": 1.0}

OPTIMIZERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "adam": {"lr": 1e-3, "weight_decay": 0.0, **_SHARED},
        "adamw": {"lr": 3e-3, "weight_decay": 1e-4, **_SHARED},
        "sgd": {"lr": 0.06, "weight_decay": 5e-4, "momentum": 0.9, "nesterov": False, **_SHARED},
        "lars": {"lr": 0.3, "weight_decay": 1e-6, "momentum": 0.9, **_SHARED},
    }
)
"""The optimizers and their settings with the values they have where none is given."""

SCHEDULES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "cosine": {"per": "step", "start": 0.0, "end": 0.0, "overlap": False, "reach_end": False},
        "step": {"per": "epoch", "start": 0.0, "milestones": [], "factor": 0.1},
        "constant": {"per": "step", "start": 0.0},
    }
)
"""The schedules of the learning rate and their settings, likewise."""

_WORDS = {"decay": ("matrices", "all"), "per": ("step", "epoch")}


def complete_optimizer(given: Any) -> dict[str, Any]:
    """The table ``optimizer`` with the default of each setting that is not given.

    Raises:
        TypeError: For a value of another type.
        ValueError: For unknown names, and values out of range.
    """
    values = _complete("optimizer", given, OPTIMIZERS, 'name = "adamw", lr = 3e-3', "adamw")
    positive("optimizer lr", values["lr"])
    non_negative("optimizer weight_decay", values["weight_decay"])
    if "momentum" in values:
        below_one("optimizer momentum", values["momentum"])
    if values["lr_per"] is not None:
        whole("optimizer lr_per", values["lr_per"], 1)
    if not 0 < values["layer_decay"] <= 1:
        raise ValueError(
            f"optimizer layer_decay must be above 0 and at most 1, not {values['layer_decay']!r}"
        )
    if values.get("nesterov") and values["momentum"] == 0:
        raise ValueError("optimizer nesterov needs a momentum above 0")
    if values["name"] == "lars" and values["weight_decay"] == 0:
        raise ValueError(
            "optimizer weight_decay must be above 0 for lars, which scales the steps of those"
            " parameters only that decay: 1e-6 is usual"
        )
    return values


def complete_schedule(given: Any) -> dict[str, Any]:
    """The table ``schedule`` with the default of each setting that is not given.

    Raises:
        TypeError: For a value of another type.
        ValueError: For unknown names, and values out of range.
    """
    values = _complete("schedule", given, SCHEDULES, 'name = "cosine", end = 0.001', "cosine")
    for key in ("start", "end", "factor"):
        if key in values:
            non_negative(f"schedule {key}", values[key])
    if values["name"] == "step":
        milestones = values["milestones"]
        if not isinstance(milestones, list | tuple) or not milestones:
            raise ValueError(
                f"schedule milestones must be epochs, as [120, 160], not {milestones!r}"
            )
        for each in milestones:
            whole("each of the schedule's milestones", each, 1)
        if sorted(set(milestones)) != list(milestones):
            raise ValueError(f"schedule milestones must rise, not {milestones!r}")
        values["milestones"] = list(milestones)
    return values


def _complete(
    table: str,
    given: Any,
    known: Mapping[str, Mapping[str, Any]],
    example: str,
    default: str,
) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{table} must be a table as {{{example}}}, not {given!r}")
    name = given.get("name", default)
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"there is no {table} {name!r}{_suggest(name, [*known])}")
    settings = known[name]
    for key in given:
        if key != "name" and key not in settings:
            raise ValueError(f"{name} has no setting {key!r}{_suggest(key, ['name', *settings])}")
    values = {k: given.get(k, v) for k, v in settings.items()}
    for key, value in settings.items():
        place = f"{table} {key}"
        if key in _WORDS:
            one_of(place, values[key], _WORDS[key])
        elif isinstance(value, bool):
            if not isinstance(values[key], bool):
                raise TypeError(f"{place} must be true or false, not {values[key]!r}")
        elif isinstance(value, float):
            values[key] = float(number(place, values[key]))
    return {"name": name, **values}


def _suggest(word: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(word), known, 1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f" (there are {', '.join(known)})"


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
    """The optimizer that ``FitSettings.optimizer`` describes.

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
