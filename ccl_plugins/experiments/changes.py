"""Which differences between two records of a run a resume allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ccl_plugins.files.records import differences
from ccl_plugins.training.settings import FitSettings

_SETTINGS = {f"fit.{each.name}": each for each in fields(FitSettings)}

FREE = {place for place, each in _SETTINGS.items() if each.metadata.get("free")}
"""Settings that may change when a run is resumed: they do not change what is trained."""

MORE = {place: words for place, each in _SETTINGS.items() if (words := each.metadata.get("more"))}
"""Settings that may grow: the run goes on."""

ENDLESS = {place for place in MORE if _SETTINGS[place].default is None}
"""Of these, the settings that set no limit where they are None."""

FREE_TABLES = ("callbacks", "loggers", "monitor", "plugins")
"""Tables of a record that may change too: what watches a run does not change what is trained."""

DATA = "data"
"""The table of what identifies the data, which is compared by itself."""


def other_run(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences that keep a run from being resumed, as ``place: saved -> now``.

    Settings in `FREE` and what is in `FREE_TABLES` may differ, and there may be more epochs and steps.
    """
    refused = []
    for difference in differences(*(json.loads(json.dumps(record)) for record in (saved, now))):
        place, _, values = difference.partition(": ")
        if place in MORE:
            before, _, after = values.partition(" -> ")
            more = before.isdecimal() and after.isdecimal() and int(after) >= int(before)
            if not more and not (place in ENDLESS and after == "null"):
                refused.append(f"{difference} (there may be more {MORE[place]}, not fewer)")
        elif place not in FREE and place.partition(".")[0] not in (*FREE_TABLES, DATA):
            refused.append(difference)
    return refused
