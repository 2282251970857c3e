from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback
from support.training_fakes import FakeDataset, FakeMethod, fit, make_parts

from ccl_plugins.protocols import Table
from ccl_plugins.training import FitSettings, Parts
from ccl_plugins.transforms import SimCLRTransform

# 44 samples in batches of 8 are 5 batches in an epoch.
SETTINGS: dict[str, Any] = {"epochs": 3, "batch_size": 8, "workers": 0, "log_every": 2}


class StopAfter(Callback):
    """Sends the process a signal in the middle of a batch."""

    def __init__(self, batch: int, number: int = signal.SIGINT) -> None:
        self.left = batch
        self.number = number

    def on_before_zero_grad(self, *_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


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


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("stop", [1, 4, 5, 6, 8])
def test_a_stopped_and_resumed_run_equals_an_unbroken_one(
    tmp_path: Path, stop: int, accumulate: int
) -> None:
    (whole, broken) = (tmp_path / "whole", tmp_path / "broken")
    whole.mkdir()
    broken.mkdir()
    unbroken, expected = run(whole, accumulate=accumulate)
    first, early = run(broken, stop, accumulate=accumulate)
    assert not first.finished
    assert 0 < first.step < unbroken.step
    second, late = run(broken, resume=True, accumulate=accumulate)
    assert second == unbroken
    assert early.objective.seen + late.objective.seen == expected.objective.seen
    assert early.method.calls + late.method.calls == expected.method.calls
    for name in ("method", "objective"):
        torch.testing.assert_close(
            late.networks[name].state_dict(), expected.networks[name].state_dict(), rtol=0, atol=0
        )


def test_a_run_of_double_precision_resumes_exactly(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    _, expected = run(tmp_path / "whole", precision="64-true")
    run(tmp_path / "broken", 7, precision="64-true")
    _, late = run(tmp_path / "broken", resume=True, precision="64-true")
    assert expected.method.backbone[1].weight.dtype == torch.float64
    torch.testing.assert_close(
        late.method.state_dict(), expected.method.state_dict(), rtol=0, atol=0
    )


@pytest.mark.parametrize("batched", [False, True])
def test_a_run_stopped_with_workers_resumes_exactly_without(tmp_path: Path, batched: bool) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    _, expected = run(tmp_path / "whole", batched=batched)
    run(tmp_path / "broken", 7, batched=batched, workers=2)
    _, late = run(tmp_path / "broken", resume=True, batched=batched)
    torch.testing.assert_close(
        late.method.state_dict(), expected.method.state_dict(), rtol=0, atol=0
    )


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

    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    train(tmp_path / "whole")
    expected = seen[-1]
    train(tmp_path / "broken", stop=5)
    assert not torch.equal(seen[-1], expected)
    train(tmp_path / "broken", resume=True)
    torch.testing.assert_close(seen[-1], expected, rtol=0, atol=0)


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
