"""Other evaluators on another data set."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ccl_plugins.evaluators.columns import measured_by
from ccl_plugins.protocols import (
    Dataset,
    Evaluator,
    Frozen,
    Measurement,
    UndefinedMetric,
    trait,
)


class Elsewhere:
    """Measurements of other evaluators on another data set, by the same frozen network.

    The features of its two splits are computed with the run's transform, like those of the run's
    own data set. An evaluator's ``"knn/top1"`` is called ``"<name>/knn/top1"``. Measured before and
    after training, it shows what the network has lost on data outside its training.

    Split: as each evaluator says, of the other data set.  Selection: as each evaluator says.

    Args:
        of: The other data set.
        evaluate: One or more evaluators.
        name: The data set's name in names and sentences; letters, digits, ``_``, ``.`` and ``-``.

    Raises:
        ValueError: For a name of other characters, and without an evaluator; on use, for features that
            come without the network, and as each evaluator says.
        UndefinedMetric: If none of the evaluators has a number; one of several is left out with a warning.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "of": {"use": "subset", "of": "color_digits", "train": 60, "test": 30},
        "evaluate": ["knn"],
        "name": "digits",
    }

    def __init__(self, of: Dataset, evaluate: Sequence[Evaluator], name: str) -> None:
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f"name must be letters, digits, '_', '.' or '-', not {name!r}")
        if not evaluate:
            raise ValueError(
                f'evaluate must be one or more evaluators, such as ["knn"], not {evaluate!r}'
            )
        self.of = of
        self.evaluators = [*evaluate]
        self.name = name
        self.reads_towers = any(trait(each, "reads_towers") for each in evaluate)

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """The measurements of all evaluators."""
        if train.freeze is None:
            raise ValueError(
                "another data set needs the network behind the features: measure a run, or give"
                " Frozen(features, metadata, freeze=...)"
            )
        known, seen = (train.freeze(self.of(split)) for split in ("train", "test"))
        measurements, undefined = [], []
        for evaluator in self.evaluators:
            try:
                given = measured_by(evaluator, known, seen)
            except UndefinedMetric as error:
                undefined.append(f"{type(evaluator).__name__} on {self.name}: {error}")
                continue
            measurements += [self._named(each) for each in given]
        if not measurements:
            raise UndefinedMetric("; ".join(undefined))
        for reason in undefined:
            warnings.warn(f"the evaluator {reason}; it is left out", stacklevel=2)
        return measurements

    def _named(self, each: Measurement) -> Measurement:
        """A measurement that belongs to no column of the run's own data set."""
        sentence = f"{each.sentence}, on {self.name}"
        return replace(each, name=f"{self.name}/{each.name}", column=None, sentence=sentence)
