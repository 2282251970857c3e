"""One anchor with the samples that weigh most and least in its loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ccl_plugins.runs.figures.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.runs.pipeline import Run


@styled
def anchor(runs: Mapping[str, Run], index: int | None = None) -> Figure:
    """Draw one anchor image with its most and least weighted negatives and positives, by run.

    Args:
        runs: The runs by the title over their column.
        index: The anchor's index in the training split; None: the sample whose weights differ most.
    """
    raise NotImplementedError
