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
        """Draw one or more runs of `ccl_plugins.load`, given by their titles.

        Raises:
            DoesNotApply: If there is nothing to draw, because the runs lack what the figure shows.
        """


@traits_of("figure")
class FigureTraits:
    """The optional members of a figure."""

    caption: str = ""
    """Read when a report shows the figure. The caption, in place of the first line of its docstring."""
    side_by_side: bool = False
    """Read before the figure is called. True if the figure has a part for each run; it then gets
    the first run of each configuration, at most six."""
