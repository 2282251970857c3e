"""Figures of the kernel of a condition: as a matrix, and against the similarity of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccl_plugins.runs.figures.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.runs.pipeline import Run


@styled
def kernel_matrix(run: Run, condition: str | None = None) -> Figure:
    """Draw the kernel matrix K of a condition beside the conditional operator W, samples in order of Z.

    Args:
        run: The run.
        condition: The name of the condition; None: the first one that a kernel reads.
    """
    raise NotImplementedError


@styled
def similarity(run: Run, condition: str | None = None) -> Figure:
    """Draw the similarity of features against the kernel of a condition.

    Args:
        run: The run.
        condition: The name of the condition; None: the first one that a kernel reads.
    """
    raise NotImplementedError
