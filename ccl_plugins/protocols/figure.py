"""The contract of figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ccl_plugins.protocols.traits import traits_of
from ccl_registry.errors import Mistake

if TYPE_CHECKING:
    import matplotlib.figure


class DoesNotApply(Mistake):
    """A figure cannot be drawn of these runs; the message says why."""


class Figure(Protocol):
    """A picture of runs.

    ``ccl figures`` and the report draw every figure that is installed.
    """

    def __call__(self, runs: Mapping[str, Any]) -> matplotlib.figure.Figure:
        """Draw runs, as `ccl_plugins.load` returns them, by their titles; there is at least one.

        Raises:
            DoesNotApply: If there is nothing to draw, as for runs without what the figure shows.
        """


@traits_of("figure")
class FigureTraits:
    """What a figure may have beside its protocol."""

    caption: str = ""
    """Read when a report shows the figure. What stands under it, in place of the first line of its
    docstring."""
    side_by_side: bool = False
    """Read before the figure is called. True if each run takes a part of its
    own; it then gets the first run of each configuration, and at most six."""
