"""The tables ``optimizer`` and ``schedule`` of ``[fit]``: what they take, and what is left out."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ccl_plugins.ranges import below_one, non_negative, number, one_of, positive, whole

_SHARED = {"lr_per": None, "decay": "matrices", "layer_decay": 1.0}

OPTIMIZERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "adam": {"lr": 1e-3, "weight_decay": 0.0, **_SHARED},
        "adamw": {"lr": 3e-3, "weight_decay": 1e-4, **_SHARED},
        "sgd": {"lr": 0.06, "weight_decay": 5e-4, "momentum": 0.9, "nesterov": False, **_SHARED},
        "lars": {"lr": 0.3, "weight_decay": 1e-6, "momentum": 0.9, **_SHARED},
    }
)
"""The optimisers and their settings with the values they have where none is given."""

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
