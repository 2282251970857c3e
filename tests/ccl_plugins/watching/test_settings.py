"""The ``[monitor]`` table: complete, checked, in the record."""

from __future__ import annotations

import pytest
from support.monitored import pipeline

import ccl_plugins as ccl
import ccl_registry as engine
from ccl_plugins.watching.settings import MonitorSettings


def test_by_default_it_is_measured_after_each_epoch_of_10_steps_or_more():
    settings = MonitorSettings()
    assert settings.evaluate is None
    assert [settings.epochs(steps) for steps in (1, 5, 9, 10, 5000)] == [20, 4, 3, 2, 1]
    assert MonitorSettings(every_epochs=1).epochs(5) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"every_epochs": 0}, "monitor every_epochs must be 1 or more, not 0"),
        ({"every_steps": 2.5}, "monitor every_steps must be a whole number, not 2.5"),
        ({"every_epochs": 1, "every_steps": 5}, "give every_epochs or every_steps, not both"),
        (
            {"evaluate": ["linaer"]},
            "monitor.evaluate[0]: no evaluator 'linaer'. Did you mean 'linear'?",
        ),
        ({"evaluate": "linear"}, 'monitor.evaluate must be a list, such as ["linear", "knn"]'),
        ({"evaluate": [{"use": "knn", "column": "height"}]}, "reads the column 'height'"),
        (
            {"evaluate": ["zero_shot"]},
            "compares images with texts, which is possible only after",
        ),
        ({"every_epoch": 1}, "monitor: unknown key 'every_epoch'. Did you mean 'every_epochs'"),
        ("on", "monitor must be a table, such as {every_epochs = 1}, or \"off\", not 'on'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(given, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        pipeline(monitor=given)
    assert words in str(caught.value)


def test_the_record_has_the_settings_and_gives_them_back():
    for given in ({"every_steps": 7, "evaluate": ["knn"]}, "off", None):
        first = pipeline(monitor=given)
        data = {k: v for k, v in first.to_dict().items() if k == "monitor"}
        assert pipeline(**data).monitor == first.monitor


def test_the_command_line_sets_them(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('dataset = "color_digits"\nbackbone = "lenet5"\nobjective = "infonce"\n')

    def changed(*keys_and_value):
        *keys, value = keys_and_value
        return ccl.Pipeline.from_toml(file, changes=[(keys, value)]).monitor

    assert changed("monitor", "off") is None
    assert changed("monitor", "every_steps", 50).every_steps == 50
    with pytest.raises(engine.InvalidConfig, match=r"Did you mean monitor\.every_steps"):
        changed("fitt", "every_steps", 50)
