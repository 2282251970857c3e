"""How evenly projections cover the sphere."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ccl_plugins.arguments import checked, whole
from ccl_plugins.evaluators.columns import fixed_part
from ccl_plugins.evaluators.projections import projections_of
from ccl_plugins.protocols import Frozen, Measurement


@dataclass(eq=False, repr=False)
class Uniformity:
    """How evenly the projections of different samples cover the sphere.

    Gives ``"projections/uniformity"``, ``log mean_{i<j} exp(-2 |x_i - x_j|²)`` of the first view: 0 if all
    samples agree, lower the more they spread.

    Split: measured on the test split; nothing is fitted and nothing selected.

    Args:
        samples: The most samples that are compared with each other, 2 or more; of more samples, the
            first of a fixed shuffle.

    Raises:
        ValueError: If ``samples`` is less; on use, for features without projections, and for projections
            that are not finite.
        UndefinedMetric: On use, if there are fewer than two samples.

    Source:
        Wang and Isola, Understanding Contrastive Representation Learning through Alignment and
        Uniformity on the Hypersphere (2020), section 4.1, with t = 2.
    """

    reads_projections = True

    samples: int = checked(whole, least=2, default=1024)

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``projections/uniformity``."""
        (x,) = projections_of(test)
        x = x[fixed_part(len(x), self.samples)]
        n = len(x)
        # |a - b|² is 2 - 2 ab on the sphere: kernels are between exp(-8) and 1.
        kernels = (x @ x.T).mul_(4).sub_(4).exp_().fill_diagonal_(0)
        mean = kernels.sum(dtype=torch.float64).item() / (n * (n - 1))
        return [
            Measurement(
                "projections/uniformity",
                math.log(mean),
                sentence="the log of the mean Gaussian kernel of the projections of two samples",
                samples=n,
                direction="lower",
            )
        ]
