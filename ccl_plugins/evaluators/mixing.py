"""How well groups of samples, such as plates or batches of cells, are mixed in features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from ccl_plugins.arguments import checked, one_of, whole
from ccl_plugins.evaluators.columns import (
    SAMPLES,
    SPLITS,
    Split,
    differing_values,
    fixed_part,
    in_words,
    of_classes,
    score,
)
from ccl_plugins.evaluators.cross_retrieval import median
from ccl_plugins.evaluators.intervals import Estimate, estimate, mean, over_rows, tally, warn_once
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric

NUMBERS = 1 << 22
"""The number of distances that are computed at once."""

FEWEST = 6
"""The fewest neighbors: the perplexity of their weights is a third of this, and must be 2 or more."""

ALPHA = 0.05
"""The level of the test of a neighborhood: the share of rejections if groups are mixed."""

TOLERANCE = 1e-5
"""The largest error of the entropy of neighbors' weights."""

EXPECTED = 5
"""The fewest expected samples of a group with which the chi-squared test keeps its level."""


@dataclass(eq=False, repr=False)
class Mixing:
    """How well groups of samples, such as plates or batches of cells, are mixed in frozen features.

    Gives, by Euclidean distances within the measured samples,

    - ``"mixing-<column>/ilisi"``: the inverse Simpson's index of the groups of a sample's
      neighbors, where near neighbors count more (perplexity k / 3, without the sample itself). It
      is the median over samples, scaled from 0 (one group) to 1 (all groups in equal parts).
    - ``"mixing-<column>/kbet"``: kBET's rejection rate: the share of samples whose k neighbors,
      with the sample itself, have other proportions of groups than all samples, by a chi-squared
      test at .05.

    and with a ``label`` three more:

    - ``"mixing-<column>/silhouette_batch"``: 1 minus the absolute silhouette width of the groups within a
      class, a mean over the samples of each class and then over classes; 1 is best mixed. Groups
      that are split over several distant places also reach 1. Classes in only one group, or without
      two samples of a group, are left out.
    - ``"mixing-<column>/clisi"``: the index of the neighbors' classes, scaled from 0 (all classes
      in equal parts) to 1 (one class).
    - ``"mixing-<column>/silhouette_label"``: the mean silhouette width of classes, scaled to 0 to 1.

    Each number equals that of scib-metrics (the silhouette width, that of scikit-learn) with exact
    neighbors and k of at most half of the samples; `kbet` is 1 minus the acceptance rate. Only ties
    differ: here all samples at the distance of the last neighbor share its places. Groups of
    different sizes do not reach an ``ilisi`` of 1. Compare it with its chance level, which it
    exceeds if a small group is overrepresented among neighbors, and with ``kbet``, which
    rejects that case too. Intervals draw samples, each with its neighbors among all samples.

    Split: neighbors are found within ``split``; nothing is fitted and nothing selected.

    Args:
        column: Categorical column of the metadata that names the group of a sample; samples without a
            group or a class are left out, and a warning counts them.
        label: Categorical column of classes that should stay separate, such as the cell type; None:
            no classes.
        k: Number of neighbors with the sample itself, 6 or more; at most half of the samples.
        unit: Whether features are scaled to unit length first.
        samples: The most samples, 12 or more; of a larger split, the first of a fixed shuffle, the
            same for all runs. The time grows with the square of their number.
        split: ``"test"`` or ``"train"``.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            or a feature is not finite.
        UndefinedMetric: If there is one group or one class, or there are fewer than 12 samples.

    Source:
        Korsunsky et al., Fast, Sensitive and Accurate Integration of Single-Cell Data with Harmony (2019),
        for the index; Büttner et al., A Test Metric for Assessing Single-Cell RNA-seq Batch Correction
        (2019), for kBET; Luecken et al., Benchmarking Atlas-Level Data Integration in Single-Cell Genomics
        (2022), for the scales and silhouettes.
    """

    # The features of the conformance kit tell its labels, and not its groups.
    EXAMPLE: ClassVar[Mapping[str, Any]] = {"column": "label", "label": "group"}

    column: str
    label: str | None = None
    k: int = checked(whole, least=FEWEST, default=90)
    unit: bool = False
    samples: int = checked(whole, least=2 * FEWEST, default=10_000)
    split: Split = checked(one_of, choices=SPLITS, default="test")

    def __post_init__(self) -> None:
        if self.label == self.column:
            raise ValueError(f"column and label must be two columns, not {self.column!r} twice")
        named = [self.column] if self.label is None else [self.column, self.label]
        self.columns = dict.fromkeys(named, ("categorical",))

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``mixing-plate/ilisi``, ..."""
        measured = of_classes(test if self.split == "test" else train, self.columns)
        n = len(measured.features)
        measured = measured.take(part := fixed_part(n, self.samples))
        x = measured.features.double()
        if len(x) < 2 * FEWEST:
            raise UndefinedMetric(
                f"column {self.column!r} has {len(x)} measured samples: neighborhoods of {FEWEST} need"
                f" {2 * FEWEST} or more"
            )
        ids = [
            differing_values(name, measured.metadata[name], "mixing").unique(return_inverse=True)[1]
            for name in self.columns
        ]
        found = _Mixed(normalize(x, dim=1) if self.unit else x, ids, min(self.k, len(x) // 2))
        with over_rows(part, n):
            more = () if self.label is None else self._of_classes(found, self.label)
            return [*self._of_groups(found), *more]

    def _of_groups(self, found: _Mixed) -> Iterator[Measurement]:
        column, begin = in_words(self.column), f"mixing-{self.column}"
        near = f"the {found.k} nearest of the {SAMPLES[self.split]}"
        yield Measurement(
            f"{begin}/ilisi",
            **median(found.mixed(0)),
            sentence=f"how many values of {column} {near} have, as the inverse Simpson's index from 0"
            " (one value) to 1 (all in equal parts)",
            column=self.column,
            direction="lower",
            chance=found.mixed(0, by_chance=True).median().item(),
        )
        words = (
            f"the share of the {SAMPLES[self.split]} around which {column} has other proportions,"
        )
        words += f" among the {found.k} nearest, than among all, by a chi-squared test"
        if few := int((found.sizes[0] * found.k < EXPECTED * len(found.rejected)).sum()):
            words += (
                f"; {few} of {len(found.sizes[0])} values are expected fewer than {EXPECTED} times "
                "among these, so the test rejects too often"
            )
        yield score(f"{begin}/kbet", self.column, mean(found.rejected), words, ALPHA)

    def _of_classes(self, found: _Mixed, label: str) -> Iterator[Measurement]:
        column, classes = in_words(self.column), in_words(label)
        begin, samples = f"mixing-{self.column}", SAMPLES[self.split]
        if len(found.kept):
            with over_rows(found.kept, len(found.rejected)):
                of_batches = _over_classes(
                    1 - found.of_groups[found.kept].abs(), found.ids[1][found.kept]
                )
            words = f"1 less the silhouette width of {column} in each class of {classes}, of the {samples}"
            if left_out := len(found.rejected) - len(found.kept):
                words += f"; {left_out} samples are left out, of classes in one group alone"
            yield Measurement(
                f"{begin}/silhouette_batch",
                **of_batches,
                sentence=words,
                column=self.column,
                direction="lower",
            )
        else:
            warn_once(
                f"no class of column {label!r} has samples in two groups of {self.column!r}:"
                f" {begin}/silhouette_batch is undefined"
            )
        yield score(
            f"{begin}/clisi",
            label,
            median(1 - found.mixed(1)),
            f"how much the {found.k} nearest of the {samples} are of one class of {classes}, by "
            "the inverse Simpson's index from 0 (all in equal parts) to 1 (one class)",
            1 - found.mixed(1, by_chance=True).median().item(),
        )
        yield score(
            f"{begin}/silhouette_label",
            label,
            mean((1 + found.of_classes) / 2),
            f"the silhouette width of {classes} among the {samples}, from 0 to 1",
            0.5,
        )


class _Mixed:
    """Statistics of the distances of samples within and between groups and classes.

    Args:
        x: (n, f) features, in float64.
        ids: (n,) ids of groups from 0; with classes, their ids too.
        k: Number of neighbors with the sample itself.
    """

    def __init__(self, x: Tensor, ids: list[Tensor], k: int) -> None:
        self.ids, self.k = ids, k
        self.sizes = [each.bincount() for each in ids]
        self.simpson = torch.empty(len(ids), len(x), dtype=torch.float64)
        self.squares, self.of_groups, self.of_classes = x.new_zeros(3, len(x))
        self.rejected = torch.zeros(len(x), dtype=torch.bool)
        expected = k * self.sizes[0] / len(x)
        if len(ids) > 1:
            # Cells of one group and one class, of which there are no more than samples.
            pairs, cell = torch.stack(ids, 1).unique(dim=0, return_inverse=True)
            of_cell = cell.bincount()
            cells = pairs[:, 1].bincount()
            self.kept = ((cells > 1) & (cells < self.sizes[1]))[ids[1]].nonzero().flatten()
        for rows, away in distances(x):
            if len(ids) > 1:
                sums, own = tally(away, cell, len(pairs)), ids[1][rows]
                rivals = pairs[:, 1] == own[:, None]
                self.of_groups[rows] = silhouettes(sums, of_cell, cell[rows], rivals)
                sums = tally(sums, pairs[:, 1], len(self.sizes[1]))
                self.of_classes[rows] = silhouettes(sums, self.sizes[1], own)
            # Each sample is its own nearest.
            near = Neighbors(away.scatter_(1, rows[:, None], -1.0), k)
            weights = pad(perplexity_weights(near.distances[:, 1:], k // 3), (1, 0))
            self.squares[rows] = weights.square().sum(1)
            for simpson, each, sizes in zip(self.simpson, ids, self.sizes, strict=True):
                simpson[rows] = near.by_class(weights, each, len(sizes)).square().sum(1)
            counts = near.by_class(torch.ones_like(weights), ids[0], len(expected))
            chi = ((counts - expected).square() / expected).sum(1)
            freedom = torch.full_like(chi, (len(expected) - 1) / 2)
            self.rejected[rows] = torch.special.gammaincc(freedom, chi / 2) < ALPHA

    def mixed(self, column: int, *, by_chance: bool = False) -> Tensor:
        """(n,) the inverse Simpson's index of a column, from 0 to 1, or its value for random ids."""
        sizes, simpson = self.sizes[column].double(), self.simpson[column]
        if by_chance:
            n = sizes.sum()
            same = (sizes * (sizes - 1)).sum() / (n * (n - 1))
            simpson = self.squares + (1 - self.squares) * same
        return (1 / simpson - 1) / (len(sizes) - 1)


def distances(x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of rows (q,) of x (n, f), and their Euclidean distances (q, n) to all rows.

    Equal rows get equal distances, without rounding differences.
    """
    different, place = (x - x.mean(0)).unique(dim=0, return_inverse=True)
    for rows in torch.arange(len(x)).split(max(1, NUMBERS // len(x))):
        own = place[rows]
        away = torch.cdist(different[own], different, compute_mode="use_mm_for_euclid_dist")
        yield rows, away.scatter_(1, own[:, None], 0.0)[:, place]


class Neighbors:
    """The k nearest of n samples to q samples; samples as far as the last neighbor share its places.

    Args:
        away: (q, n) distances.
        k: Neighbors.
    """

    def __init__(self, away: Tensor, k: int) -> None:
        self.distances, self.places = away.topk(k, largest=False)
        self._last = self.distances == self.distances[:, -1:]
        self._tied = (away == self.distances[:, -1:]).double()

    def by_class(self, weights: Tensor, ids: Tensor, classes: int) -> Tensor:
        """(q, c) the sums of weights (q, k) by the classes of neighbors; ids are (n,)."""
        tied = tally(self._tied, ids, classes)
        sums = tied * ((weights * self._last).sum(1) / tied.sum(1))[:, None]
        return sums.scatter_add_(1, ids[self.places], weights * ~self._last)


def perplexity_weights(away: Tensor, perplexity: float) -> Tensor:
    """(q, k) weights ``exp(-b distance)`` that sum to 1, with b so that their entropy is log(perplexity).

    The search for b is that of Harmony and of scib-metrics: 50 halvings at most, ended within `TOLERANCE`.

    Args:
        away: (q, k) distances, ascending.
        perplexity: The effective number of neighbors, above 1.
    """
    away = away - away[:, :1]  # this changes no weight, and keeps one of them at 1
    b, low, high = (
        away.new_ones(len(away), 1),
        away.new_tensor(-torch.inf),
        away.new_tensor(torch.inf),
    )
    for _ in range(50):
        weights = (-b * away).exp()
        total = weights.sum(1, keepdim=True)
        entropy = total.log() + b * (away * weights).sum(1, keepdim=True) / total
        off = entropy - away.new_tensor(perplexity).log()
        if (off.abs() < TOLERANCE).all():
            break
        larger = torch.where(high.isinf(), 2 * b, (b + high) / 2)
        smaller = torch.where(low.isinf(), b / 2, (b + low) / 2)
        low, high = torch.where(off > 0, b, low), torch.where(off > 0, high, b)
        moved = torch.where(off > 0, larger, smaller)
        b = torch.where(off.abs() < TOLERANCE, b, moved)
    weights = (-b * away).exp()
    return weights / weights.sum(1, keepdim=True)


def silhouettes(sums: Tensor, sizes: Tensor, own: Tensor, rivals: Tensor | None = None) -> Tensor:
    """(q,) the silhouette widths of samples; 0 for the only sample of a cluster.

    Args:
        sums: (q, c) summed distances to the samples of each cluster.
        sizes: (c,) samples of each cluster.
        own: (q,) a sample's cluster.
        rivals: (q, c) the clusters with which each sample is compared; None: all clusters.
    """
    others = sums / sizes
    if rivals is not None:
        others = others.masked_fill(~rivals, torch.inf)
    nearest = others.scatter_(1, own[:, None], torch.inf).amin(1)
    inside = sums.gather(1, own[:, None])[:, 0] / (sizes[own] - 1)
    return ((nearest - inside) / torch.maximum(nearest, inside)).nan_to_num(nan=0.0)


def _over_classes(values: Tensor, ids: Tensor) -> Estimate:
    """The mean over classes of the mean of values (n,) within each class; ids are (n,)."""
    place = ids.unique(return_inverse=True)[1]
    classes = int(place.max()) + 1

    def means(counts: Tensor) -> Tensor:
        sums, sizes = (tally(each, place, classes) for each in (counts * values, counts))
        return (sums / sizes).nanmean(1)

    return estimate(len(values), means, classes)
