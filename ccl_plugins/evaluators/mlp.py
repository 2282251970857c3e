"""Accuracy of a probe with one hidden layer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, whole
from ccl_plugins.evaluators.columns import (
    OfColumn,
    differing_values,
    in_words,
    of_known_classes,
    score,
    top1,
    two_classes,
    with_classes,
    with_numbers,
)
from ccl_plugins.evaluators.regression import explained
from ccl_plugins.protocols import Frozen, Measurement


@dataclass(eq=False, repr=False)
class MLP(OfColumn):
    """Accuracy of a network with one hidden layer on frozen features: classes, or numbers.

    A linear probe misses information in other than linear form. So use this probe too when you ask
    whether a variable is hidden. Gives ``"mlp/top1"``, and for another column
    ``"mlp-<column>/top1"`` if it holds class ids, or ``"mlp-<column>/r2"``, the explained variance
    averaged over its entries, if it holds numbers.

    scikit-learn's MLP with its defaults (ReLU, Adam), on standardized features; a feature that is
    constant in training is only centered. Training holds out a tenth of the training samples,
    regardless of groups, and stops when these are no longer predicted better.

    Split: fitted to the training split, measured on the test split.  Selection: the number of passes, by
    training samples.

    Args:
        column: Categorical or continuous column of the metadata; samples without a value are left out, and
            a warning counts them.
        hidden: Hidden units, 1 or more.
        epochs: The most passes over the training samples, 1 or more.
        seed: Seed of the weights, the order of the samples and the held-out samples; 0 or more.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or of another type,
            there are fewer than 20 training samples, or one of a class, or a feature is not finite.
        UndefinedMetric: If the training split has one class only; if an entry of a column of numbers is
            constant in the test split.
    """

    column_types = ("categorical", "continuous")
    column: str = "label"
    hidden: int = checked(whole, least=1, default=128)
    epochs: int = checked(whole, least=1, default=300)
    seed: int = checked(whole, least=0, default=0)

    @of_known_classes("column")
    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``mlp/top1``, or ``mlp-<column>/r2``."""
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        values = torch.as_tensor(train.metadata.get(self.column, torch.zeros(0).long()))
        numbers = values.is_floating_point()
        read = with_numbers if numbers else with_classes
        (x, known), (x_test, wanted) = read(train, self.column), read(test, self.column)
        if len(x) < 20:
            raise ValueError(f"an MLP needs 20 training samples or more, but there are {len(x)}")
        # A feature that is constant in training, such as a dead unit's, is not scaled: divided by nearly 0,
        # a test sample's other value would exceed all other features.
        center, scale = x.mean(0), x.std(0)
        scale = torch.where(scale > 1e-9 * x.abs().amax(0), scale, 1.0)
        x, x_test = (x - center) / scale, (x_test - center) / scale
        settings: dict[str, Any] = {
            "hidden_layer_sizes": (self.hidden,),
            "early_stopping": True,
            "max_iter": self.epochs,
            "random_state": self.seed,
        }
        if not numbers:
            two_classes(known)
            ids, counts = known.unique(return_counts=True)
            if counts.min() < 2:
                rare = int(ids[counts.argmin()])
                raise ValueError(
                    f"each class needs two training samples or more, class {rare} has one"
                )
            fit = _fitted(MLPClassifier(**settings), x, known)
            predicted = torch.from_numpy(fit.predict(x_test.numpy()))
            return [top1("mlp", self.column, predicted, wanted, "a network with a hidden layer")]
        for entry in wanted.T:
            differing_values(self.column, entry, "r2")
        # Each entry gets a deviation of 1, since the error is a sum over the entries.
        middle, unit = known.mean(0), known.std(0).clamp_min(1e-12)
        fit = _fitted(MLPRegressor(**settings), x, ((known - middle) / unit).squeeze(1))
        predicted = torch.from_numpy(fit.predict(x_test.numpy())).reshape(len(x_test), -1)
        errors = (predicted * unit + middle - wanted).square()
        words = (
            f"the share of the variance of {in_words(self.column)} in the test samples that a network with"
            " a hidden layer explains"
        )
        name = f"mlp-{self.column}/r2"
        return [score(name, self.column, explained(errors, wanted), words, 0.0)]


def _fitted(network: Any, x: Tensor, wanted: Tensor) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # where the passes end before it stops by itself
        warnings.simplefilter("ignore", ConvergenceWarning)
        return network.fit(x.numpy(), wanted.numpy())
