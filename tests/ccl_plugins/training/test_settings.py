from __future__ import annotations

from typing import Any

import pytest

from ccl_plugins.training import FitSettings


def test_an_optimizer_is_completed() -> None:
    shared = {"lr_per": None, "decay": "matrices", "layer_decay": 1.0}
    assert FitSettings(1, 8).optimizer == {
        "name": "adamw",
        "lr": 3e-3,
        "weight_decay": 1e-4,
        **shared,
    }
    assert FitSettings(1, 8, optimizer={"name": "sgd", "lr": 1, "nesterov": True}).optimizer == {
        "name": "sgd",
        "lr": 1.0,
        "weight_decay": 5e-4,
        "momentum": 0.9,
        "nesterov": True,
        **shared,
    }


def test_a_schedule_is_completed() -> None:
    assert FitSettings(1, 8).schedule == {
        "name": "cosine",
        "per": "step",
        "start": 0.0,
        "end": 0.0,
        "overlap": False,
        "reach_end": False,
    }
    steps = FitSettings(1, 8, schedule={"name": "step", "milestones": [155, 170]}).schedule
    assert (steps["milestones"], steps["factor"], steps["per"]) == ([155, 170], 0.1, "epoch")


def test_settings_survive_their_record() -> None:
    settings = FitSettings(3, 8, optimizer={"name": "lars"}, warmup_epochs=0.5, clip=1.0)
    assert FitSettings(**settings.to_dict()) == settings


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"epochs": 0}, ValueError, "epochs must be 1 or more, not 0"),
        ({"batch_size": 2.5}, TypeError, "batch_size must be a whole number, not 2.5"),
        ({"seed": True}, TypeError, "seed must be a whole number"),
        ({"workers": -1}, ValueError, "workers must be 0 or more"),
        ({"warmup_epochs": 9}, ValueError, "warmup_epochs must not be above epochs, 2, not 9"),
        ({"clip": 0}, ValueError, "clip must be a finite number above 0"),
        ({"precision": "16"}, ValueError, "'16-mixed'"),
        ({"detect_anomaly": 1}, TypeError, "detect_anomaly"),
        ({"optimizer": {"name": "adanw"}}, ValueError, "'adanw'; did you mean 'adamw'"),
        ({"optimizer": {"rate": 1}}, ValueError, "adamw has no setting 'rate'"),
        ({"optimizer": {"momentum": 0.9}}, ValueError, "adamw has no setting 'momentum'"),
        ({"optimizer": {"name": "sgd", "momentum": 1}}, ValueError, "from 0 to below 1, not 1.0"),
        ({"optimizer": {"lr_per": 0}}, ValueError, "optimizer lr_per must be 1 or more, not 0"),
        ({"optimizer": {"decay": "none"}}, ValueError, "'matrices', 'all', not 'none'"),
        (
            {"optimizer": {"layer_decay": 2}},
            ValueError,
            "layer_decay must be above 0 and at most 1",
        ),
        ({"optimizer": {"name": "lars", "weight_decay": 0}}, ValueError, "above 0 for lars"),
        (
            {"optimizer": {"name": "sgd", "nesterov": 1}},
            TypeError,
            "nesterov must be true or false",
        ),
        ({"schedule": {"name": "cos"}}, ValueError, "no schedule 'cos'; did you mean 'cosine'"),
        ({"schedule": {"per": "batch"}}, ValueError, "'step', 'epoch', not 'batch'"),
        ({"schedule": {"name": "step"}}, ValueError, r"epochs, as \[120, 160\], not \[\]"),
        ({"schedule": {"name": "step", "milestones": [9, 3]}}, ValueError, r"rise, not \[9, 3\]"),
        (
            {"schedule": {"name": "step", "milestones": [0.5]}},
            TypeError,
            "milestones must be a whole",
        ),
        ({"schedule": {"end": -1}}, ValueError, "schedule end must be a finite number, 0 or more"),
        ({"schedule": "cosine"}, TypeError, "schedule must be a table"),
        ({"optimizer": {"lr": "3e-3"}}, TypeError, "optimizer lr must be a number, not '3e-3'"),
        ({"optimizer": "sgd"}, TypeError, "optimizer must be a table"),
    ],
)
def test_what_is_wrong_is_quoted(given: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        FitSettings(**{"epochs": 2, "batch_size": 8, **given})
