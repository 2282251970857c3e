from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support import oracle

import ccl_plugins as ccl
from ccl_plugins.protocols import Length
from ccl_plugins.training.settings import FitSettings


def factors(
    table: dict[str, Any], epochs: int, steps: int = 1, warmup: float = 0, seen: int | None = None
) -> list[float]:
    options = {key: value for key, value in table.items() if key != "name"}
    schedule = ccl.create("schedule", table.get("name", "cosine"), **options)
    length = Length(epochs, steps, warmup)
    return [schedule(step, length) for step in range(seen or epochs * steps)]


@pytest.mark.parametrize("accumulate", [1, 2, 3, 5])
@pytest.mark.parametrize("batches", [1, 5, 6])
@pytest.mark.parametrize("max_steps", [None, 1, 4, 100])
def test_a_length_counts_as_a_run_does(accumulate, batches, max_steps):
    """A run that takes a step after each ``accumulate`` batches, and at the end of an epoch."""
    sizes: list[int] = []
    for _ in range(3):
        for first in range(0, batches, accumulate):
            sizes.append(min(accumulate, batches - first))
    length = FitSettings(3, max_steps=max_steps, accumulate=accumulate).length(batches)
    steps = min(len(sizes), max_steps or len(sizes))
    assert (length.steps, length.batches) == (steps, sum(sizes[:steps]))
    assert (length.steps_per_epoch, length.batches_per_epoch) == (len(sizes) // 3, batches)
    for step, size in enumerate(sizes):
        before = sum(sizes[:step])
        assert length.batches_after(step) == before
        assert length.batches_of_step(step) == size
        assert [length.steps_after(before + i) for i in range(size)] == [step] * size


def test_the_rate_rises_linearly_and_falls_as_a_cosine_that_ends_after_the_last_step() -> None:
    found = factors({}, epochs=5, steps=2, warmup=2, seen=11)
    assert found[:4] == [0.25, 0.5, 0.75, 1.0]
    torch.testing.assert_close(found[4:], [(1 + math.cos(math.pi * i / 6)) / 2 for i in range(7)])
    assert found[9] > 0 == found[10]


def test_a_warm_up_may_end_within_an_epoch() -> None:
    found = factors({}, epochs=2, steps=10, warmup=0.5)
    assert found[:5] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert max(found[6:]) < 1


def test_steps_multiply_the_rate_at_each_milestone() -> None:
    table = {"name": "step", "milestones": [2, 3], "factor": 0.1}
    expected = [0.5, 0.5, 1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    torch.testing.assert_close(factors(table, epochs=4, steps=2, warmup=2), expected)
    by_step = factors({**table, "per": "step"}, epochs=4, steps=2, warmup=2)
    torch.testing.assert_close(by_step, [0.25, 0.5, 0.75, 1.0, 0.1, 0.1, 0.01, 0.01])


def test_steps_may_raise_the_rate_and_lie_within_the_warm_up() -> None:
    table = {"name": "step", "milestones": [1, 3], "factor": 2.0}
    assert factors(table, epochs=4) == [1.0, 2.0, 2.0, 4.0]
    assert factors(table, epochs=4, warmup=2) == [0.5, 2.0, 2.0, 4.0]


def test_a_constant_rate_stays_after_its_warm_up() -> None:
    assert factors({"name": "constant"}, epochs=6, warmup=2) == [0.5, 1, 1, 1, 1, 1]


RECIPES = {
    "sched_cclk_ramp_cosine": {"per": "epoch", "overlap": True},
    "sched_clinfonce_cosine": {"per": "epoch", "end": 1e-3, "reach_end": True},
    "sched_clinfonce_warmup": {"per": "epoch", "end": 1e-3, "start": 1e-4, "reach_end": True},
}


@pytest.mark.parametrize("name", oracle.names("sched_*"))
def test_published_schedules_are_settings_of_it(name: str) -> None:
    case = oracle.case(name)
    given = case["params"]
    warmup = {"sched_cclk_ramp_cosine": 10, "sched_clinfonce_warmup": 33}.get(name, 0)
    lr = given.get("lr", given.get("base_lr"))
    stored = case["extras"]["values"]
    found = [lr * each for each in factors(RECIPES[name], len(stored), steps=7, warmup=warmup)]
    torch.testing.assert_close(found[::7], stored, rtol=1e-12, atol=0)
    assert found[::7] == found[6::7], "the rate changes between epochs only"
    torch.testing.assert_close(sum(found[::7]), case["expected_paper"], rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": "cos"}, "no schedule 'cos'. Did you mean 'cosine'"),
        ({"per": "batch"}, "per must be .*'step', 'epoch'.*, not 'batch'"),
        ({"end": -1.0}, "end must be a finite number, 0 or more, not -1.0"),
        ({"start": 2.0}, "start must be from 0 to below 1, not 2.0"),
        ({"name": "step"}, "step needs 'milestones'"),
        ({"name": "step", "milestones": []}, r"epochs, such as \[120, 160\], not \[\]"),
        ({"name": "step", "milestones": [9, 3]}, r"must rise, not \[9, 3\]"),
        ({"name": "step", "milestones": [0]}, "each of milestones must be 1 or more, not 0"),
    ],
)
def test_what_is_wrong_is_quoted(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        factors(table, epochs=2)
