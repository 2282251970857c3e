"""Whether an evaluator's numbers differ between a network's features and noise."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.evaluators.columns import fixed_part, measured_by
from ccl_plugins.evaluators.intervals import without_intervals
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.protocols import Evaluator, Frozen, trait
from ccl_plugins.training.findings import Finding

SAMPLES = 256
"""The most samples of each split that are measured."""


def unmoved(evaluators: Iterable[Evaluator], train: Frozen, test: Frozen) -> Iterator[Finding]:
    """A finding for each evaluator whose numbers never differ, before training.

    Its numbers on some samples are compared with those of noise of the same shape. If they are
    equal, other noise and features that hold the columns are tried too, because few samples may
    have the same number by chance, or a probe may predict the most frequent class. Evaluators that
    read images or towers are not tested, nor those that cannot measure these samples.
    """
    some = [each.take(fixed_part(len(each.features), SAMPLES)) for each in (train, test)]
    for evaluator in evaluators:
        if trait(evaluator, "reads_towers"):
            continue
        with alone(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                values = _values(evaluator, *some)
                same = values and all(
                    _values(evaluator, *_noise(evaluator, *some, seed=seed, told=told)) == values
                    for seed, told in ((0, False), (1, False), (2, True))
                )
            except Exception:  # the measurement itself will report it
                continue
        if same:
            name, value = next(iter(values.items()))
            yield Finding(
                "a-number-does-not-read-the-features",
                0,
                f"a number does not read the features: {name} of {type(evaluator).__name__} is {value:.3g}"
                " for the network, for noise and for features that hold all columns, on"
                f" {len(some[1].features)} samples; read the features of both splits (evaluate)",
                about=name,
                explains=False,
            )


def _values(evaluator: Evaluator, train: Frozen, test: Frozen) -> dict[str, float]:
    """The numbers by name, from only the features."""
    splits = (replace(each, images=None, towers=None, freeze=None) for each in (train, test))
    return {each.name: float(each.value) for each in measured_by(evaluator, *splits)}


def _noise(
    evaluator: Evaluator, train: Frozen, test: Frozen, *, seed: int, told: bool
) -> list[Frozen]:
    """Both splits with noise as features; if ``told``, with features that hold the evaluator's columns."""
    generator = torch.Generator().manual_seed(seed)
    width = train.features.shape[1]

    def drawn(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator)

    features = [drawn(each.features) for each in (train, test)]
    for name in trait(evaluator, "columns") if told else ():
        both = [torch.as_tensor(each.metadata[name]) for each in (train, test)]
        every = torch.cat(both)
        if every.ndim == 1 and not every.is_floating_point():
            numbers = torch.unique(every, return_inverse=True)[1]
            telling = torch.randn(int(numbers.max()) + 1, width, generator=generator)[numbers]
        else:
            numbers = every.reshape(len(every), -1).float().nan_to_num()
            numbers = (numbers - numbers.mean(0)) / numbers.std(0).clamp_min(1e-6)
            telling = numbers @ torch.randn(numbers.shape[1], width, generator=generator)
        parts = telling.split([len(each) for each in both])
        features = [x + 10 * part for x, part in zip(features, parts, strict=True)]
    return [
        replace(
            each,
            features=x,
            projections=None if (z := each.projections) is None else normalize(drawn(z), dim=-1),
            original=None if each.original is None else drawn(each.original),
        )
        for each, x in zip((train, test), features, strict=True)
    ]


@contextmanager
def alone() -> Iterator[None]:
    """Run evaluators without intervals, without logs, and without effect on random generators."""
    level = (logger := logging.getLogger("ccl_plugins.evaluators")).level
    logger.setLevel(logging.ERROR)
    try:
        with undisturbed(), without_intervals():
            yield
    finally:
        logger.setLevel(level)
