from __future__ import annotations

from typing import Any

import pytest

from ccl_plugins.cli import read_command
from ccl_plugins.experiments.record import ENDLESS, FREE, MORE
from ccl_plugins.training.settings import FitSettings


def test_settings_survive_their_record() -> None:
    settings = FitSettings(3, 8, warmup_epochs=0.5, clip=1.0, lr_per=256, decay="all")
    again = FitSettings(**settings.to_dict())
    assert again.to_dict() == settings.to_dict()


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
        ({"decay": "none"}, ValueError, "'matrices', 'all', not 'none'"),
        ({"epochs": 10**30}, ValueError, f"epochs must be at most {2**32 - 1}, not {10**30}"),
        ({"workers": 10**6}, ValueError, "workers must be at most 1024, not 1000000"),
        ({"seed": 10**30}, ValueError, f"seed must be at most {2**63 - 1}, not {10**30}"),
        (
            {"clip": 10**400},
            ValueError,
            "clip must be a number that fits a float, not one of 1329 bits",
        ),
        ({"compile": 1}, TypeError, "compile must be true, false, the name of a backend"),
        ({"compile": {"mod": "default"}}, TypeError, "compile takes one key"),
        ({"compile": {"mode": "fast"}}, ValueError, "mode of compile must be .*reduce-overhead"),
        ({"matmul_precision": "tf32"}, ValueError, "matmul_precision must be .*'high'.*'tf32'"),
        ({"cudnn_benchmark": "yes"}, TypeError, "cudnn_benchmark must be true or false"),
        ({"layer_decay": 2}, ValueError, "layer_decay must be above 0 and at most 1, not 2"),
    ],
)
def test_what_is_wrong_is_quoted(given: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        FitSettings(**{"epochs": 2, "batch_size": 8, **given})


@pytest.mark.parametrize(
    ("compile", "options"),
    [
        (False, None),
        (True, {"backend": "inductor"}),
        ("eager", {"backend": "eager"}),
        ({"mode": "reduce-overhead"}, {"mode": "reduce-overhead"}),
    ],
)
def test_what_is_given_to_the_compiler(compile: Any, options: Any) -> None:
    settings = FitSettings(compile=compile)
    assert settings.compilation == options
    assert FitSettings(**settings.to_dict()).compilation == options


def test_every_setting_but_components_is_an_option_of_the_command_line():
    _, parser = read_command("train")
    plain = FitSettings().to_dict()
    given = vars(parser.parse_args(["a.toml"]))
    assert plain.keys() <= given.keys()
    typed = parser.parse_args(
        ["a.toml", "--layer-decay", "0.5", "--workers", "2", "--channels-last"]
    )
    assert (typed.layer_decay, typed.workers, typed.channels_last) == (0.5, 2, True)
    assert typed.epochs is None


def test_what_may_change_when_a_run_is_resumed_stands_beside_the_setting():
    """And nothing else may: a run would go on as another."""
    names = "workers log_every checkpoint_every checkpoint_every_steps keep_last detect_anomaly"
    assert {f"fit.{name}" for name in names.split()} == FREE
    assert MORE == {"fit.epochs": "epochs", "fit.max_steps": "steps"}
    assert {"fit.max_steps"} == ENDLESS
