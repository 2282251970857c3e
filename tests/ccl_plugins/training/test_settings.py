from __future__ import annotations

from typing import Any

import pytest

from ccl_plugins.training import FitSettings


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
        ({"lr_per": 0}, ValueError, "lr_per must be 1 or more, not 0"),
        ({"decay": "none"}, ValueError, "'matrices', 'all', not 'none'"),
        ({"layer_decay": 2}, ValueError, "layer_decay must be above 0 and at most 1, not 2"),
    ],
)
def test_what_is_wrong_is_quoted(given: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        FitSettings(**{"epochs": 2, "batch_size": 8, **given})
