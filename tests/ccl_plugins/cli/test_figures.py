"""`ccl figures`: what it writes, what it says of figures that do not apply, and its exit status."""

from __future__ import annotations

import shutil

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ccl_plugins as ccl
from ccl_plugins import figures
from ccl_plugins.cli import main
from ccl_plugins.cli.figures import FIGURES
from ccl_plugins.experiments.curves import curves

TOML = """
dataset = "color_digits"
backbone = "lenet5"
method = {use = "simclr", hidden = 16, dim = 8}
transform = {use = "simclr", size = 32, flip = 0.0, jitter = 0.0, gray = 0.0, blur = 0.0}
condition = {use = "column", name = "color"}
objective = {use = "fair_cclk", kernel = {use = "rbf", scale = 0.1}}
evaluate = ["knn"]
fit = {epochs = 1, batch_size = 512, workers = 0}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that the command line trained, called $fair$ as if it were a formula."""
    folder = tmp_path_factory.mktemp("figures")
    (folder / "$fair$.toml").write_text(TOML)
    assert main(["train", str(folder / "$fair$.toml"), "--out", str(folder), "--quiet"]) == 0
    return folder / "$fair$"


def test_the_command_knows_every_figure():
    drawing = {name for name in vars(figures) if name in FIGURES}
    assert drawing == FIGURES.keys()


def test_figures_are_written_and_those_that_do_not_apply_are_named(folder, tmp_path, capsys):
    only = "curves,kernel_matrix,information_plane,bars"
    assert main(["figures", str(folder), "--out", str(tmp_path), "--only", only]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == [
        "kernel_matrix",
        "curves",
        "information_plane",
        "bars",
    ]
    assert "left out: no run has a categorical condition with a table" in printed[2]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{ending}"
        for name in ("bars", "curves", "kernel_matrix")
        for ending in ("png", "svg")
    }


def test_an_unknown_figure_is_answered_with_the_nearest(folder, tmp_path, capsys):
    assert main(["figures", str(folder), "--out", str(tmp_path), "--only", "embeding_map"]) == 2
    assert "no figure 'embeding_map'; did you mean 'embedding_map'?" in capsys.readouterr().err


def test_nothing_drawn_is_a_failure(folder, tmp_path):
    only = ["--only", "information_plane", "--out", str(tmp_path)]
    assert main(["figures", str(folder), *only]) == 1
    assert not [*tmp_path.iterdir()]


def test_a_run_that_cannot_be_read_is_reported_and_the_others_are_drawn(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "bare")
    (tmp_path / "bare" / "weights.pt").unlink()
    shutil.rmtree(tmp_path / "bare" / "checkpoints")
    given = ["figures", str(folder), str(tmp_path / "bare"), str(tmp_path / "none")]
    assert main([*given, "--out", str(tmp_path / "out"), "--only", "bars"]) == 1
    errors = capsys.readouterr().err
    assert "bare holds no weights" in errors
    assert "none holds no run" in errors
    assert (tmp_path / "out" / "bars.svg").exists()


@pytest.mark.filterwarnings("ignore:.*was changed")
def test_runs_of_different_data_sets_are_refused_before_drawing(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "other")
    record = tmp_path / "other" / "pipeline.json"
    record.write_text(record.read_text().replace('"test_fraction": 0.2', '"test_fraction": 0.3'))
    given = ["figures", str(folder), str(tmp_path / "other"), "--out", str(tmp_path / "out")]
    assert main([*given, "--only", "bars"]) == 2
    assert "were trained on different data sets" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_older_figures_whole(folder, tmp_path, capsys, monkeypatch):
    given = ["figures", str(folder), "--out", str(tmp_path), "--only", "bars"]
    assert main(given) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main(given) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_training_shows_map_and_kernel_matrix_in_tensorboard(folder):
    events = EventAccumulator(str(folder), size_guidance={"images": 0}).Reload()
    assert set(events.Tags()["images"]) == {"figures/embedding_map", "figures/kernel_matrix"}
    (image,) = events.Images("figures/kernel_matrix")
    assert image.step == ccl.load(folder).progress[0]
    assert image.width > image.height > 300
    assert "evaluation/knn/top1" in curves(ccl.load(folder))
