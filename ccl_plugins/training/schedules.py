"""Schedules of the learning rate: its factor at each optimizer step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any


def make_schedule(
    settings: Mapping[str, Any], epochs: int, steps_per_epoch: int, warmup_epochs: float
) -> Callable[[int], float]:
    """The learning rate's factor as a function of the step, from 0 on.

    A function, so that a scheduler's state does not hold the number of steps: a resumed run may be
    longer.

    Args:
        settings: A complete ``FitSettings.schedule``.
        epochs: Of the run.
        steps_per_epoch: Optimizer steps in each.
        warmup_epochs: Epochs, or parts of one, in which the factor rises linearly.
    """
    per = steps_per_epoch if settings["per"] == "epoch" else 1
    total = epochs * steps_per_epoch // per
    warmup = warmup_epochs if settings["per"] == "epoch" else round(warmup_epochs * steps_per_epoch)
    name, start = settings["name"], settings["start"]
    overlap = name != "cosine" or settings["overlap"]

    def factor(step: int) -> float:
        at = step // per
        # The first is above its start already, or it would change nothing where that is 0.
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
    """From 1 to the end's factor, which is that of the last of ``total`` or of one after it."""
    from lightly.utils.scheduler import cosine_schedule

    # lightly reaches the end at the last of its steps, so it is told of one more.
    return cosine_schedule(
        min(at + settings["reach_end"], total),
        total + 1,
        start_value=1.0,
        end_value=settings["end"],
    )
