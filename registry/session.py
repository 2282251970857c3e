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

    def define(self, spec: LocalSpec) -> None:
        """Make it known."""
        self._known[spec.kind, spec.name] = spec


def local_spec(kind: str, value: Any) -> LocalSpec:
    """The specification of a class or object."""
    named = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
    name = re.sub(r"[^a-z0-9_]", "", fold(named.__name__)).strip("_") or "object"
    target = f"{named.__module__}:{named.__qualname__}"
    return LocalSpec(kind, name, target, LOCAL, "", value)
