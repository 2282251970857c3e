"""The changing numbers of an objective in a run: they follow its steps, are logged and are saved."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support.training_fakes import FakeDataset, FakeMethod, fit, make_parts
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ccl_plugins.conditions import Label
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.kernels import Linear
from ccl_plugins.objectives import FairCCLK, InfoNCE, Mixture
from ccl_plugins.pairs import Pairs, Samples, in_batch
from ccl_plugins.training.settings import FitSettings


class PairsMethod(FakeMethod):
    def pairs(self, embedded: Any, samples: Samples) -> Pairs:
        return in_batch(embedded.projections, samples)

    def enqueue(self, pairs: Pairs) -> None:
        pass


def logged(out: Path, objective: Any, **settings: Any) -> dict[str, list[float]]:
    conditions = {"condition": Label()} if objective.conditions else {}
    parts = make_parts(
        method=PairsMethod(), objective=objective, dataset=FakeDataset(44), conditions=conditions
    )
    given = {"epochs": 2, "batch_size": 8, "workers": 0, "log_every": 1, **settings}
    assert fit(parts, FitSettings(**given), out, {}, progress=False).finished
    events = EventAccumulator(str(out)).Reload()
    return {
        tag: [event.value for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
        if tag.startswith(("objective/", "condition/"))
    }


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 10), (2, 6)])
def test_a_schedule_follows_optimizer_steps_to_its_end(
    tmp_path: Path, accumulate: int, steps: int
) -> None:
    falling = {"schedule": "linear", "start": 0.6, "end": 0.1}
    found = logged(tmp_path, InfoNCE(falling), accumulate=accumulate)
    expected = torch.linspace(0.6, 0.1, steps).tolist()
    torch.testing.assert_close(found, {"objective/temperature": expected}, rtol=1e-5, atol=0)


@pytest.mark.parametrize(("accumulate", "each"), [(1, 5), (2, 3)])
def test_a_period_is_of_epochs_whatever_a_run_s_length(
    tmp_path: Path, accumulate: int, each: int
) -> None:
    waving = {"schedule": "cosine", "start": 1.0, "end": 0.1, "period": 2}
    objective = Mixture([InfoNCE(waving)])
    found = logged(tmp_path, objective, epochs=3, accumulate=accumulate)
    expected = [0.1 + 0.45 * (1 + math.cos(math.pi * k / each)) for k in range(3 * each)]
    torch.testing.assert_close(found["objective/0/temperature"], expected, rtol=1e-5, atol=1e-7)


def test_a_learned_temperature_moves_without_weight_decay_and_is_saved(tmp_path: Path) -> None:
    objective = InfoNCE({"learn": True, "start": 0.5})
    found = logged(tmp_path, objective)["objective/temperature"]
    assert len(set(found)) == len(found) == 10
    saved = read_checkpoint(RunFolder(tmp_path).weights)["objective"]
    torch.testing.assert_close(saved, dict(objective.state_dict()))
    torch.testing.assert_close(found[-1], objective.temperature.item(), rtol=1e-6, atol=0)


def test_kernels_of_a_mixture_s_objectives_are_checked(tmp_path: Path) -> None:
    found = logged(tmp_path, Mixture([InfoNCE(), FairCCLK(Linear())]))
    assert set(found) >= {
        "condition/condition/surviving_weight",
        "condition/condition/effective_neighbors",
    }
