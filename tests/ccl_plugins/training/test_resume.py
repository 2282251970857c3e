from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.resuming import StopAfter, assert_equal
from support.training_fakes import FakeDataset, FakeMethod, fit, make_parts

from ccl_plugins.protocols import Table
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.transforms import SimCLRTransform

# 44 samples in batches of 8 are 5 batches in an epoch.
SETTINGS: dict[str, Any] = {"epochs": 3, "batch_size": 8, "workers": 0, "log_every": 2}


class Drifting:
    """A refreshed condition that depends on the model, on the table before, and on chance."""

    refresh = "epoch"
    value_type = "continuous"
    reads_embeddings = True

    def fit(self, split: Any, embed: Any, previous: Table | None) -> Table:
        before = 0 if previous is None else previous.values
        values = embed() + before + torch.rand(len(split), 1)
        return Table(values, {"center": values.mean(0)})


def parts(**more: Any) -> Parts:
    return make_parts(dataset=FakeDataset(44), conditions={"condition": Drifting()}, **more)


def run(
    out: Path, stop: int = 0, resume: bool = False, batched: bool = False, **changes: Any
) -> tuple[Any, Parts]:
    built = parts(transform=SimCLRTransform(size=4, batched=True)) if batched else parts()
    settings = FitSettings(**{**SETTINGS, **changes})
    stops = [StopAfter(stop)] if stop else []
    result = fit(built, settings, out, {}, resume=resume, callbacks=stops, progress=False)
    return result, built


@pytest.mark.parametrize(
    ("stop", "settings", "before"),
    [
        *((stop, {"accumulate": n}, {}) for stop in (1, 4, 5, 6, 8) for n in (1, 2)),
        (7, {"precision": "64-true"}, {}),
        (7, {}, {"workers": 2}),
        (7, {"batched": True}, {"workers": 2}),
    ],
)
def test_a_stopped_and_resumed_run_equals_an_unbroken_one(
    tmp_path: Path, stop: int, settings: dict[str, Any], before: dict[str, Any]
) -> None:
    """Whatever settings it has that may be others before the resume."""
    unbroken, expected = run(tmp_path / "whole", **settings)
    first, early = run(tmp_path / "broken", stop, **settings, **before)
    assert not first.finished
    assert 0 < first.step < unbroken.step
    second, late = run(tmp_path / "broken", resume=True, **settings)
    assert second == unbroken
    assert early.objective.seen + late.objective.seen == expected.objective.seen
    assert early.method.calls + late.method.calls == expected.method.calls
    weight = expected.method.backbone[1].weight
    assert weight.dtype == (torch.float64 if "precision" in settings else torch.float32)
    for name in ("method", "objective"):
        assert_equal(late.networks[name].state_dict(), expected.networks[name].state_dict())


def test_a_refresh_at_an_epochs_start_is_not_missed_by_a_resume(tmp_path: Path) -> None:
    """A run stopped after an epoch's last batch refreshes the tables before its sampler reads them."""
    seen: list[torch.Tensor] = []

    def sampler(*, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> Any:
        from ccl_plugins.samplers import Uniform

        seen.append(condition.clone())
        return Uniform(size=size, batch_size=batch_size, seed=seed)

    def train(out: Path, stop: int = 0, resume: bool = False) -> None:
        built = make_parts(
            dataset=FakeDataset(44),
            conditions={"condition": Drifting()},
            sampler=sampler,
            sampler_on="condition",
        )
        settings = FitSettings(**{**SETTINGS, "epochs": 2})
        stops = [StopAfter(stop)] if stop else []
        fit(built, settings, out, {}, resume=resume, callbacks=stops, progress=False)

    train(tmp_path / "whole")
    expected = seen[-1]
    train(tmp_path / "broken", stop=5)
    assert not torch.equal(seen[-1], expected)
    train(tmp_path / "broken", resume=True)
    assert_equal(seen[-1], expected)


class Rereading(FakeMethod):
    """Counts the batches before each call of `read_conditions`."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []
        self.batches = 0

    def enqueue(self, pairs: Any) -> None:
        super().enqueue(pairs)
        self.batches += 1

    def read_conditions(self, look_up: Any) -> None:
        rows = look_up(torch.tensor([3, 0, 3]))["condition"]
        assert rows.shape == (3, 4)
        assert torch.equal(rows[0], rows[2])
        self.read.append(self.batches)


def test_conditions_are_read_again_in_every_epoch_and_on_a_resume_within_one(tmp_path: Path):
    built = [make_parts(method=Rereading(), conditions={"condition": Drifting()}) for _ in range(2)]
    for parts, stop in zip(built, ([StopAfter(1)], []), strict=True):
        settings = FitSettings(epochs=2, batch_size=8, workers=0)
        fit(parts, settings, tmp_path, {}, resume=not stop, callbacks=stop, progress=False)
    # Two batches in an epoch: the first run stops after one.
    assert [parts.method.read for parts in built] == [[0], [0, 1]]
