"""Pictures of the features that runs have learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from ccl_plugins.runs.pipeline import Run


def embedding_map(runs: Mapping[str, Run], path: str | Path, column: str = "color") -> None:
    """Draw the test images' features of several runs in two dimensions, colored twice.

    The upper picture is colored by a color column, each point in the color of its image; the lower one by
    label.  A picture whose colors are in order shows that the features encode its column.

    Args:
        runs: The runs by the title over their pictures.
        path: The file; its ending chooses the format.
        column: A continuous column of three values in [0, 1].

    Raises:
        ValueError: If the data set lacks the column, or the column holds no colors.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(runs), 8), layout="constrained")
    panels = figure.subplots(2, len(runs), squeeze=False)
    for i, (title, run) in enumerate(runs.items()):
        split = run.pipeline.dataset("test")
        color = _colors(split.metadata, column)
        points = project(run.encode(split.images))
        label = split.metadata["label"]
        panels[0][i].scatter(*points.T, c=color.numpy(), s=14)
        panels[0][i].set_title(f"{title}: by {column}")
        panels[1][i].scatter(*points.T, c=label.numpy(), cmap="tab10", s=14)
        panels[1][i].set_title(f"{title}: by label")
    for panel in panels.flat:
        panel.set_xticks([])
        panel.set_yticks([])
    figure.savefig(path, dpi=110)


def project(features: Tensor) -> Tensor:
    """(n, f) -> (n, 2) by t-SNE, which keeps neighbors together; the same for the same features."""
    import torch
    from sklearn.manifold import TSNE

    found = TSNE(init="pca", metric="cosine", random_state=0).fit_transform(features.numpy())
    return torch.from_numpy(found)


def _colors(metadata: Mapping[str, Tensor], column: str) -> Tensor:
    if column not in metadata:
        raise ValueError(f"the data set has no column {column!r}; it has {', '.join(metadata)}")
    values = metadata[column]
    if values.ndim != 2 or values.shape[1] != 3 or values.min() < 0 or values.max() > 1:
        raise ValueError(f"column {column!r} holds no colors, which are (N, 3) in [0, 1]")
    return values
