from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support import oracle
from torch import nn

from ccl_plugins.training import FitSettings
from ccl_plugins.training.optimizers import make_schedule


def factors(
    table: dict[str, Any], epochs: int, steps: int = 1, warmup: float = 0, seen: int | None = None
) -> list[float]:
    settings = FitSettings(epochs, 8, schedule=table).schedule
    factor = make_schedule(settings, epochs, steps, warmup)
    return [factor(step) for step in range(seen or epochs * steps)]


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


def test_a_schedulers_state_does_not_hold_the_number_of_steps() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    settings = FitSettings(2, 8).schedule
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, make_schedule(settings, 2, 5, 0))
    assert scheduler.state_dict()["lr_lambdas"] == [None]
