"""JSON files of a run with a wrong bit: named, and never read as if they were whole."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from support.damage import bits, each_wrong_bit

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.files.sums import SUMS, DamagedFile, check_sum, checksummed


def look(folder: Path) -> tuple[object, list[str]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        loaded = ccl.load(folder)
        return (loaded.before, loaded.metrics), [str(each.message) for each in found]


def test_measurements_with_a_wrong_bit_are_named_and_never_read_as_others(copied_run):
    file = copied_run / "measurements.json"
    values, silent = look(copied_run)
    assert not silent
    for _ in each_wrong_bit(file, bits(file, 40)):
        found, said = look(copied_run)
        assert found != values
        assert len(said) == 1
        assert "measurements.json is damaged" in said[0]
    assert look(copied_run) == (values, [])


def test_what_is_no_measurement_is_named(copied_run):
    (copied_run / SUMS).unlink()  # as in a folder of an attacker
    file = copied_run / "measurements.json"
    whole = json.loads(file.read_text())
    (one, *_) = whole["after"]
    wrong = [
        {**whole, "after": [{**one, **change}]}
        for change in (
            {"value": "\u001b[2J"},
            {"value": None},
            {"value": True},
            {"interval": [1, "2"]},
            {"interval": [1]},
            {"interval": 3},
            {"worth": 2},
        )
    ]
    wrong += [{}, {**whole, "costs": {"training": "1"}}, {**whole, "costs": 3}, {"after": {}}]
    for text in (*map(json.dumps, wrong), "[1]", "{"):
        file.write_text(text)
        (_, metrics), said = look(copied_run)
        assert metrics == {}, text
        assert len(said) == 1
        assert "measurements.json" in said[0]
        assert "\x1b" not in said[0]


def test_a_record_that_is_not_that_of_the_weights_is_named(copied_run):
    record = copied_run / "pipeline.json"
    data = json.loads(record.read_text())
    data["objective"]["temperature"] = 0.3
    record.write_text(json.dumps(data))
    with pytest.warns(UserWarning, match=r"pipeline\.json was .*temperature: 0\.1 -> 0\.3"):
        _ = ccl.load(copied_run).progress
    (copied_run / "weights.pt").unlink()
    with pytest.warns(UserWarning, match=r"in step-.*temperature: 0\.1 -> 0\.3"):
        _ = ccl.load(copied_run).progress


def test_a_writer_of_metrics_that_is_killed_leaves_no_wrong_sum(tmp_path):
    file = tmp_path / "metrics.json"
    for text in ("1", "2"):
        with checksummed(file):
            file.write_text(text)
        check_sum(file)
    killed = checksummed(file)
    killed.__enter__()
    file.write_text("3")
    check_sum(file)
    with checksummed(file):
        file.write_text("4")
    file.write_text("5")
    with pytest.raises(DamagedFile, match=r"metrics\.json is damaged"):
        check_sum(file)


@pytest.mark.parametrize("command", ["evaluate", "export"])
def test_a_mistake_in_a_record_is_reported_with_the_file_of_the_record(copied_run, command, capsys):
    record = copied_run / "pipeline.json"
    data = json.loads(record.read_text())
    record.write_text(json.dumps({**data, "versions": {}, "fit": {"epochs": "\x1b[2J"}}))
    assert main([command, str(copied_run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ccl: {record}: ")
    assert "\x1b" not in line
