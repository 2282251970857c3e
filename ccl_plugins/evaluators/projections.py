"""The projections that evaluators of their geometry read."""

from __future__ import annotations

from torch import Tensor

from ccl_plugins.protocols import Frozen, UndefinedMetric


def projections_of(frozen: Frozen, views: int = 1) -> Tensor:
    """The unit-norm projections (views, N, d) of so many views of two samples or more.

    Raises:
        ValueError: For frozen features without projections, and for projections that are not finite.
        UndefinedMetric: If there are fewer views, or fewer than two samples.
    """
    if frozen.projections is None:
        raise ValueError(
            "these features come without projections of views: only a run, which has a method and a"
            " transform, can be measured"
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
