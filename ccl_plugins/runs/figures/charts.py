"""Charts of what was measured: curves, the information plane, bars, and what is kept and leaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ccl_plugins.runs.figures.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.runs.pipeline import Run


@styled
def curves(runs: Mapping[str, Run], names: Sequence[str] | None = None) -> Figure:
    """Draw what runs logged over their steps, a panel for each scalar.

    Args:
        runs: The runs by their titles.
        names: Names of scalars, or beginnings of names that end in ``/``; None: the loss and all
            ``monitor/``.
    """
    raise NotImplementedError


@styled
def information_plane(runs: Mapping[str, Run]) -> Figure:
    """Draw the runs' categorical conditions Z by I(Z;T) and H(Z|T), T being the label.

    Args:
        runs: The runs by their titles.
    """
    raise NotImplementedError


@styled
def bars(runs: Mapping[str, Run], metric: str | None = None) -> Figure:
    """Draw the runs' metrics as bars, with their intervals.

    Args:
        runs: The runs by their titles.
        metric: The name of a metric; None: a panel for each.
    """
    raise NotImplementedError


@styled
def kept_and_leaked(runs: Mapping[str, Run]) -> Figure:
    """Draw one point per run: how well the label is read from the features, and how well Z is.

    Args:
        runs: The runs by their titles.
    """
    raise NotImplementedError
