"""The laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ccl_plugins.testing.subject import Subject


def observe(subject: Subject, built: Any) -> Any:
    """Nothing yet."""
    return None


CHECKS: list[Callable[[Subject], None]] = []
