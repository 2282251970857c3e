"""Components of the running session: classes and objects that no distribution offers."""

from __future__ import annotations

import inspect
import re
from typing import Any

from .spec import LOCAL, LocalSpec, fold


class Session:
    """What was defined in this session, as ``local/<class>``; of one name, the newest."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], LocalSpec] = {}

    @property
    def specs(self) -> list[LocalSpec]:
        """What is known."""
        return list(self._known.values())

    def define(self, kind: str, value: Any) -> LocalSpec:
        """Make a class or object known; a second time, it is what it was."""
        named = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
        name = re.sub(r"[^a-z0-9_]", "", fold(named.__name__)).strip("_") or "object"
        known = self._known.get((kind, name))
        if known is None or known.value is not value:
            target = f"{named.__module__}:{named.__qualname__}"
            known = self._known[kind, name] = LocalSpec(kind, name, target, LOCAL, "", value)
        return known
