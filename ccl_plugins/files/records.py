"""The places in which two records differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def differences(saved: Any, now: Any, place: str = "") -> Iterator[str]:
    """The places in which plain data differ, as ``place: saved -> now``."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*saved, *now]):
            yield from differences(saved.get(key), now.get(key), f"{place}.{key}".lstrip("."))
    elif saved != now:
        yield f"{place}: {json.dumps(saved)} -> {json.dumps(now)}"
