"""The learning rate finder suggests a rate and leaves nothing behind."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import pytest
import torch
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data
from support.vector_pipeline import make_pipeline

import ccl_plugins as ccl
from ccl_plugins.backbones import MLP
from ccl_plugins.cli import main
from ccl_plugins.experiments.learning_rates import LearningRates

RATES = [10 ** (i / 20 - 4) for i in range(100)]


class Layered(MLP):
    def layer_numbers(self):
        return {name: 0 for name, _ in self.named_parameters()}


class Watched:
    """SGD that keeps the learning rates of the groups in each step."""

    def __init__(self) -> None:
        self.lr = 0.5
        self.seen: list[list[float]] = []

    def __call__(self, groups):
        seen = self.seen

        class Watching(torch.optim.SGD):
            def step(self, closure=None):
                seen.append([group["lr"] for group in self.param_groups])
                return super().step(closure)

        return Watching([*map(dict, groups)], self.lr)


def pipeline(backbone=None, method="moco_v2", **settings):
    options = {"queue_size": 64} if method == "moco_v2" else {}
    return ccl.Pipeline(
        dataset=make_pipeline().choices["dataset"],
        backbone=backbone or ccl.backbone("mlp", in_features=4, hidden=[8]),
        method=ccl.method(method, hidden=8, dim=4, **options),
        transform="noise",
        objective=ccl.objective("infonce", temperature=0.5),
        evaluate=[],
        fit={"epochs": 10, "batch_size": 16, "workers": 0, **settings},
    )


def test_every_step_has_a_higher_rate_in_all_groups():
    optimizer = Watched()
    backbone = Layered(in_features=4, hidden=[8])
    trial = pipeline(
        backbone, optimizer=optimizer, lr_per=8, layer_decay=0.5, warmup_epochs=2, schedule="cosine"
    )
    found = trial.find_lr(1e-4, 1e-1, 20, progress=False)
    expected = torch.logspace(-4, -1, 20, dtype=torch.float64)
    torch.testing.assert_close(torch.tensor(found.rates, dtype=torch.float64), expected)
    assert len(found.losses) == 20
    seen = torch.tensor(optimizer.seen, dtype=torch.float64)
    # Steps of 16 samples where the rate is for 8; heads are one layer above the backbone.
    torch.testing.assert_close(seen.amax(1), 2 * expected)
    torch.testing.assert_close(seen.amin(1), expected)


def test_training_afterwards_is_as_without_it_bit_for_bit(tmp_path):
    torch.manual_seed(1)
    backbone = MLP(in_features=4, hidden=[8])  # an object, which every fit of this session shares
    before = copy.deepcopy(backbone.state_dict())
    searched = pipeline(backbone)
    torch.manual_seed(5)
    found = searched.find_lr(1e-3, 1.0, 20, progress=False)
    assert len(set(found.losses)) == 20
    for name, value in backbone.state_dict().items():
        assert torch.equal(value, before[name])
    plain = pipeline(copy.deepcopy(backbone))
    states = [
        each.fit(out=tmp_path / name, progress=False, logger=False, epochs=2).method.state_dict()
        for name, each in (("plain", plain), ("searched", searched))
    ]
    assert states[0].keys() == states[1].keys()
    assert any("queue" in name for name in states[0])
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_a_loss_that_is_not_finite_ends_it():
    found = pipeline(method="simclr", optimizer=ccl.optimizer("sgd", momentum=0.0)).find_lr(
        1e-6, 1e25, 20, progress=False
    )
    assert 10 <= len(found.losses) < 20
    assert len(found.rates) == len(found.losses)
    with pytest.raises(
        ValueError, match=r"not finite at step \d+, .* give a lower least than 1e\+30"
    ):
        pipeline(method="simclr", optimizer="sgd").find_lr(1e30, 1e38, 20, progress=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 21}, "the run has 20 steps, but 21 learning rates should be tried"),
        ({"steps": 19}, "steps"),
        ({"least": 0.0}, "least"),
        ({"least": 1.0, "most": 1.0}, "most must be above least, 1, not 1"),
    ],
)
def test_wrong_values_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        pipeline(method="simclr").find_lr(**{"steps": 20, **given}, progress=False)


def test_the_suggestion_is_where_the_loss_falls_fastest():
    noise = 0.05 * torch.randn(100, generator=torch.Generator().manual_seed(0))
    falling = [4 - 2 / (1 + math.exp(-3 * (math.log10(rate) + 2))) for rate in RATES]
    rising = [max(0.0, math.log10(rate)) * 8 for rate in RATES]
    losses = [a + b + float(c) for a, b, c in zip(falling, rising, noise, strict=True)]
    assert LearningRates(RATES, losses).suggestion == pytest.approx(1e-2, rel=0.5)
    ended = LearningRates(RATES[:90], [*losses[:89], math.nan])
    assert ended.suggestion == pytest.approx(1e-2, rel=0.5)
    assert len(ended.smoothed) == 89


def test_a_loss_that_only_scatters_or_rises_suggests_nothing():
    noise = torch.randn(100, generator=torch.Generator().manual_seed(0)).tolist()
    assert LearningRates(RATES, noise).suggestion is None
    assert LearningRates(RATES, [i / 100 for i in range(100)]).suggestion is None


@pytest.mark.usefixtures("in_a_folder_with_data")
def test_the_command_prints_a_rate_and_leaves_only_the_plot(capsys):
    Path("run.toml").write_text(TOML, "utf-8")
    before = {*Path().iterdir()}
    call = ["find-lr", "run.toml", "--quiet", "--steps", "40", "--set", "fit.epochs=20"]
    assert main([*call, "--plot", "rates.png"]) == 0
    out = capsys.readouterr().out
    assert "LOSS" in out
    assert "--set fit.optimizer.lr=" in out or "no suggestion" in out
    assert {*Path().iterdir()} - before == {Path("rates.png")}
    assert main([*call, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 40
    assert rows[0]["lr"] == 1e-6
    assert main(["find-lr", "run.toml", "--quiet"]) == 2
    assert "the run has 2 steps, but 100 learning rates should be tried" in capsys.readouterr().err
