from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from pytorch_lightning import Callback
from support.resuming import StopAfter, assert_equal
from support.training_fakes import (
    FakeDataset,
    FakeMethod,
    FakeObjective,
    FakeTransform,
    fit,
    make_parts,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from ccl_plugins.conditions import Original
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.optimizers import AdamW
from ccl_plugins.protocols import Embedded, Sizes, Table
from ccl_plugins.training.features import frozen_features
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step_checks import NonFiniteLoss, NonFiniteWeights


def run(
    out: Path,
    parts: Parts | None = None,
    callbacks: Any = (),
    *,
    resume: bool = False,
    **settings: Any,
) -> Parts:
    parts = parts or make_parts()
    given = {"epochs": 2, "batch_size": 8, "workers": 0, "log_every": 2, **settings}
    also = {"callbacks": callbacks, "resume": resume, "progress": False}
    result = fit(parts, FitSettings(**given), out, {}, **also)
    assert result.finished
    return parts


def test_a_seed_repeats_a_run_to_the_bit(tmp_path: Path) -> None:
    first, second, other = (run(tmp_path, seed=seed).method.state_dict() for seed in (1, 1, 2))
    assert_equal(first, second)
    assert not torch.equal(first["queue"], other["queue"])


def test_the_momentum_encoder_follows_optimizer_steps_and_the_queue_every_batch(
    tmp_path: Path,
) -> None:
    # 44 samples are 5 batches, and the last of an epoch makes a step though it is alone.
    parts = run(tmp_path, make_parts(dataset=FakeDataset(44)), accumulate=2)
    assert parts.method.calls == [(step, 6) for step in range(6)]
    assert len(parts.objective.seen) == 10


class Gradients(Callback):
    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        weights = [p for group in optimizer.param_groups for p in group["params"]]
        self.seen.append(torch.cat([p.grad.flatten() for p in weights if p.grad is not None]))


def test_a_step_has_the_mean_of_its_batches_and_logs_their_loss(tmp_path: Path) -> None:
    """Of 5 batches, the second step of 4 has one alone; at a rate of nearly 0 all have the same weights."""
    given = {"epochs": 1, "optimizer": AdamW(lr=1e-12)}
    single, several = Gradients(), Gradients()
    for accumulate, gradients in ((1, single), (4, several)):
        out = tmp_path / str(accumulate)
        parts = make_parts(dataset=FakeDataset(44))
        run(out, parts, [gradients], accumulate=accumulate, log_every=1, **given)
    expected = [torch.stack(single.seen[:4]).mean(0), single.seen[4]]
    torch.testing.assert_close(several.seen, expected, rtol=1e-4, atol=1e-7)
    losses = [
        [e.value for e in EventAccumulator(str(tmp_path / name)).Reload().Scalars("loss")]
        for name in ("1", "4")
    ]
    means = [sum(losses[0][:4]) / 4, losses[0][4]]
    torch.testing.assert_close(losses[1], means, rtol=1e-4, atol=1e-7)


def test_loss_rate_and_speed_are_logged_by_step(tmp_path: Path) -> None:
    run(tmp_path, epochs=3, warmup_epochs=1)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert {"loss", "lr", "images_per_second"} <= set(events.Tags()["scalars"])
    assert [e.step for e in events.Scalars("loss")] == [2, 4, 6]
    rates = [e.value for e in events.Scalars("lr")]
    torch.testing.assert_close(rates[0], 3e-3, rtol=1e-6, atol=0)
    assert rates[0] > rates[1] > rates[2] > 0
    assert not list(tmp_path.glob("*.yaml"))


def test_the_final_weights_are_plain_data(tmp_path: Path) -> None:
    parts = run(tmp_path)
    saved = read_checkpoint(RunFolder(tmp_path).weights)
    torch.testing.assert_close(saved["method"], dict(parts.method.state_dict()))
    assert saved["step"] == 4
    assert json.loads(saved["record"]).keys() == {"data"}


class Poisoned(FakeObjective):
    """NaN where sample 11 is in the batch."""

    def terms(self, pairs: Any) -> tuple[Tensor, Tensor]:
        values, weights = super().terms(pairs)
        return torch.where(pairs.samples.index == 11, float("nan"), values), weights


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("detect_anomaly", [False, True])
def test_a_loss_that_is_not_finite_stops_the_run(
    tmp_path: Path, accumulate: int, detect_anomaly: bool
) -> None:
    """Step, samples and the checkpoint to go back to are named, and no checkpoint is of NaN."""
    objective = Poisoned()
    settings = {"epochs": 9, "accumulate": accumulate, "log_every": 3}
    with pytest.raises(NonFiniteLoss) as raised:
        run(tmp_path, make_parts(objective=objective), **settings, detect_anomaly=detect_anomaly)
    message = str(raised.value)
    batch = next(i for i, seen in enumerate(objective.seen) if 11 in seen)
    assert f"at step {batch // accumulate + 1};" in message
    which = "the terms of samples [11] are not" if detect_anomaly else f"{objective.seen[batch]}"
    assert which in message
    assert message.endswith("No checkpoint was written before")
    assert not (tmp_path / "checkpoints").exists()


def test_the_last_good_checkpoint_is_named_and_is_finite(tmp_path: Path) -> None:
    class Later(Poisoned):
        def terms(self, pairs: Any) -> tuple[Tensor, Tensor]:
            calls.append(1)
            return (super() if len(calls) > 6 else super(Poisoned, self)).terms(pairs)

    calls: list[int] = []
    with pytest.raises(
        NonFiniteLoss, match=r"The last good checkpoint is .*, of step 6$"
    ) as raised:
        run(tmp_path, make_parts(objective=Later()), epochs=9, log_every=50, checkpoint_every=1)
    path = Path(str(raised.value).split("checkpoint is ")[1].split(", of step")[0])
    state = read_checkpoint(path)["state_dict"]
    assert all(bool(value.isfinite().all()) for value in state.values())


class BlowsUp(Callback):
    """Makes a weight infinite after a step, whose loss is finite."""

    def __init__(self, step: int, tensor: str) -> None:
        self.step, self.tensor = step, tensor

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            module.state_dict()[self.tensor].view(-1)[0] = float("inf")


@pytest.mark.parametrize(
    ("keep_last", "tensor"), [(1, "method.backbone.1.weight"), (2, "method.mean")]
)
def test_a_bad_last_step_leaves_the_last_good_weights(
    tmp_path: Path, keep_last: int, tensor: str
) -> None:
    settings = {"epochs": 4, "checkpoint_every": 1, "keep_last": keep_last}
    parts = make_parts()
    parts.method.register_buffer("mean", torch.zeros(3))
    said = rf"after step 8, with a finite loss \({tensor}\), .* is .*step-0+6\.ckpt, of step 6$"
    with pytest.raises(NonFiniteWeights, match=said):
        run(tmp_path, parts, **settings, callbacks=[BlowsUp(8, tensor)])
    assert not RunFolder(tmp_path).weights.exists()
    kept = [path.name for path in RunFolder(tmp_path).steps]
    assert kept == ["step-00000006.ckpt", "step-00000004.ckpt"][:keep_last]
    good = read_checkpoint(tmp_path / "checkpoints" / kept[0])["state_dict"]
    assert all(bool(value.isfinite().all()) for value in good.values())
    parts = make_parts()
    parts.method.register_buffer("mean", torch.zeros(3))
    run(tmp_path, parts, **settings, resume=True)
    assert RunFolder(tmp_path).steps[0].name == "step-00000008.ckpt"


def test_a_callback_at_the_end_cannot_leave_bad_weights(tmp_path: Path) -> None:
    class AtTheEnd(Callback):
        def on_train_end(self, trainer: Any, module: Any) -> None:
            next(module.method.parameters()).data.fill_(float("nan"))

    with pytest.raises(NonFiniteWeights, match=r"step-0+8\.ckpt, of step 8$"):
        run(tmp_path, make_parts(), epochs=4, callbacks=[AtTheEnd()])
    assert not RunFolder(tmp_path).weights.exists()


def test_a_buffer_that_is_infinite_by_design_is_written(tmp_path: Path) -> None:
    parts = make_parts()
    parts.method.register_buffer("smallest", torch.full((2,), float("inf")))
    run(tmp_path, parts, epochs=1)
    assert read_checkpoint(RunFolder(tmp_path).weights)["method"]["smallest"].isinf().all()
    parts = make_parts()
    parts.method.register_buffer("smallest", torch.full((2,), float("inf")))
    run(tmp_path, parts, epochs=1, resume=True)


def test_losses_are_computed_in_float32_under_mixed_precision(tmp_path: Path) -> None:
    seen = []

    class Watching(FakeMethod):
        def pairs(self, embedded: Embedded, samples: Any) -> Any:
            seen.append((embedded.projections, torch.is_autocast_enabled("cpu")))
            return super().pairs(embedded, samples)

    run(tmp_path, make_parts(method=Watching()), precision="bf16-mixed", epochs=1)
    for projections, autocast in seen:
        assert projections.dtype == torch.float32
        assert not autocast
        torch.testing.assert_close(projections.norm(dim=-1), torch.ones(2, 8))


def test_the_original_features_stay_those_of_the_network_before_training(tmp_path: Path) -> None:
    seen = []

    class Reads(FakeObjective):
        def terms(self, pairs: Any) -> tuple[Tensor, Tensor]:
            seen.append((pairs.samples.index, pairs.samples.condition["condition"]))
            return super().terms(pairs)

    parts = make_parts(objective=Reads(), conditions={"condition": Original()})
    split = parts.dataset("train")
    before = frozen_features(parts.method, split, parts.transform).features
    run(tmp_path, parts)
    assert len(seen) > len(split) // 8
    for index, values in seen:
        torch.testing.assert_close(values, before[index])
    assert not torch.allclose(
        frozen_features(parts.method, split, parts.transform).features, before
    )


class Label:
    refresh, value_type = "never", "categorical"
    reads_embeddings = True

    def fit(self, split: Any, embed: Any, previous: Any) -> Table:
        return Table(split.metadata["label"], {"centers": embed()[:2]})


def test_conditions_and_extras_reach_the_pairs(tmp_path: Path) -> None:
    seen = []

    class Reads(FakeObjective):
        def setup(self, tables: Any, sizes: Any) -> None:
            classes = int(tables["condition"].values.max()) + 1
            self.centers = torch.nn.Parameter(torch.zeros(classes, 4))

        def terms(self, pairs: Any) -> tuple[Tensor, Tensor]:
            seen.append(
                (
                    pairs.samples.index,
                    pairs.samples.condition["condition"],
                    pairs.samples.extras["condition/centers"],
                )
            )
            values, weights = super().terms(pairs)
            return values + (self.centers - 1).square().mean(), weights

    parts = run(tmp_path, make_parts(objective=Reads(), conditions={"condition": Label()}))
    for index, labels, centers in seen:
        assert labels.tolist() == (index % 4).tolist()
        torch.testing.assert_close(centers.norm(dim=1), torch.ones(2))
    assert float(parts.objective.centers.detach().min()) > 0


def test_fitting_a_condition_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    method = FakeMethod()
    method.head.eval()

    class Looks(Callback):
        def on_fit_start(self, trainer: Any, module: Any) -> None:
            seen.append(
                (module.method.backbone[2].running_mean.clone(), module.method.head.training)
            )

    seen: list[Any] = []
    run(tmp_path, make_parts(method=method, conditions={"c": Label()}), [Looks()])
    torch.testing.assert_close(seen, [(torch.zeros(8), False)])


def test_a_sampler_is_given_the_condition_that_it_reads(tmp_path: Path) -> None:
    given = []

    def sampler(*, size: int, batch_size: int, seed: int, condition: Tensor) -> Any:
        from ccl_plugins.samplers import Uniform

        given.append(condition)
        return Uniform(size=size, batch_size=batch_size, seed=seed)

    run(tmp_path, make_parts(sampler=sampler, sampler_on="c", conditions={"c": Label()}))
    assert given[0].tolist() == (torch.arange(20) % 4).tolist()
    with pytest.raises(KeyError, match="no condition 'c'; there are none"):
        run(tmp_path, make_parts(sampler=sampler, sampler_on="c"))


def test_lightning_writes_no_messages(
    tmp_path: Path, capfd: Any, recwarn: pytest.WarningsRecorder
) -> None:
    parts = make_parts(transform=FakeTransform(count=3))
    fit(parts, FitSettings(1, 8, workers=0), tmp_path, {})
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("step 2 of 2, loss ")
    assert err.count("\n") == 1
    assert [str(w.message) for w in recwarn] == []


def test_a_kernels_weights_on_a_condition_are_logged(tmp_path: Path) -> None:
    class Kernelled(FakeObjective):
        conditions: ClassVar[Any] = {"condition": ("categorical",)}

        def kernel(self, a: Tensor, b: Tensor) -> Tensor:
            return (a[:, None] == b).float()

    run(tmp_path, make_parts(objective=Kernelled(), conditions={"condition": Label()}))
    events = EventAccumulator(str(tmp_path)).Reload()
    (surviving,) = events.Scalars("condition/condition/surviving_weight")
    torch.testing.assert_close(surviving.value, 4 / 19, rtol=1e-6, atol=0)


class Sized(FakeObjective):
    """Counts its setups, and has a parameter for each sample."""

    def setup(self, tables: Any, sizes: Any) -> None:
        self.setups = [*getattr(self, "setups", []), (dict(tables), sizes)]
        self.shifts = torch.nn.Parameter(torch.zeros(sizes.samples))

    def terms(self, pairs: Any) -> tuple[Tensor, Tensor]:
        values, weights = super().terms(pairs)
        return values + (self.shifts[pairs.samples.index] - 1).square(), weights


def test_an_objective_gets_the_sizes_of_the_run_without_a_condition_and_on_a_resume(
    tmp_path: Path,
) -> None:
    sizes = Sizes(samples=20, embedding=4, features=8, steps=4)
    settings = FitSettings(epochs=2, batch_size=8, workers=0)
    stopped, resumed = make_parts(objective=Sized()), make_parts(objective=Sized())
    assert not fit(
        stopped, settings, tmp_path, {}, callbacks=[StopAfter(1)], progress=False
    ).finished
    assert fit(resumed, settings, tmp_path, {}, resume=True, progress=False).finished
    assert stopped.objective.setups == resumed.objective.setups == [({}, sizes)]
    assert float(resumed.objective.shifts.detach().max()) > 0  # the optimizer knows it
