"""The measurements of an evaluator, by name."""

from __future__ import annotations

from collections.abc import Iterable

from ccl_plugins.protocols import Measurement


def by_name(measurements: Iterable[Measurement]) -> dict[str, Measurement]:
    """Each measurement by its name."""
    return {each.name: each for each in measurements}


def values(measurements: Iterable[Measurement]) -> dict[str, float]:
    """The numbers alone, by name."""
    return {each.name: each.value for each in measurements}
