"""MoCo v2 in the hands of the engine: what the queue holds follows tables, partners and resumes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback
from support.resuming import StopAfter
from support.sharded import Small
from support.training_fakes import FakeDataset, FakeTransform, fit, make_parts

from ccl_plugins.conditions import Embedding
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.kernels import RBF, Linear
from ccl_plugins.methods import MoCoV2
from ccl_plugins.objectives import FairCCLK, InfoNCE
from ccl_plugins.samplers import ConditionalPair
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.saved import newest_checkpoint
from ccl_plugins.training.settings import FitSettings


class Moving:
    """A refreshed condition of which every sample has another value in every epoch."""

    refresh, value_type = "epoch", "categorical"

    def __init__(self, classes: int = 1000) -> None:
        self.classes = classes

    def fit(self, split: Any, embed: Any, previous: Any) -> torch.Tensor:
        first = torch.arange(len(split)) if previous is None else previous.values + 1
        return first % self.classes


def make(
    condition: Any = None, objective: Any = None, sampler: Any = None, **settings: Any
) -> Parts:
    torch.manual_seed(0)
    method = MoCoV2(8, 4, **{"queue_size": 20, "momentum": 0.5, **settings}, backbone=Small())
    more = {} if sampler is None else {"sampler": sampler, "sampler_on": "condition"}
    return make_parts(
        dataset=FakeDataset(44),
        transform=FakeTransform(),
        method=method,
        objective=objective or InfoNCE(),
        conditions={} if condition is None else {"condition": condition},
        **more,
    )


def run(parts: Parts, out: Path, **changes: Any) -> Parts:
    out.mkdir(exist_ok=True)
    resume, callbacks = changes.pop("resume", False), changes.pop("callbacks", ())
    settings = FitSettings(**{"epochs": 3, "batch_size": 8, "workers": 0, **changes})
    fit(parts, settings, out, {}, resume=resume, callbacks=callbacks, progress=False)
    return parts


def table(out: Path) -> torch.Tensor:
    _, saved = newest_checkpoint(RunFolder(out))
    return saved["ccl_plugins"]["tables"]["condition"]["values"]


def test_the_queue_follows_each_refresh_of_a_table(tmp_path: Path) -> None:
    queue = run(make(Moving()), tmp_path).method.queue
    assert queue.full
    held = queue.condition("condition", torch.zeros(1))
    torch.testing.assert_close(held, table(tmp_path)[queue.index])


def test_partners_are_filed_as_themselves(tmp_path: Path) -> None:
    parts = make(Moving(2), sampler=ConditionalPair)
    seen: list[Any] = []

    class Watch(Callback):
        def on_train_batch_end(self, *args: Any) -> None:
            seen.append(args[3].index)

    queue = run(parts, tmp_path, epochs=1, callbacks=[Watch()]).method.queue
    shown = torch.cat([index[:, 1] for index in seen])[-20:]
    assert sorted(queue.index.tolist()) == sorted(shown.tolist())
    torch.testing.assert_close(
        queue.condition("condition", torch.zeros(1)), table(tmp_path)[queue.index]
    )


def test_the_momentum_encoder_moves_once_per_optimizer_step(tmp_path: Path) -> None:
    parts = make()
    moves: list[float] = []
    original = parts.method.key_encoder.update
    parts.method.key_encoder.update = lambda *a: (moves.append(a[-1]), original(*a))
    run(parts, tmp_path, epochs=1, accumulate=5)
    assert moves == [0.5]
    assert int(parts.method.queue.filled) == 20


@pytest.mark.filterwarnings("ignore:.*RBF reads class ids:UserWarning")
@pytest.mark.parametrize("stop", [2, 5, 7])
@pytest.mark.parametrize("online", [False, True])
def test_a_resumed_run_has_the_queue_of_an_unbroken_one(
    tmp_path: Path, stop: int, online: bool
) -> None:
    def parts() -> Parts:
        condition = Embedding("key") if online else Moving()
        return make(condition, FairCCLK(RBF("median" if online else 1.0)))

    whole = run(parts(), tmp_path / "whole").method
    run(parts(), tmp_path / "broken", callbacks=[StopAfter(stop)])
    late = run(parts(), tmp_path / "broken", resume=True).method
    torch.testing.assert_close(late.state_dict(), whole.state_dict(), rtol=0, atol=0)


def test_gram_statistics_follow_the_queue_and_its_tables(tmp_path: Path) -> None:
    class Vectors(Moving):
        value_type = "continuous"

        def fit(self, split: Any, embed: Any, previous: Any) -> torch.Tensor:
            moved = 0.0 if previous is None else previous.values[0, 2] + 1
            steps = torch.arange(len(split)) + moved
            return torch.stack([steps.sin(), steps.cos(), steps], 1)

    def parts() -> Parts:
        return make(
            Vectors(), FairCCLK(Linear(), temperature=0.2), partial(ConditionalPair, nearest=3)
        )

    method = run(parts(), tmp_path / "whole").method
    (gram,) = method.queue.grams().values()
    rows = method.queue.condition("condition", torch.zeros(1)).double()
    torch.testing.assert_close(gram, rows.T @ rows, rtol=1e-12, atol=1e-12)
    run(parts(), tmp_path / "broken", callbacks=[StopAfter(7)])
    late = run(parts(), tmp_path / "broken", resume=True).method
    torch.testing.assert_close(late.state_dict(), method.state_dict(), rtol=0, atol=0)
    plain = parts().method
    plain.load_state_dict(method.state_dict())
    assert plain.queue.grams() == {}


@pytest.mark.filterwarnings("ignore:condition .* is missing:UserWarning")
@pytest.mark.parametrize("kernel", [Linear(), RBF()])
def test_the_queue_ignores_samples_without_a_value(tmp_path: Path, kernel: Any) -> None:
    class Gaps(Moving):
        value_type, missing = "continuous", "ignore"

        def fit(self, split: Any, embed: Any, previous: Any) -> torch.Tensor:
            values = torch.randn(len(split), 3)
            return values.index_fill(0, torch.arange(0, len(split), 3), torch.nan)

    method = run(make(Gaps(), FairCCLK(kernel, temperature=0.2)), tmp_path).method
    rows = method.queue.condition("condition", torch.zeros(1)).double()
    assert rows.isnan().any()
    assert (rows.isnan().any(1) == (method.queue.index % 3 == 0)).all()
    for gram in method.queue.grams().values():
        known = rows[~rows.isnan().any(1)]
        torch.testing.assert_close(gram, known.T @ known, rtol=1e-12, atol=1e-12)
    assert all(weight.isfinite().all() for weight in method.parameters())
