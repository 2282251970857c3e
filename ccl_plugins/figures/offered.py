"""The figures on offer, built-in ones and those of plug-ins, and drawing one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ccl_registry as engine
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import trait

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run


def offered() -> list[engine.ComponentSpec]:
    """The figures by name, built-in ones first; none is imported."""
    return sorted(registry().specs("figure"), key=lambda spec: spec.plugin != registry().host)


def draw(
    choice: engine.Choice, runs: Mapping[str, Run], first: Mapping[str, Run]
) -> tuple[Figure, str]:
    """Draw runs, and say in a caption what is seen.

    Args:
        choice: The figure.
        runs: The runs by title.
        first: The first run of each configuration, which a figure with ``side_by_side`` gets.

    Raises:
        DoesNotApply: As the figure does.
        TypeError: For a figure that returns something else.
    """
    import matplotlib.figure

    built: Any = choice.build({})
    drawn = built(first if trait(built, "side_by_side") else runs)
    if not isinstance(drawn, matplotlib.figure.Figure):
        raise TypeError(f"{choice.spec.label} must return a matplotlib Figure, not {drawn!r:.80}")
    return drawn, trait(built, "caption") or registry().summary(choice.spec)
