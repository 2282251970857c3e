"""Evaluators that break one law each."""

from __future__ import annotations

import pytest
from support.broken import broken_laws, names

from ccl_plugins.protocols import Estimate


class Sound:
    """The mean of all features."""

    def __call__(self, train, test):
        return {"mean/all": float(test.features.mean())}


class Nameless(Sound):
    """A metric without the evaluator's name."""

    def __call__(self, train, test):
        return {"mean": float(test.features.mean())}


class Turned(Sound):
    """An interval whose ends are exchanged."""

    def __call__(self, train, test):
        return {"mean/all": Estimate(0.5, 0.6, 0.4)}


class Counting(Sound):
    """Counts its calls."""

    calls = 0

    def __call__(self, train, test):
        self.calls += 1
        return {"mean/all": float(self.calls)}


class Spoiling(Sound):
    """Changes the features."""

    def __call__(self, train, test):
        found = super().__call__(train, test)
        test.features.zero_()
        return found


BROKEN = {
    Sound: set(),
    Nameless: {"metrics_are_named_numbers"},
    Turned: {"metrics_are_named_numbers"},
    Counting: {"is_deterministic"},
    Spoiling: {"leaves_the_features_as_they_are"},
}


@pytest.mark.parametrize("evaluator", BROKEN)
def test_the_law_that_is_broken_is_named(evaluator):
    assert broken_laws("evaluator", evaluator) == BROKEN[evaluator]


def test_every_law_is_broken_once():
    assert set().union(*BROKEN.values()) == names("evaluator")
