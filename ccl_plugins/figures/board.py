"""Figures of a run among its TensorBoard events."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ccl_plugins.figures.embedding_map import EmbeddingMap
from ccl_plugins.figures.kernel_matrix import KernelMatrix
from ccl_plugins.figures.style import png
from ccl_plugins.files.events import event_files, replacing_events
from ccl_plugins.files.lock import owning
from ccl_plugins.protocols import DoesNotApply, Figure

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run


def show_figures(run: Run) -> list[str]:
    """Write the map of the features and the kernel matrix of a run as TensorBoard images.

    They are ``figures/embedding_map``, by PCA, which takes less time than t-SNE, and
    ``figures/kernel_matrix``, at the step of the run's weights. A run without events gets no
    images, because it logs elsewhere.

    Returns:
        The names of the images; a figure that does not apply to the run is left out.
    """
    import numpy as np
    from PIL import Image

    if not event_files(run.path):
        return []
    drawn = {}
    figures: dict[str, Figure] = {
        "embedding_map": EmbeddingMap(method="pca"),
        "kernel_matrix": KernelMatrix(),
    }
    for name, figure in figures.items():
        try:
            drawn[f"figures/{name}"] = Image.open(io.BytesIO(png(figure({run.path.name: run}))))
        except DoesNotApply:
            continue
    step = run.progress[0]
    if drawn:
        with owning(run.path), replacing_events(run.path, f".figures-{step}") as writer:
            for name, image in drawn.items():
                writer.add_image(name, np.asarray(image), step, dataformats="HWC")
    return [*drawn]
