"""The projections that evaluators read: of views, and of images and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from ccl_plugins.protocols import Frozen, Towers, UndefinedMetric

BLOCK = 2**24
"""The most similarities that are held at once."""


def projections_of(frozen: Frozen, views: int = 1) -> Tensor:
    """The unit-norm projections (views, N, d) of the given number of views of two or more samples.

    Raises:
        ValueError: For frozen features without projections, and for projections that are not finite.
        UndefinedMetric: If there are fewer views, or fewer than two samples.
    """
    if frozen.projections is None:
        raise ValueError(
            "these features have no projections of views: measure a run, which has a method and a "
            "transform"
        )
    unit = frozen.projections
    if len(unit) < views or unit.shape[1] < 2:
        raise UndefinedMetric(
            f"{len(unit)} view{'s' if len(unit) > 1 else ''} of {unit.shape[1]} samples are too few:"
            f" {views} of two samples or more are needed"
        )
    if not unit.isfinite().all():
        raise ValueError("projections must be finite")
    return unit[:views]


def towers_of(frozen: Frozen, evaluator: str) -> Towers:
    """The towers of a split.

    Raises:
        ValueError: If there are no towers, or their rows are not those of the features.
    """
    towers = frozen.towers
    if towers is None:
        raise ValueError(
            f"{evaluator} compares images with texts, and the method has no text tower: give the pipeline"
            ' method = "dual"'
        )
    if towers.images.ndim != 2 or len(towers.images) != len(frozen.features):
        raise ValueError(
            f"{evaluator}: there are features of {len(frozen.features)} images, and projections of shape"
            f" {tuple(towers.images.shape)}"
        )
    return towers


def images_of(towers: Towers, rows: Tensor) -> Tensor:
    """(k, d) float64 projections of the images in rows (k,).

    Raises:
        ValueError: For a projection that is not finite.
    """
    return _finite(towers.images[rows].double(), lambda place: f"image {int(rows[place])}")


def texts_of(towers: Towers, texts: Sequence[str]) -> Tensor:
    """(k, d) float64 projections of k texts.

    Raises:
        ValueError: For a projection that is not finite, and for projections of another shape.
    """
    projections = towers.texts(texts).double()
    expected = (len(texts), towers.images.shape[1])
    if projections.shape != expected:
        raise ValueError(
            f"the projections of {len(texts)} texts are {tuple(projections.shape)}, and beside those of the"
            f" images they must be {expected}"
        )
    return _finite(projections, lambda place: repr(texts[place]))


def _finite(x: Tensor, name: Callable[[int], str]) -> Tensor:
    wrong = (~x.isfinite()).any(dim=1).nonzero()
    if len(wrong):
        which = name(int(wrong[0]))
        raise ValueError(f"the projection of {which} is not finite ({len(wrong)} of {len(x)})")
    return x
