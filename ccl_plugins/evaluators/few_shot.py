"""Accuracy of a linear probe that is fitted to a few training samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, number, positive, whole
from ccl_plugins.evaluators.columns import OfColumn, accuracy, of_known_classes, with_classes
from ccl_plugins.evaluators.linear import fit_probe
from ccl_plugins.protocols import Frozen, Measurement


def few(name: str, samples: int | float) -> int | float:
    """A whole number of 1 or more, or a part between 0 and 1."""
    if isinstance(samples, int) and samples >= 1 and not isinstance(samples, bool):
        return whole(name, samples, 1)
    if isinstance(samples, bool) or not 0 < number(name, samples) < 1:
        raise ValueError(
            f"{name} must be a whole number of 1 or more (per class), or a part between 0 and 1, not"
            f" {samples!r}"
        )
    return samples


@dataclass(eq=False, repr=False)
class FewShot(OfColumn):
    """Accuracy of a linear classifier on frozen features, fitted to a few training samples.

    Gives ``"few_shot_5/top1"``, the fraction of test samples whose class it predicts, as the mean over
    several draws of five training samples per class; ``"few_shot_0.01/top1"`` for 1 % of them, and
    ``"few_shot_5-<column>/top1"`` for another column. The draws depend only on the classes and the
    seed, so all runs on a data set use the same.

    Split: fitted to samples drawn from the training split, measured on the whole test split.  Selection:
    none; L-BFGS to the minimum, with a fixed penalty.

    Args:
        samples: A whole number: training samples of each class, 1 or more.  A number between 0 and 1:
            this part of each class, rounded, at least one sample; papers report 0.01 and 0.1.
        draws: Draws of training samples, 1 or more, whose accuracies are averaged.
        reg: Weight of the penalty, as in `linear`; None: 0.001 times the mean variance of the features
            of each draw.
        max_iter: The most L-BFGS steps, 1 or more.
        seed: Seed of the draws.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            there is one class only, a class has fewer training samples, or a feature is not finite.

    Source:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (2020), section
        6: 1 % and 10 %, with balanced classes; Tian et al., Rethinking Few-Shot Image
            Classification
        (2020): a linear classifier on frozen features of k samples per class.
    """

    samples: int | float = checked(few, default=5)
    draws: int = checked(whole, least=1, default=5)
    reg: float | None = checked(positive, default=None)
    max_iter: int = checked(whole, least=1, default=1000)
    seed: int = checked(whole, least=0, default=0)
    column: str = "label"

    @of_known_classes("column")
    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``few_shot_5/top1``."""
        x, known = with_classes(train, self.column)
        x_test, ids = with_classes(test, self.column)
        generator = torch.Generator().manual_seed(self.seed)
        right = torch.zeros(len(ids), dtype=torch.float64)
        for _ in range(self.draws):
            rows = drawn(known, self.samples, generator)
            fit = fit_probe(x[rows], known[rows], self.reg, self.max_iter, self.column)
            right += fit.predict(x_test) == ids
        size = f"{self.samples}" if isinstance(self.samples, int) else f"{self.samples:.3g} of the"
        by = f"a linear classifier fitted to {size} training samples of each class"
        name = f"few_shot_{self.samples:g}"
        return [accuracy(name, self.column, right / self.draws, ids, by)]


def drawn(ids: Tensor, samples: int | float, generator: torch.Generator) -> Tensor:
    """Rows (k,), in order, of the given number of random samples of each class.

    Args:
        ids: (n,) class ids.
        samples: See `FewShot`.
        generator: Draws the samples.

    Raises:
        ValueError: For a class with fewer samples.
    """
    rows = []
    for class_id in ids.unique():
        own = (ids == class_id).nonzero().flatten()
        count = samples if isinstance(samples, int) else max(1, round(samples * len(own)))
        if count > len(own):
            raise ValueError(
                f"class {class_id.item()} has {len(own)} training samples, not {count}"
            )
        rows.append(own[torch.randperm(len(own), generator=generator)[:count]])
    return torch.cat(rows).sort().values
