"""Maps of the features in two dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ccl_plugins.runs.figures.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.runs.pipeline import Run

Projection = Literal["pca", "tsne", "umap"]


@styled
def embedding_map(
    runs: Mapping[str, Run],
    by: str | Sequence[str] | None = None,
    method: Projection = "tsne",
) -> Figure:
    """Draw the features of several runs in two dimensions, colored by the label and by each condition.

    Args:
        runs: The runs by the title over their column.
        by: Metadata columns and conditions, a row of pictures each; None: the label and all conditions.
        method: ``"pca"``, ``"tsne"``, or ``"umap"``, which needs the extra ``umap``.
    """
    raise NotImplementedError
