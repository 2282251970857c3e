"""`ccl figures`: what it writes, what it says of figures that do not apply, and its exit status."""

from __future__ import annotations

import shutil

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.curves import curves
from ccl_plugins.figures import figure, style
from ccl_plugins.kinds import registry

TOML = """
dataset = {use = "subset", of = "color_digits", train = 400, test = 200}
backbone = "lenet5"
method = {use = "simclr", hidden = 16, dim = 8}
transform = {use = "simclr", size = 32, flip = 0.0, jitter = 0.0, gray = 0.0, blur = 0.0}
condition = {use = "column", name = "color"}
objective = {use = "fair_cclk", kernel = {use = "rbf", scale = 0.1}}
evaluate = ["knn"]
fit = {epochs = 1, batch_size = 128, workers = 0}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that the command line trained, called $fair$ as if it were a formula."""
    folder = tmp_path_factory.mktemp("figures")
    (folder / "$fair$.toml").write_text(TOML)
    assert main(["train", str(folder / "$fair$.toml"), "--out", str(folder), "--quiet"]) == 0
    return folder / "$fair$"


@pytest.fixture
def unwritten(monkeypatch):
    """Leave the pixels out, where a test is about which files there are."""
    monkeypatch.setattr(style, "_written", lambda *_, **__: b"<svg></svg>")


def test_figures_are_written_and_those_that_do_not_apply_are_named(folder, tmp_path, capsys):
    given = ["curves", "kernel_matrix", "information_plane", "bars"]
    given += ['{use = "bars", metric = "knn/top1"}']
    words = [word for name in given for word in ("--figure", name)]
    assert main(["figures", str(folder), "--out", str(tmp_path), *words]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == [*given[:-1], "bars-2"]
    assert "left out: no run has a categorical condition with a table" in printed[2]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{ending}"
        for name in ("bars", "bars-2", "curves", "kernel_matrix")
        for ending in ("png", "svg")
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("embeding_map", "no figure 'embeding_map'. Did you mean 'embedding_map'?"),
        ('{use = "bars", metrik = "a"}', "has no parameter 'metrik'. Did you mean 'metric'?"),
        ('{use = "embedding_map", method = "mds"}', "'mds'"),
        ("{use =", "{use ="),
    ],
)
def test_a_figure_that_cannot_be_is_refused_before_anything_is_read(given, said, tmp_path, capsys):
    assert main(["figures", str(tmp_path / "none"), "--figure", given]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("unwritten")
def test_a_figure_of_ones_own_is_drawn_with_all_others(folder, tmp_path, capsys, monkeypatch):
    class Broken:
        """A figure with a bug."""

        def __call__(self, runs):
            raise KeyError("pressure")

    class Dots:
        """A dot for each run."""

        def __call__(self, runs):
            drawn = figure(2, 2)
            drawn.subplots().plot([0] * len(runs), "o")
            return drawn

    monkeypatch.setattr(registry(), "_session", {})
    ccl.local("figure")(Dots)
    ccl.local("figure")(Broken)
    assert main(["figures", str(folder), "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "broken: failed" in said.out
    assert "KeyError: 'pressure'" in said.err
    assert {"dots.svg", "anchor.svg"} <= {path.name for path in tmp_path.iterdir()}


def test_nothing_drawn_is_a_failure(folder, tmp_path):
    only = ["--figure", "information_plane", "--out", str(tmp_path)]
    assert main(["figures", str(folder), *only]) == 1
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("unwritten")
def test_a_run_that_cannot_be_read_is_reported_and_the_others_are_drawn(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "bare")
    (tmp_path / "bare" / "weights.pt").unlink()
    shutil.rmtree(tmp_path / "bare" / "checkpoints")
    given = ["figures", str(folder), str(tmp_path / "bare"), str(tmp_path / "none")]
    assert main([*given, "--out", str(tmp_path / "out"), "--figure", "bars"]) == 1
    errors = capsys.readouterr().err
    assert "bare holds no weights" in errors
    assert "none holds no run" in errors
    assert (tmp_path / "out" / "bars.svg").exists()


@pytest.mark.filterwarnings("ignore:.*was changed")
@pytest.mark.usefixtures("unwritten")
def test_runs_of_different_data_sets_share_their_curves_alone(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "other")
    record = tmp_path / "other" / "pipeline.json"
    record.write_text(record.read_text().replace('"test_fraction": 0.2', '"test_fraction": 0.3'))
    given = ["figures", str(folder), str(tmp_path / "other"), "--out", str(tmp_path / "out")]
    assert main([*given, "--figure", "bars"]) == 1
    assert "left out: $fair$ and other were trained on different data" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    assert main([*given, "--figure", "bars", "--figure", "curves"]) == 0
    assert (tmp_path / "out" / "curves.svg").exists()


@pytest.mark.usefixtures("unwritten")
def test_a_full_disk_leaves_older_figures_whole(folder, tmp_path, capsys, monkeypatch):
    given = ["figures", str(folder), "--out", str(tmp_path), "--figure", "bars"]
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
