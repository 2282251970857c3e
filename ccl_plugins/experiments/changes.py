"""The differences between two records of a run, and which of them a resume allows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

FREE = {
    "fit.workers",
    "fit.log_every",
    "fit.checkpoint_every",
    "fit.checkpoint_every_steps",
    "fit.keep_last",
    "fit.detect_anomaly",
}
"""Settings that may change when a run is resumed: they do not change what is trained."""


FREE_TABLES = ("callbacks", "loggers", "monitor", "plugins")
"""Tables of a record that may change too: what watches a run does not change what is trained."""


def differences(saved: Any, now: Any, place: str = "") -> Iterator[str]:
    """The places in which two records differ, as ``place: saved -> now``."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*saved, *now]):
            yield from differences(saved.get(key), now.get(key), f"{place}.{key}".lstrip("."))
    elif saved != now:
        yield f"{place}: {json.dumps(saved)} -> {json.dumps(now)}"


def other_run(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences that keep a run from being resumed, as ``place: saved -> now``.

    Settings in `FREE` and what is in `FREE_TABLES` may differ, and there may be more epochs.
    """
    refused = []
    for difference in differences(*(json.loads(json.dumps(record)) for record in (saved, now))):
        place, _, values = difference.partition(": ")
        if place == "fit.epochs":
            before, _, after = values.partition(" -> ")
            if not (before.isdecimal() and after.isdecimal() and int(after) >= int(before)):
                refused.append(f"{difference} (there may be more epochs, not fewer)")
        elif place not in FREE and place.partition(".")[0] not in FREE_TABLES:
            refused.append(difference)
    return refused
