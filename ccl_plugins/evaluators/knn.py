"""Accuracy of weighted nearest neighbors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import checked, positive, whole
from ccl_plugins.evaluators.columns import (
    OfColumn,
    of_known_classes,
    rows_with_classes,
    top1,
    two_classes,
    with_classes,
)
from ccl_plugins.files.mapped import release_pages
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric

ROWS = 1 << 17
"""The number of training samples whose features are compared at once."""

NUMBERS = 1 << 25
"""The number of similarities that are computed at once."""

DEFAULT = 20
"""The number of neighbors unless another is given."""


def _temperature(name: str, value: float) -> float:
    if positive(name, value) < 0.002:
        raise ValueError(f"{name} must be 0.002 or more, not {value!r}")
    return value


@dataclass(eq=False, repr=False)
class KNN(OfColumn):
    """Accuracy of weighted nearest neighbors in frozen features.

    Each of the k training samples that are most similar votes for its class with weight
    ``exp(cosine / temperature)``.  Gives ``"knn/top1"``, the fraction of test samples whose
    class wins, and for another column ``"knn-<column>/top1"``.

    Split: training samples vote for the classes of test samples.  Selection: none.

    Args:
        k: Neighbors, 1 to the number of training samples.
        temperature: 0.002 or more, because votes must fit into a float64.

    Raises:
        ValueError: If a parameter is out of its range; on use, if there are fewer than k training samples,
            a column is missing or not categorical, a feature is not finite, or one feature is so
            large that the cosines of all samples are equal.

    Defaults:
        k: Paper: 200 on ImageNet. Code: 200. Here: 200 of a small data set is a class or more.
        temperature: Paper: 0.07. Code: 0.07. Here: lightly's.

    Source:
        Wu et al., Unsupervised Feature Learning via Non-Parametric Instance Discrimination (2018),
        section 3.4, as in lightly; there ``temperature`` is 0.07.
    """

    k: int = checked(whole, least=1, default=DEFAULT)
    temperature: float = checked(_temperature, default=0.1)
    column: str = "label"

    @of_known_classes("column")
    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``knn/top1``."""
        rows, known = rows_with_classes(train, self.column)
        two_classes(known)
        if self.k > len(rows):
            said = f"k={self.k} neighbors of only {len(rows)} training samples"
            # Nobody may have chosen the default, and other evaluators measure these data.
            raise UndefinedMetric(said) if self.k == DEFAULT else ValueError(said)
        bank = train.features if len(rows) == len(train.features) else train.features[rows]
        x, ids = with_classes(test, self.column)
        predicted = nearest(x, bank, known, self.k, self.temperature)
        by = f"a vote of the {self.k} most similar training samples"
        return [top1("knn", self.column, predicted, ids, by)]


def nearest(x: Tensor, bank: Tensor, ids: Tensor, k: int, temperature: float) -> Tensor:
    """(n,) the class that wins the vote of the k nearest rows of the bank, in float64.

    Args:
        x: (n, f) features to classify.
        bank: (N, f) features whose classes are known.
        ids: (N,) their class ids.
        k: Neighbors, at most N.
        temperature: Temperature of the votes.
    """
    known, index = ids.unique(return_inverse=True)
    sims, near = neighbors(x, bank, k)
    # The scores of classes, of which there are N at most, take no more numbers than similarities.
    # lightly's ``knn_predict`` gives the same, with n * k numbers for each class.
    predicted = []
    for some, places in zip(
        *(each.split(max(1, NUMBERS // len(bank))) for each in (sims, near)), strict=True
    ):
        scores = sims.new_zeros(len(some), len(known))
        predicted.append(
            scores.scatter_add_(1, index[places], (some / temperature).exp()).argmax(1)
        )
    return known[torch.cat(predicted)]


def neighbors(x: Tensor, bank: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(n, k) the largest cosines of rows of x with rows of the bank, and the places of these rows.

    The arguments are those of `nearest`.
    """
    _refuse_one_direction(bank)
    queries = functional.normalize(x.double(), dim=1)
    sims = queries.new_empty(len(x), 0)
    near = torch.empty(len(x), 0, dtype=torch.long)
    for first in range(0, len(bank), ROWS):
        unit = functional.normalize(bank[first : first + ROWS].double(), dim=1)
        candidates = [
            (part @ unit.T).topk(min(k, len(unit)))
            for part in queries.split(max(1, NUMBERS // len(unit)))
        ]
        sims = torch.cat([sims, torch.cat([values for values, _ in candidates])], 1)
        near = torch.cat([near, first + torch.cat([places for _, places in candidates])], 1)
        if sims.shape[1] > k:
            sims, best = sims.topk(k)
            near = near.gather(1, best)
        release_pages()
    return sims, near


def _refuse_one_direction(bank: Tensor) -> None:
    """Refuse features (N, f) that differ only in length, not in direction."""
    first, differ = functional.normalize(bank[:1].double(), dim=1), False
    for rows in bank.split(ROWS):
        unit = functional.normalize(rows.double(), dim=1)
        if not ((unit - first).abs() < 1e-12).all():
            return
        differ = differ or bool((rows != bank[0]).any())
        release_pages()
    if differ:
        feature = int(bank[0].abs().argmax())
        raise ValueError(
            f"all features have the same direction, because feature {feature} is "
            f"{bank[0, feature]:.3g} in every row and hides the others, so neighbors by cosine are "
            "meaningless: scale the features"
        )
