"""Monitors in a run: exact, without influence on it, and with their cost."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback
from support import monitored, plates_apart
from support.monitored import Seen, pipeline, train
from support.resuming import StopAfter
from torch.utils._python_dispatch import TorchDispatchMode

import ccl_plugins as ccl
from ccl_plugins.experiments.train import RunInterrupted
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.training.saved import newest_checkpoint
from ccl_plugins.watching.monitor import Monitor

MEASURED = {
    "linear/top1",
    "knn/top1",
    "linear-group/top1",  # a column that an evaluator reads
    "knn-group/top1",
    "age/r2",
    "age/mse",
    "linear-clusters/top1",
    "knn-clusters/top1",
    "projections/rankme",
    "features/rankme",
    "projections/alignment",
    "projections/uniformity",
    "projections/conditional_entropy",
    "same_label_negatives",
    "age/surviving_weight",
    "age/effective_neighbors",
    "clusters/mutual_information",
    "clusters/conditional_entropy",
}


def state(folder: Path) -> Any:
    """Weights, optimizer, tables and random generators at the end of a run."""
    saved = newest_checkpoint(RunFolder(folder))[1]
    moments = [each["state"] for each in saved["optimizer_states"]]
    generators = [
        (each["python"][1], each["numpy"], each["torch"])
        for each in saved["ccl_plugins"]["generators"]
    ]
    return saved["state_dict"], moments, saved["ccl_plugins"]["tables"], generators


def stopped(folder: Path, batch: int, method: str, monitor: Any) -> Seen:
    """What a run logged that was stopped in a batch and resumed."""
    options = {"method": method, "monitor": monitor}
    first = Seen()
    with pytest.raises(RunInterrupted):
        pipeline(**options).fit(
            out=folder, logger=first, progress=False, callbacks=[StopAfter(batch)]
        )
    second, _ = train(folder, **options, fit={"resume": True})
    second.steps = {**first.steps, **second.steps}
    return second


def test_everything_is_measured_after_each_epoch_and_shown_in_the_last_line(tmp_path, capsys):
    seen, run = train(tmp_path, fit={"progress": True})
    assert list(seen.steps) == [4, 8, 12]
    for found in seen.steps.values():
        assert set(found) == MEASURED
    last = capsys.readouterr().err.splitlines()[-1]
    assert "label probe 0." in last
    assert last.endswith(f"{run.costs['monitors_share']:.1%} of it for monitors")


@pytest.mark.parametrize("method", ["simclr", "moco_v2"])
@pytest.mark.parametrize("monitor", [{"every_epochs": 1}, {"every_steps": 3}])
def test_monitors_change_no_weight_and_no_random_draw(tmp_path, method, monitor):
    train(tmp_path / "off", method, "off")
    train(tmp_path / "on", method, monitor)
    torch.testing.assert_close(state(tmp_path / "on"), state(tmp_path / "off"), rtol=0, atol=0)


@pytest.mark.parametrize(
    "batch", [pytest.param(2, marks=pytest.mark.slow), 4, pytest.param(6, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("method", ["simclr", "moco_v2"])
def test_a_run_that_was_stopped_and_resumed_logs_what_an_unbroken_one_does(tmp_path, batch, method):
    """Within an interval, and at its end, with tables that are refreshed in the middle of it."""
    monitor = {"every_steps": 3} if batch == 6 else {"every_epochs": 1}
    expected, _ = train(tmp_path / "whole", method, monitor)
    found = stopped(tmp_path / "broken", batch, method, monitor)
    assert found.steps == expected.steps
    whole, broken = state(tmp_path / "whole"), state(tmp_path / "broken")
    torch.testing.assert_close(broken, whole, rtol=0, atol=0)


@pytest.mark.parametrize("method", ["simclr", "moco_v2"])
def test_two_ranks_measure_what_one_process_does(two_processes, tmp_path, method):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    settings = {"precision": "64-true"}
    expected, weights, banks = monitored.train_parts(str(tmp_path / "one"), 1, method, **settings)
    both = two_processes(monitored.train_as_rank, str(tmp_path / "two"), method, settings)
    near = {"rtol": 1e-5, "atol": 1e-5}
    for found, found_weights, _ in both:
        torch.testing.assert_close(found_weights, weights, **near)
        torch.testing.assert_close(found, expected, **near)
    assert both[0][0] == both[1][0]
    assert banks
    torch.testing.assert_close(both[0][2], both[1][2], rtol=0, atol=0)  # equal on all ranks
    torch.testing.assert_close(both[0][2], banks, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_two_ranks_that_are_resumed_within_an_interval_measure_the_same(
    two_processes, tmp_path, precision
):
    settings = {"epochs": 2, "checkpoint_every_steps": 3, "keep_last": 9, "precision": precision}
    arguments = (monitored.train_as_rank, str(tmp_path), "simclr")
    expected = two_processes(*arguments, settings)[0][0]
    for file in (tmp_path / "checkpoints").glob("*.ckpt"):
        if file.name != "step-00000003.ckpt":  # after 3 of 4 batches
            file.unlink()
    both = two_processes(*arguments, {**settings, "resume": True})
    for found, *_ in both:
        assert found.keys() == {step for step in expected if step > 3}
        for step, each in found.items():
            torch.testing.assert_close(each, expected[step], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("monitor", "accumulate", "steps"),
    [
        (None, 1, [12]),  # of 3 epochs of 4 steps
        ({"every_epochs": 2}, 1, [8, 12]),
        ({"every_steps": 5}, 1, [5, 10, 12]),
        ({"every_steps": 100}, 1, [12]),
        ({"every_steps": 1}, 3, [1, 2, 3, 4, 5, 6]),  # of 3 batches and of 1
        ({"every_epochs": 1}, 3, [2, 4, 6]),
    ],
)
def test_a_measurement_is_taken_when_it_is_due_and_at_the_end(tmp_path, monitor, accumulate, steps):
    seen, _ = train(tmp_path, monitor=monitor, accumulate=accumulate)
    assert list(seen.steps) == steps


@pytest.mark.parametrize(
    ("most", "accumulate", "steps"), [(3, 1, [3]), (6, 1, [4, 6]), (8, 1, [4, 8]), (3, 3, [2, 3])]
)
def test_a_run_that_ends_within_an_epoch_is_measured_at_its_end(tmp_path, most, accumulate, steps):
    seen, _ = train(tmp_path, max_steps=most, accumulate=accumulate)
    assert list(seen.steps) == steps


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "bf16-mixed"},
        {"precision": "64-true"},
        pytest.param({"compile": "aot_eager"}, marks=pytest.mark.slow),
        {"micro_batch": 8},
    ],
)
def test_every_way_to_train_is_measured(tmp_path, settings):
    seen, _ = train(tmp_path, epochs=1, **settings)
    assert set(seen.steps[4]) == MEASURED


class Waits(TorchDispatchMode):
    """Names the operations for which a processor waits for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = [each for each in torch.utils._pytree.tree_leaves(args[1:]) if is_mask(each)]
        if name in WAITING or (name in ("index", "index_put_") and masks):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


WAITING = {
    "_local_scalar_dense",
    "item",
    "nonzero",
    "masked_select",
    "equal",
    "unique_dim",
    "_unique2",
}


def is_mask(each: Any) -> bool:
    return isinstance(each, torch.Tensor) and each.dtype == torch.bool


@pytest.mark.parametrize("method", ["simclr", "moco_v2"])
def test_a_step_never_waits_for_the_device(tmp_path, method, monkeypatch):
    """Only the last of an interval's batches reads what the others have gathered."""
    waits, looked = Waits(), []
    original = Monitor.on_after_backward

    def watched(self: Monitor, trainer: Any, module: Any) -> None:
        left = self.due - module.consumed.batches
        if left == 1 or module.consumed.batches % 4 == 0:  # tables, on the CPU, were refreshed
            return original(self, trainer, module)
        looked.append(left)
        with waits:
            return original(self, trainer, module)

    monkeypatch.setattr(Monitor, "on_after_backward", watched)
    train(tmp_path, method, {"every_steps": 3})
    assert len(looked) > 2
    assert waits.found == []
    with waits:
        bool(torch.ones(2).any())
    assert waits.found


def test_switched_off_nothing_is_measured(tmp_path):
    for off in ("off", False):
        seen, run = train(tmp_path, monitor=off, fit={"overwrite": True}, epochs=1)
        assert seen.steps == {}
        assert run.record["monitor"] == "off"
        assert run.costs["training"] > 0
        assert run.costs["monitors"] == 0


def test_the_chosen_evaluators_take_the_place_of_the_others(tmp_path):
    chosen = {"every_epochs": 1, "evaluate": ["uniformity", {"use": "knn", "column": "clusters"}]}
    seen, run = train(tmp_path, monitor=chosen, epochs=1)
    of_batches = {n for n in MEASURED if n.endswith(("_negatives", "_weight", "_neighbors"))}
    information = {"clusters/mutual_information", "clusters/conditional_entropy"}
    expected = {"projections/uniformity", "knn-clusters/top1"}
    assert set(seen.steps[4]) == expected | information | of_batches
    names = [each["use"] for each in run.record["monitor"]["evaluate"]]
    assert names == ["evaluator:ccl-plugins/uniformity", "evaluator:ccl-plugins/knn"]


class Pairs:
    """Measures as an evaluator of another library does."""

    def __call__(self, train: Any, test: Any) -> Any:
        return [("pairs", 1.0)]


def test_an_evaluator_that_gives_no_measurements_ends_no_run(tmp_path):
    chosen = {"every_epochs": 1, "evaluate": [Pairs(), "uniformity"]}
    with pytest.warns(UserWarning, match="the monitor has no number of Pairs: AttributeError"):
        seen, _ = train(tmp_path, monitor=chosen, epochs=1)
    assert "projections/uniformity" in seen.steps[4]


def plates_seen(folder, **parts):
    seen = Seen()
    composed = plates_apart.pipeline(plates_apart.of_plate("linear"), **parts)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the evaluator linear|the measured samples are of 2")
        composed.fit(out=folder, epochs=2, logger=seen, progress=False)
    assert len(seen.steps) == 1 + ("monitor" in parts)
    return [{name for name in found if "plate" in name} for found in seen.steps.values()]


def test_a_column_whose_groups_are_held_out_is_read_within_the_samples(tmp_path):
    """A probe of other plates would draw a flat 0."""
    assert plates_seen(tmp_path / "apart") == [{"held-plate/top1"}]
    names = plates_seen(tmp_path / "mixed", group=None)
    assert names == [{"linear-plate/top1", "knn-plate/top1"}]


def test_a_chosen_evaluator_without_a_number_is_said_once_for_its_column(tmp_path):
    chosen = [plates_apart.of_plate("linear"), plates_apart.of_plate("held", probe="knn"), "linear"]
    monitor = {"every_epochs": 1, "evaluate": chosen}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert plates_seen(tmp_path, monitor=monitor) == [{"held-plate/top1"}] * 2
    lines = [text for each in said if "monitor has no" in (text := str(each.message))]
    (line,) = lines
    assert "no number of LinearProbe: training has no sample of the 3 classes that 120" in line


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run that was stopped in its sixth step."""
    out = tmp_path_factory.mktemp("interrupted") / "run"
    with pytest.raises(RunInterrupted):
        pipeline().fit(out=out, progress=False, callbacks=[StopAfter(6)])
    return out


@pytest.fixture
def resumable(interrupted, tmp_path):
    """A copy of it."""
    return shutil.copytree(interrupted, tmp_path / "run")


def test_a_resumed_run_may_be_watched_otherwise(resumable):
    seen, run = train(resumable, monitor={"every_steps": 5}, fit={"resume": True})
    assert list(seen.steps) == [10, 12]
    assert run.record["monitor"]["every_steps"] == 5


def test_the_cost_of_each_measure_is_kept_with_the_run(resumable):
    before = ccl.load(resumable).costs
    _, run = train(resumable, fit={"resume": True})
    costs = run.costs
    assert costs["training"] > before["training"] > 0
    parts = [v for k, v in costs.items() if k.startswith("monitors/")]
    assert {"monitors/bank", "monitors/KNN", "monitors/kernel"} <= {*costs}
    torch.testing.assert_close(costs["monitors"], sum(parts))
    torch.testing.assert_close(costs["monitors_share"], costs["monitors"] / costs["training"])
    run.evaluate()
    assert run.costs == {**costs, "evaluation": run.costs["evaluation"]}
    assert run.costs["evaluation"] > 0


def test_features_that_diverge_are_no_error_of_the_monitors(tmp_path):
    optimizer = {"use": "sgd", "lr": 1e30}
    with pytest.raises(ArithmeticError, match="not finite"):
        train(tmp_path, monitor={"every_steps": 1}, optimizer=optimizer, log_every=100)


def test_a_checkpoint_holds_plain_data_of_the_interval(interrupted):
    (file,) = (interrupted / "checkpoints").glob("*06.ckpt")
    saved = read_checkpoint(file)["callbacks"]["Monitor"]["bank"]
    assert {name: len(each) for name, each in saved.items()} == {
        "numbers": 32,
        "index": 32,
        "when": 32,
    }


def test_the_negatives_of_an_anchors_label_are_those_of_the_batch(tmp_path):
    class Share(Callback):
        expected: float

        def on_after_backward(self, trainer: Any, module: Any) -> None:
            label = monitored.ROWS["label"][module.pairs.samples.index]
            others = ~torch.eye(len(label), dtype=torch.bool)
            self.expected = float((label[:, None] == label)[others].double().mean())

    share = Share()
    monitor = {"every_steps": 1}
    seen, _ = train(tmp_path, monitor=monitor, fit={"callbacks": [share]}, epochs=1)
    torch.testing.assert_close(seen.steps[4]["same_label_negatives"], share.expected)
