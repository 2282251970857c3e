"""Agreement of clusters of features with classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.arguments import checked, one_of, whole
from ccl_plugins.evaluators.columns import (
    SAMPLES,
    SPLITS,
    OfColumn,
    Split,
    differing_values,
    in_words,
    most_frequent,
    name_prefix,
    of_known_classes,
    score,
    two_classes,
    with_classes,
)
from ccl_plugins.evaluators.intervals import Estimate, estimate, mean, tally
from ccl_plugins.protocols import Frozen, Measurement


@dataclass(eq=False, repr=False)
class Clustering(OfColumn):
    """Agreement of k-means clusters of frozen features with classes.

    Gives ``"clustering/accuracy"``, the fraction of samples in their cluster's class, where the
    Hungarian algorithm assigns a different class to each cluster so that the fraction is largest;
    ``"clustering/nmi"``, the mutual information of clusters and classes over the mean of their
    entropies; and ``"clustering/ari"``, the adjusted Rand index, 0 for random clusters. For another
    column, ``"clustering-<column>/..."``.

    Split: k-means is fitted to the training split without classes; the samples of ``split`` belong to
    their nearest centroid.  The Hungarian algorithm sees the measured samples' classes, as in all papers
    that report this accuracy.  Selection: of the restarts the one with the least sum of squared distances.

    Args:
        k: The number of clusters, 2 or more; None: the number of classes in the training split.
        restarts: Random starts of k-means, 1 or more.
        unit: Whether features are scaled to unit length first, as in IDFD and SCAN.
        split: ``"test"`` or ``"train"``.
        seed: Seed of the random starts.
        column: Categorical column of the metadata; samples without a class are left out, and a warning
            counts them.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            there are fewer training samples than clusters, or a feature is not finite.
        UndefinedMetric: If all measured samples have one class.

    Source:
        Van Gansbeke et al., SCAN: Learning to Classify Images without Labels (2020); Tao et al.,
        Clustering-friendly Representation Learning via Instance Discrimination and Feature Decorrelation
        (2021), with which Cl-InfoNCE is compared; Hubert and Arabie, Comparing Partitions (1985).
    """

    k: int | None = checked(whole, least=2, default=None)
    restarts: int = checked(whole, least=1, default=10)
    unit: bool = True
    split: Split = checked(one_of, choices=SPLITS, default="test")
    seed: int = checked(whole, least=0, default=0)
    column: str = "label"

    @of_known_classes("column")
    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``clustering/accuracy``, ``clustering/nmi`` and ``clustering/ari``."""
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        x, known = with_classes(train, self.column)
        measured, ids = with_classes(test if self.split == "test" else train, self.column)
        differing_values(self.column, ids, "agreement with clusters")
        k = len(known.unique()) if self.k is None else self.k
        if not 2 <= k <= len(x):
            raise ValueError(f"k={k} clusters cannot be made of {len(x)} training samples")
        if self.split == "test":
            two_classes(known)
        if self.unit:
            x, measured = normalize(x, dim=1), normalize(measured, dim=1)
        k_means = KMeans(k, n_init=self.restarts, random_state=self.seed)
        with warnings.catch_warnings():
            # Collapsed features have fewer different points than clusters; some stay empty.
            warnings.simplefilter("ignore", ConvergenceWarning)
            k_means.fit(x.numpy())
        clusters = torch.from_numpy(k_means.predict(measured.numpy())).long()
        classes, index = ids.unique(return_inverse=True)
        cells, width = clusters * len(classes) + index, k * len(classes)

        def tables(counts: Tensor) -> Tensor:
            return tally(counts, cells, width).reshape(-1, k, len(classes))

        def over_tables(statistic: Callable[[Tensor], Tensor]) -> Estimate:
            return estimate(len(ids), lambda c: statistic(tables(c)), width, centered=True)

        (table,) = tables(torch.ones(1, len(ids)))
        samples, agreement = (
            SAMPLES[self.split],
            f"clusters of features and {in_words(self.column)}",
        )
        measures = {
            "accuracy": (
                mean(matched(table)[clusters] == index),
                f"the share of the {samples} whose {self.column} is that of their cluster, with a "
                "different one for each cluster",
                most_frequent(ids),
            ),
            "nmi": (
                _shares(over_tables(normalized_information)),
                f"the mutual information of {agreement} of the {samples}, as a share of the mean "
                "of their entropies",
                0.0,
            ),
            "ari": (
                over_tables(adjusted_rand),
                f"how far {agreement} of the {samples} agree, as the adjusted Rand index",
                0.0,
            ),
        }
        begin = name_prefix("clustering", self.column)
        return [score(f"{begin}/{name}", self.column, *each) for name, each in measures.items()]


def _shares(found: Estimate) -> Estimate:
    """The estimate of a number from 0 to 1, with its interval clipped to this range."""
    if found["interval"] is not None:
        low, high = found["interval"]
        found["interval"] = max(low, 0.0), min(high, 1.0)
    return found


def matched(table: Tensor) -> Tensor:
    """(k,) the class of each cluster, each class once, so that most samples agree; -1 for further clusters.

    Args:
        table: (k, c) how many samples of each class a cluster has.
    """
    from scipy.optimize import linear_sum_assignment

    of_cluster = torch.full((len(table),), -1)
    clusters, classes = map(torch.from_numpy, linear_sum_assignment(-table.numpy()))
    of_cluster[clusters] = classes
    return of_cluster


def normalized_information(tables: Tensor) -> Tensor:
    """(d,) the mutual information over the mean of the entropies, of tables (d, k, c) of counts."""
    joint = entropies(tables.flatten(1))
    a, b = entropies(tables.sum(2)), entropies(tables.sum(1))
    return (a + b - joint).clamp_min(0) / ((a + b) / 2)


def entropies(counts: Tensor) -> Tensor:
    """(d,) the entropies of d distributions, given by counts (d, m)."""
    return torch.special.entr(counts / counts.sum(1, keepdim=True)).sum(1)


def adjusted_rand(tables: Tensor) -> Tensor:
    """(d,) the adjusted Rand index of tables (d, k, c) of counts."""
    joint, a, b = (pairs(counts) for counts in (tables.flatten(1), tables.sum(2), tables.sum(1)))
    expected = a * b / pairs(tables.sum((1, 2))[:, None])
    return (joint - expected) / ((a + b) / 2 - expected)


def pairs(counts: Tensor) -> Tensor:
    """(d,) the pairs of samples in the same of m parts, given by counts (d, m)."""
    return (counts * (counts - 1) / 2).sum(1)
