"""Guides in whole runs: what is composed, learned, logged, saved and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.resuming import StopAfter, assert_equal
from support.training_fakes import FakeDataset
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ccl_plugins as ccl
from ccl_plugins.experiments.train import RunInterrupted
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.training.parameter_groups import parameter_groups

N = 96
GENERATOR = torch.Generator().manual_seed(0)
LABEL = torch.arange(N) % 3
COLOR = torch.rand(N, 2, generator=GENERATOR)
SIGNAL = torch.nn.functional.one_hot(LABEL).float() * 2
ROWS = {
    "features": torch.cat([SIGNAL, 3 * COLOR], 1) + 0.05 * torch.randn(N, 5, generator=GENERATOR),
    "label": LABEL,
    "color": COLOR,
}
HIDE = {"on": "color", "keep": False, "by": "regression", "weight": 1.0}
KEEP = {"on": "digit", "keep": True, "by": "classification", "weight": 0.1}
CONDITIONS = {"color": {"use": "column", "name": "color"}, "digit": "label"}


def pipeline(
    *guides: dict[str, Any], balance: str | None = None, evaluate: Any = (), **settings: Any
) -> ccl.Pipeline:
    on = {guide["on"] for guide in guides}
    objective: dict[str, Any] = {"use": "infonce"}
    if guides:
        objective = {"use": "guided", "base": "infonce", "guides": [*guides], "balance": balance}
    return ccl.Pipeline(
        dataset=ccl.create("dataset", "features", train=ROWS, test=ROWS),
        backbone=ccl.backbone("mlp", in_features=5, hidden=[16], batch_norm=False),
        method=ccl.method("simclr", hidden=16, dim=8, batch_norm=False),
        transform="noise",
        conditions={name: each for name, each in CONDITIONS.items() if name in on} or None,
        objective=objective,
        evaluate=[*evaluate],
        monitor="off",
        fit={"epochs": 2, "batch_size": 32, "workers": 0, "log_every": 1, **settings},
    )


def weights(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_checkpoint(RunFolder(out).weights)
    return found


def test_heads_reach_the_optimizer_without_weight_decay(tmp_path: Path) -> None:
    run = pipeline(HIDE, KEEP).fit(out=tmp_path / "run")
    saved = weights(run.path)["objective"]
    assert set(saved) == {
        "parts.color.objective.weight",
        "parts.color.objective.bias",
        "parts.color.objective.mean",
        "parts.color.objective.deviation",
        "parts.digit.objective.weight",
        "parts.digit.objective.bias",
    }
    torch.testing.assert_close(saved["parts.color.objective.mean"], COLOR.mean(0))
    objective = pipeline(HIDE, KEEP).build().objective
    objective.load_state_dict(saved)
    (own,) = [
        group
        for group in parameter_groups(torch.nn.Linear(1, 1), objective)
        if group["name"] == "objective"
    ]
    assert own["weight_decay"] == 0
    assert len(own["params"]) == 4


def test_losses_and_qualities_of_guides_are_logged(tmp_path: Path) -> None:
    weight = {"schedule": "linear", "start": 0.0, "end": 1.0}
    run = pipeline({**HIDE, "weight": weight}, KEEP).fit(out=tmp_path / "run")
    events = EventAccumulator(str(run.path)).Reload()
    found = {tag for tag in events.Tags()["scalars"] if tag.startswith("objective/")}
    assert found == {
        f"objective/{name}"
        for name in (
            "base/loss",
            "color/loss",
            "color/r2",
            "color/weight",
            "digit/loss",
            "digit/accuracy",
        )
    }
    assert [event.value for event in events.Scalars("objective/color/weight")][-1] == 1.0


def test_a_resumed_run_of_prototypes_is_that_of_an_unbroken_one(tmp_path: Path) -> None:
    balance = "gradient"
    guides = ({"on": "digit", "keep": False, "by": "prototypes"}, HIDE)
    settings = {"checkpoint_every": 1, "accumulate": 2}
    whole = pipeline(*guides, balance=balance, epochs=4, **settings).fit(out=tmp_path / "whole")

    first = pipeline(*guides, balance=balance, epochs=4, **settings)
    with pytest.raises(RunInterrupted):
        first.fit(out=tmp_path / "parts", callbacks=[StopAfter(4)])
    again = pipeline(*guides, balance=balance, epochs=4, **settings)
    resumed = again.fit(out=tmp_path / "parts", resume=True)
    expected, found = weights(whole.path), weights(resumed.path)
    for network in ("method", "objective"):
        assert_equal(found[network], expected[network])
    assert found["objective"]["parts.digit.objective.prototypes"].norm(dim=1).gt(0.99).all()


def test_balanced_weights_are_those_of_the_whole_batch_in_pieces_and_in_half_precision(
    tmp_path: Path,
) -> None:
    guides = (HIDE, {**KEEP, "at": "projection"})
    found = {}
    for name, settings in {
        "whole": {},
        "pieces": {"micro_batch": 8},
        "half": {"precision": "bf16-mixed"},
        "compiled": {"compile": "eager"},
    }.items():
        run = pipeline(*guides, balance="gradient", epochs=1, **settings).fit(out=tmp_path / name)
        events = EventAccumulator(str(run.path)).Reload()
        tags = ("objective/color/factor", "objective/digit/factor")
        found[name] = torch.tensor([[e.value for e in events.Scalars(tag)] for tag in tags])
        assert (found[name] > 0).all()
    torch.testing.assert_close(found["pieces"], found["whole"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found["compiled"], found["whole"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found["half"][:, 0], found["whole"][:, 0], rtol=0.1, atol=0)


def test_what_a_guide_suppresses_is_seen_to_fall_and_what_it_keeps_to_stay(tmp_path: Path) -> None:
    settings = {
        "epochs": 30,
        "seed": 0,
        "optimizer": {"use": "adamw", "lr": 2e-2},
        "log_every": 90,
        "checkpoint_every": 30,
    }
    evaluate = ["knn", {"use": "regression", "column": "color"}]
    plain = pipeline(evaluate=evaluate, **settings).fit(out=tmp_path / "plain").evaluate()
    hide, keep = {**HIDE, "weight": 10.0}, {**KEEP, "weight": 3.0}
    hidden = (
        pipeline(hide, keep, evaluate=evaluate, **settings).fit(out=tmp_path / "hidden").evaluate()
    )
    assert plain["color/r2"] > 0.9
    assert hidden["color/r2"] < 0.6
    assert hidden["knn/top1"] > 0.95


BATCH = {"use": "embedding", "of": "projection"}
REFUSED = {
    "a condition that is not there": (
        {"on": "colour", "keep": False, "by": "regression"},
        {},
        r"Guided reads the condition 'colour' \(continuous\), and the pipeline has 'color', 'digit'",
    ),
    "classes of numbers": (
        {"on": "color", "keep": False, "by": "classification"},
        {},
        "the guide on 'color' by Classification needs a categorical or multi_label condition, but this one"
        " is continuous: take by = 'classification' for class ids and 0/1 columns, 'regression' for num",
    ),
    "a regression of classes": (
        {"on": "digit", "keep": True, "by": "regression"},
        {},
        "the guide on 'digit' by Regression needs a continuous condition, but this one is categorical:"
        " take by = 'classification' for class ids",
    ),
    "clusters of numbers": (
        {"on": "color", "keep": True, "by": {"use": "cl_infonce"}},
        {},
        "the guide on 'color' by ClInfoNCE needs a categorical condition, but this one is continuous",
    ),
    "computed in every step": (
        {"on": "z", "keep": True, "by": "regression"},
        {"z": BATCH},
        "Regression of 'z' learns a head for the values of a table, but the condition 'z' is computed in"
        " every step",
    ),
}


@pytest.mark.parametrize(("guide", "more", "words"), REFUSED.values(), ids=REFUSED)
def test_a_guide_that_the_conditions_do_not_suit_is_refused_when_a_pipeline_is_composed(
    guide: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    words = words.replace("Guided reads", "(Guided|Mixture) reads")
    alone = {"use": "guided", "base": "infonce", "guides": [guide]}
    for objective in (alone, {"use": "mixture", "objectives": [alone]}):
        with pytest.raises(ValueError, match=words):
            ccl.Pipeline(
                dataset="color_digits",
                backbone="lenet5",
                objective=objective,
                conditions={**CONDITIONS, **more},
            )


def test_hsic_guides_a_condition_that_is_computed_in_every_step() -> None:
    guide = {"on": "z", "keep": False, "by": "hsic"}
    ccl.Pipeline(
        dataset=FakeDataset(8),
        backbone="lenet5",
        objective={"use": "guided", "base": "infonce", "guides": [guide]},
        conditions={"z": BATCH},
    )
