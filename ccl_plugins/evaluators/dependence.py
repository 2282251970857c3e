"""Dependence between features and a column, without a probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ccl_plugins.arguments import checked, one_of, whole
from ccl_plugins.evaluators.columns import (
    SAMPLES,
    SPLITS,
    OfColumn,
    Split,
    differing_values,
    fixed_part,
    in_words,
    score,
    with_bits,
    with_classes,
    with_numbers,
)
from ccl_plugins.evaluators.intervals import estimate, over_rows
from ccl_plugins.protocols import Frozen, Measurement

SHUFFLES = 20
"""The number of shuffles of the column, whose mean is the chance level."""


@dataclass(eq=False, repr=False)
class Dependence(OfColumn):
    """Statistical dependence between frozen features and a column, by HSIC and distance correlation.

    No probe is fitted, so dependence of any form counts. Gives ``"dependence-<column>/dcor"``, the
    distance correlation, between 0 and 1, and ``"dependence-<column>/hsic"``, the Hilbert-Schmidt
    independence criterion, 0 or more. On few samples both are above 0 for independent values too:
    their chance levels are the means over 20 fixed shuffles of the column.

    Split: the samples of ``split``; nothing is fitted and nothing selected.

    Args:
        column: Column of the metadata, of any value type; samples without a value are left out, and a
            warning counts them.  Class ids are equal or different; other values have Euclidean distances.
        samples: The most samples that are compared, 4 or more; of a larger split, the first of a
            fixed shuffle, the same for all runs. The memory grows with the square of their number.
        split: ``"test"`` or ``"train"``.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing, there are fewer
            than four samples, or a feature is not finite.
        UndefinedMetric: If the column has one value.

    Source:
        Székely, Rizzo and Bakirov, Measuring and Testing Dependence by Correlation of Distances (2007),
        section 2.2; Gretton et al., Measuring Statistical Dependence with Hilbert-Schmidt Norms (2005),
        equation 9, with Gaussian kernels whose width is the median distance, and equality for class ids.
    """

    column_types = ("categorical", "multi_label", "continuous")
    column: str = "color"
    samples: int = checked(whole, least=4, default=1000)
    split: Split = checked(one_of, choices=SPLITS, default="test")

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``dependence-color/dcor`` and ``dependence-color/hsic``."""
        frozen = test if self.split == "test" else train
        values = torch.as_tensor(frozen.metadata.get(self.column, torch.zeros(0)))
        classes = not values.is_floating_point() and values.ndim == 1
        if classes:
            x, z = with_classes(frozen, self.column)
        elif values.is_floating_point():
            x, z = with_numbers(frozen, self.column)
        else:
            x, z = with_bits(frozen, self.column)
        if len(x) < 4:
            raise ValueError(f"dependence needs four samples or more, there are {len(x)}")
        rows = fixed_part(len(x), self.samples)
        n, x, z = len(x), x[rows], differing_values(self.column, z[rows], "dependence")
        if classes:
            z = one_hot(z.unique(return_inverse=True)[1])
        far_x, far_z = distances(x), distances(z.double())
        kernel_z = (far_z == 0).double() if classes else gaussian(far_z)
        generator = torch.Generator().manual_seed(0)
        orders = [torch.randperm(len(x), generator=generator) for _ in range(SHUFFLES)]
        once = torch.ones(1, len(x), dtype=torch.float64)
        measurements = []
        for name, words, a, b, measured in (
            ("dcor", "the distance correlation", far_x, far_z, distance_correlation),
            ("hsic", "the Hilbert-Schmidt independence criterion", gaussian(far_x), kernel_z, hsic),
        ):
            with over_rows(rows, n):
                numbers = estimate(len(x), measured(a, b), centered=True)
            if numbers["interval"]:  # neither number is below 0, but a shifted interval may be
                low, high = numbers["interval"]
                numbers["interval"] = max(low, 0.0), high
            shuffled = [measured(a, b[order][:, order])(once).item() for order in orders]
            chance = sum(shuffled) / len(shuffled)
            words += f" of the features and {in_words(self.column)} over the {SAMPLES[self.split]}"
            name = f"dependence-{self.column}/{name}"
            measurements.append(score(name, self.column, numbers, words, chance))
        return measurements


def distances(x: Tensor) -> Tensor:
    """(n, n) Euclidean distances of rows (n, f), exactly 0 between equal rows."""
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


def gaussian(far: Tensor) -> Tensor:
    """(n, n) ``exp(-distance² / (2 median²))``, with the median of the distances that are not 0."""
    some = far[far > 0]
    width = some.median() if len(some) else 1.0
    return (-far.square() / (2 * width**2)).exp()


def covariance(a: Tensor, b: Tensor) -> Callable[[Tensor], Tensor]:
    """(k,) the means of ``A B`` over pairs of samples, from (k, n) counts of samples in k draws.

    A and B are (n, n) matrices, centered by rows and columns over the samples of the draw: ``S1 +
    S2 - 2 S3`` in the paper on distance correlation.
    """
    product = a * b

    def mean(counts: Tensor) -> Tensor:
        n = len(a)
        rows_a, rows_b = counts @ a / n, counts @ b / n
        whole_a, whole_b = (counts * rows_a).sum(1) / n, (counts * rows_b).sum(1) / n
        pairs = (counts * (counts @ product)).sum(1) / n**2
        return pairs + whole_a * whole_b - 2 * (counts * rows_a * rows_b).sum(1) / n

    return mean


def distance_correlation(a: Tensor, b: Tensor) -> Callable[[Tensor], Tensor]:
    """(k,) the distance correlations of matrices of distances, see `covariance`; 0 if all are equal."""
    joint, of_a, of_b = covariance(a, b), covariance(a, a), covariance(b, b)

    def correlation(counts: Tensor) -> Tensor:
        variances = (of_a(counts) * of_b(counts)).clamp_min(0).sqrt()
        # Rounding leaves a little of a variance of 0.
        tiny = 1e-12 * a.square().mean().sqrt() * b.square().mean().sqrt()
        squared = (joint(counts) / variances).clamp(0, 1)
        return torch.where(variances > tiny, squared, 0.0).sqrt()

    return correlation


def hsic(a: Tensor, b: Tensor) -> Callable[[Tensor], Tensor]:
    """(k,) ``tr(K H L H) / (n - 1)²`` of kernel matrices K, L and the centering matrix H."""
    mean, n = covariance(a, b), len(a)
    return lambda counts: mean(counts).clamp_min(0) * n**2 / (n - 1) ** 2
