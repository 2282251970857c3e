"""The distance of the projections of two views of a sample."""

from __future__ import annotations

from ccl_plugins.evaluators.intervals import mean
from ccl_plugins.evaluators.projections import projections_of
from ccl_plugins.protocols import Frozen, Measurement


class Alignment:
    """Distance of the projections of two views of a sample.

    Gives ``"projections/alignment"``, the mean of ``|x - y|²`` for the first two views: 0 if they agree, 2
    for unrelated directions. It is also 0 after a collapse, in which `uniformity` is 0 too.

    Split: measured on the test split; nothing is fitted and nothing selected.

    Raises:
        ValueError: On use, for features without projections, and for projections that are not finite.
        UndefinedMetric: On use, if there are fewer than two views, or fewer than two samples.

    Source:
        Wang and Isola, Understanding Contrastive Representation Learning through Alignment and
        Uniformity on the Hypersphere (2020), section 4.1, with α = 2.
    """

    reads_projections = True

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``projections/alignment``."""
        x, y = projections_of(test, views=2)
        return [
            Measurement(
                "projections/alignment",
                **mean((x - y).square().sum(dim=1)),
                sentence="the mean squared distance of the projections of two views of a sample, 0 to 4",
                direction="lower",
            )
        ]
