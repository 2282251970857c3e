"""Records that lack keys, sizes that no machine has, and paths in the home folder."""

from __future__ import annotations

import pytest
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.record import Record

pytestmark = pytest.mark.usefixtures("in_a_folder_with_data")


@pytest.fixture
def record():
    with open("x.toml", "w") as file:
        file.write(TOML)
    return ccl.Pipeline.from_toml("x.toml").to_dict()


MAY_LACK = ("schema", "versions", "monitor", "loggers", "plugins")


def test_a_record_without_a_key_says_which(record):
    for key in [key for key in record if key not in MAY_LACK]:
        less = {k: v for k, v in record.items() if k != key}
        with pytest.raises(ccl.InvalidConfig, match=f"run.json: {key!r} is missing"):
            ccl.Pipeline.from_dict(less, where="run.json")
    for data in ([], "x", None):
        with pytest.raises(ccl.InvalidConfig, match="must be a table"):
            ccl.Pipeline.from_dict(data)


@pytest.mark.parametrize("epochs", [None, "many", -1, [1]])
def test_epochs_of_a_record_that_are_no_number_are_a_difference(record, epochs):
    saved = {**record, "fit": {**record["fit"], "epochs": epochs}}
    assert len(Record(saved).refusals(record)) == 1


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("in_features = 4", "in_features = 1000000000000"),
        ("in_features = 4", "in_features = 1000000000000000000000000"),
        ("workers = 0", "workers = 1000000000000"),
        ('"infonce"', f'{{use = "infonce", temperature = 1{"0" * 400}}}'),
    ],
)
def test_a_size_that_no_machine_has_is_a_mistake_in_one_line(right, wrong, capsys):
    assert right in TOML
    with open("x.toml", "w") as file:
        file.write(TOML.replace(right, wrong))
    assert main(["train", "x.toml", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ccl: x.toml: ")


def test_files_of_the_home_folder_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with open("x.toml", "w") as file:
        file.write(TOML.replace('"train.safetensors"', '"~/train.safetensors"'))
    assert main(["train", "~/x.toml", "--quiet", "--out", "~/runs"]) == 0
    assert (tmp_path / "runs" / "x" / "pipeline.json").is_file()
    assert ccl.load("~/runs/x").metrics
    assert not (tmp_path / "~").exists()
