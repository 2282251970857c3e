"""Optimisers: which parameters decay, and how the learning rate runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def parameter_groups(method: nn.Module, objective: nn.Module) -> list[dict[str, Any]]:
    """The parameters that learn, in named groups; the latter two are without weight decay.

    ``decay``: the method's matrices and filters.  ``no_decay``: its 1-D parameters, biases, those of
    norms, and what ``backbone.no_weight_decay()`` names (position embeddings, say).  ``objective``:
    all of the objective's own, as a temperature.
    """
    kept = _undecayed(method)
    groups: dict[str, list[nn.Parameter]] = {"decay": [], "no_decay": [], "objective": []}
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            groups["no_decay" if name in kept else "decay"].append(parameter)
    owned = {id(p) for p in method.parameters()}
    groups["objective"] = [
        p for p in objective.parameters() if p.requires_grad and id(p) not in owned
    ]
    return [
        {"name": name, "params": params, **({} if name == "decay" else {"weight_decay": 0.0})}
        for name, params in groups.items()
        if params
    ]


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


def make_optimizer(
    groups: list[dict[str, Any]], settings: Mapping[str, Any]
) -> torch.optim.Optimizer:
    """The optimiser that ``FitSettings.optimizer`` describes."""
    options = {k: v for k, v in settings.items() if k != "name"}
    if settings["name"] == "adamw":
        return torch.optim.AdamW(groups, **options)
    if settings["name"] == "sgd":
        return torch.optim.SGD(groups, **options)
    from lightly.utils.lars import LARS

    # Groups without weight decay get no layer-wise scaling from it, as 1-D parameters should not.
    return LARS(groups, **options)


def warmup_cosine(total: int, warmup: int) -> Callable[[int], float]:
    """The learning rate's factor at each step: linear over ``warmup`` steps, then a cosine to 0.

    A function, so that a scheduler's state does not hold ``total``: a resumed run may be longer.
    """
    from lightly.utils.scheduler import cosine_warmup_schedule

    def factor(step: int) -> float:
        # One more than there are steps, or the last would have rate 0 and change nothing.
        return cosine_warmup_schedule(
            step=min(step, total),
            max_steps=total + 1,
            start_value=1.0,
            end_value=0.0,
            warmup_steps=warmup,
            warmup_start_value=0.0,
        )

    return factor
