"""The figure ``patches``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ccl_plugins.figures.anchor import as_picture
from ccl_plugins.figures.samples import SPLITS, of_applicable, same_data, sampled
from ccl_plugins.figures.style import figure, short, styled
from ccl_plugins.protocols import DoesNotApply, trait
from ccl_plugins.transforms.modalities import of_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run

SHOWN = 4
"""The number of images that are drawn, if none are named."""


class Patches:
    """The features of each patch of a few test images, as colors.

    The first three principal components of the features of all these patches are red, green and blue,
    each from its least to its greatest value.  Patches of one color have similar features, in all images
    of a column; colors of different columns cannot be compared.

    Args:
        images: Indices in the test split; None: four, drawn evenly.

    Source:
        Oquab et al., DINOv2: Learning Robust Visual Features without Supervision (2023), figure 1, without
        its removal of the background.
    """

    side_by_side = True
    caption = (
        "The features of each patch of a few test images, as colors: patches of one color have similar"
        " features."
    )

    def __init__(self, images: Sequence[int] | None = None) -> None:
        self.images = images

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs of one data set, a column each, beside the images.

        Raises:
            DoesNotApply: For runs of different data sets, and if no backbone has patches.
            ValueError: For an index without a sample.
        """
        same_data(runs)
        first = next(iter(runs.values()))
        split = first.splits[SPLITS["test"]]
        places = self.images or sampled(len(split), SHOWN).tolist()
        if wrong := [i for i in places if not 0 <= i < len(split)]:
            raise ValueError(f"images must be from 0 to {len(split) - 1}, not {wrong[0]}")
        shown = [split[i][0] for i in places]
        maps = of_applicable(runs, lambda run: colors(patches(run, shown)))
        result = figure(0.4 + 1.5 * (1 + len(maps)), 0.3 + 1.5 * len(places))
        panels = result.subplots(len(places), 1 + len(maps), squeeze=False)
        for row, place, image in zip(panels, places, shown, strict=True):
            row[0].imshow(picture(first.transform, image))
            row[0].set_ylabel(str(place))
        for column, (title, each) in enumerate(maps.items(), start=1):
            panels[0, column].set_title(short(title))
            for panel, drawn in zip(panels[:, column], each, strict=True):
                panel.imshow(drawn.numpy())
        for panel in panels.flat:
            panel.set(xticks=[], yticks=[])
            panel.spines[:].set_visible(False)
        return result


def picture(transform: Any, image: Any) -> Any:
    """An image as the backbone sees it, (height, width, 3) from 0 to 1; see `as_picture`."""
    image, used = transform.plain(image), of_image(transform)
    if hasattr(used, "mean") and hasattr(used, "std"):
        image = (image * used.std + used.mean).clamp(0, 1)
    return as_picture(image)


def patches(run: Run, images: Sequence[Any]) -> Tensor:
    """(n, rows, columns, f) features of the patches of images, un-augmented.

    Raises:
        DoesNotApply: If the run's backbone has none.
    """
    features = trait(run.backbone, "patches")
    if features is None:
        raise DoesNotApply(
            f"the backbone of {run.path} has no patches, which this figure draws; those of timm "
            "have patches"
        )
    run.method.to("cpu")
    with torch.no_grad():
        try:
            grids: Tensor = features(torch.stack([run.transform.plain(each) for each in images]))
        except ValueError as error:  # it has no patches with these parameters
            raise DoesNotApply(f"{run.path}: {error}") from error
    if grids.ndim != 4 or not grids.isfinite().all():
        raise DoesNotApply(
            f"the patches of {run.path} are not finite numbers (n, rows, columns, f):"
            f" {tuple(grids.shape)}"
        )
    return grids


def colors(features: Tensor) -> Tensor:
    """(n, rows, columns, 3) from 0 to 1: the first three principal components of (n, rows, columns, f).

    A component without variance is 0.
    """
    flat = features.double().flatten(0, 2)
    flat = flat - flat.mean(0)
    _, _, directions = torch.linalg.svd(flat, full_matrices=False)
    directions = directions[:3]
    # A direction has no sign: the largest entry is made positive.
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    scores = flat @ (directions * largest.sign()).T
    scores = scores - scores.amin(0)
    scores = torch.where(
        scores.amax(0) > 1e-9 * features.abs().max(),
        scores / scores.amax(0),
        torch.zeros_like(scores),
    )
    missing = scores.new_zeros(len(scores), 3 - scores.shape[1])
    return torch.cat([scores, missing], 1).reshape(*features.shape[:3], 3)
