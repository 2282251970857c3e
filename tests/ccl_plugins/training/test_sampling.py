"""The sampler of each epoch: the condition that it reads, and when it is made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.training_fakes import FakeDataset, FakeObjective, fit, make_parts
from torch import Tensor

from ccl_plugins.samplers import ConditionalPair, SameCondition, Uniform
from ccl_plugins.training.sampling import EpochSampler
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables


class Turning:
    """Two halves of the samples, others in every epoch."""

    refresh, value_type = "epoch", "categorical"

    def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
        turn = 0 if previous is None else int(previous.values.min()) + 2
        return (torch.arange(len(split)) + turn // 2) % 2 + turn


class Fixed:
    refresh, value_type = "never", "categorical"

    def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
        return torch.arange(len(split)) // 8


def test_a_sampler_follows_each_refresh(tmp_path: Path) -> None:
    seen = []

    class Watches(FakeObjective):
        def terms(self, pairs: Any) -> tuple[Tensor, Tensor]:
            seen.append(pairs.samples.condition["condition"].unique().tolist())
            return super().terms(pairs)

    parts = make_parts(
        dataset=FakeDataset(32),
        objective=Watches(),
        conditions={"condition": Turning()},
        sampler=SameCondition,
        sampler_on="condition",
    )
    settings = FitSettings(epochs=3, batch_size=8, workers=0)
    fit(parts, settings, tmp_path, {}, progress=False)
    assert {len(values) for values in seen} == {1}
    assert [{v // 2 for (v,) in seen[e : e + 4]} for e in (0, 4, 8)] == [{0}, {1}, {2}]


def test_it_is_made_again_only_for_another_table() -> None:
    parts = make_parts(
        conditions={"fixed": Fixed(), "turning": Turning()},
        sampler=SameCondition,
        sampler_on="fixed",
    )
    tables = Tables(parts.conditions, 16)
    make = EpochSampler(parts, tables, FitSettings(batch_size=4), None)
    tables.refresh(0, range(16), lambda: torch.zeros(16, 2))
    first = make()
    tables.refresh(1, range(16), lambda: torch.zeros(16, 2))
    assert make() is first
    batch = next(iter(first.batches(0)))
    assert len({int(i) // 8 for i in batch}) == 1


def test_the_condition_must_have_a_table() -> None:
    parts = make_parts(conditions={"a": Fixed()}, sampler=SameCondition, sampler_on="b")
    tables = Tables(parts.conditions, 16)
    with pytest.raises(KeyError, match="no condition 'b'; there are 'a'"):
        EpochSampler(parts, tables, FitSettings(batch_size=4), None)()


def test_epochs_of_different_lengths_are_refused(tmp_path: Path) -> None:
    def shrinking(*, size: int, batch_size: int, seed: int, condition: Tensor) -> Any:
        return Uniform(size=size - 8 * int(condition[0] > 1), batch_size=batch_size, seed=seed)

    parts = make_parts(
        conditions={"condition": Turning()}, sampler=shrinking, sampler_on="condition"
    )
    with pytest.raises(ValueError, match="1 batches in epoch 1 and had 2 before"):
        fit(parts, FitSettings(2, 8, workers=0), tmp_path, {}, progress=False)


def test_a_run_with_partners_sees_both_images(tmp_path: Path) -> None:
    parts = make_parts(
        conditions={"condition": Fixed()}, sampler=ConditionalPair, sampler_on="condition"
    )
    result = fit(parts, FitSettings(2, 8, workers=0), tmp_path, {}, progress=False)
    assert result.step == 4
    assert len(parts.objective.seen[0]) == 8
