"""The report: one file that answers three questions, from whatever records hold."""

from __future__ import annotations

import copy
import errno
import html
import importlib.metadata
import json
import re
import shutil
import sys
import tomllib
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support import plates_apart
from support.browser import CHROMIUM, DRIVER, chromium
from support.plates_apart import of_plate

import ccl_plugins as ccl
import ccl_registry as engine
from ccl_plugins.cli import main
from ccl_plugins.experiments.record import Record
from ccl_plugins.experiments.results import Result, compare_results, run_labels, spread
from ccl_plugins.figures import KeptAndLeaked, embedding_map, figure
from ccl_plugins.figures.samples import Values, same_data
from ccl_plugins.files.sums import DamagedFile
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import DoesNotApply, Measurement
from ccl_plugins.report import pictures
from ccl_plugins.report.answers import ReportedGroup, answers
from ccl_plugins.report.page import _configurations, _measured, _neighbors, write_report

QUESTIONS = (
    "Is it learning?",
    "What did conditioning do?",
    "Which run is better, and is that luck?",
)


def make(objective, **parts):
    return ccl.Pipeline(
        dataset={"use": "subset", "of": "color_digits", "train": 128, "test": 200},
        transform=ccl.transform("simclr", size=32, min_scale=0.5),
        backbone="lenet5",
        method=ccl.method("simclr", hidden=8, dim=8, batch_norm=False),
        objective=objective,
        evaluate=["linear", "regression"],
        loggers=["csv"],  # TensorBoard's would draw figures, too
        **parts,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two configurations with two seeds each."""
    out = tmp_path_factory.mktemp("runs")
    fair = ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=0.1))
    color = ccl.condition("column", name="color")
    for name, pipeline in (("plain", make("infonce")), ("fair", make(fair, condition=color))):
        for seed in (0, 1):
            settings = {"epochs": 1, "batch_size": 64, "workers": 0, "log_every": 1, "seed": seed}
            run = pipeline.fit(out=out / f"{name}-seed-{seed}", progress=False, **settings)
            run.evaluate()
    return out


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """Maps by PCA: t-SNE takes seconds."""
    real = embedding_map.project
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding_map, "project", lambda features, method: real(features, "pca"))
        yield


@pytest.fixture
def undrawn(monkeypatch):
    """Leave the figures out, where a test is about words."""

    def nothing(*_):
        raise DoesNotApply("left out of this test")

    monkeypatch.setattr(pictures, "draw", nothing)


@pytest.fixture
def unwritten(monkeypatch):
    """Leave the pixels out, where a test is about which figures there are."""
    picture = {"src": "data:,", "width": 1, "height": 1}
    monkeypatch.setattr(pictures, "_embedded", lambda _: picture)


@pytest.fixture
def runs(folder):
    return [ccl.load(path) for path in sorted(folder.iterdir(), reverse=True)]


@pytest.fixture
def copied(folder, tmp_path):
    """A function that copies a run, and changes its record."""

    def copy(run, name, **record):
        file = shutil.copytree(folder / run, tmp_path / name) / "pipeline.json"
        if record:
            file.write_text(json.dumps(json.loads(file.read_text()) | record))
        return ccl.load(file.parent)

    return copy


@pytest.fixture(scope="module")
def reported(folder, tmp_path_factory):
    """A report of all runs, and how often it opened each of their files."""
    paths = sorted(folder.iterdir(), reverse=True)
    out = tmp_path_factory.mktemp("report") / "report.html"
    opened, is_written = Counter(), False

    def count(event, arguments):
        if event == "open" and not is_written and str(arguments[0]).startswith(str(folder)):
            opened[Path(arguments[0]).name, Path(arguments[0])] += 1

    sys.addaudithook(count)  # which stays
    write_report([ccl.load(path) for path in paths], out)
    is_written = True
    return out, opened


@pytest.fixture(scope="module")
def page(reported):
    return reported[0]


def texts(file):
    text = re.sub(r"<(style|script)>.*?</\1>", "", file.read_text("utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_each_file_of_a_run_is_read_once(reported):
    """For its checksum and for its content, and the checksums for each file that has one there."""
    opened = {}
    for (name, _), count in reported[1].items():
        opened.setdefault(name, set()).add(count)
    once = (
        "weights.pt",
        "step-00000002.ckpt",
        "measurements.json",
        "history.csv",
        "diagnosis.json",
    )
    assert opened == {**{name: {2} for name in once}, "pipeline.json": {1}, "SHA256SUMS": {3}}


def test_the_report_answers_the_three_questions_at_its_top(page):
    text = texts(page)
    assert page.stat().st_size < 2_000_000  # of four runs; of twenty below
    places = [text.index(question) for question in QUESTIONS]
    assert places == sorted(places)
    assert places[-1] < text.index("What was compared")
    assert "; before training it was" in text
    assert "share of the test samples whose label is named right by a linear classifier" in text
    assert "It is conditioned on color." in text


def test_seeds_are_one_column_beside_what_was_before_training(page, runs):
    text = texts(page)
    assert "plain and fair" in text
    metrics = [run.metrics["linear/top1"] for run in runs if "plain" in run.path.name]
    shown = spread(sum(metrics) / 2, abs(metrics[0] - metrics[1]) / 2**0.5)
    before = [run.before["linear/top1"] for run in runs if "plain" in run.path.name]
    first = spread(sum(before) / 2, abs(before[0] - before[1]) / 2**0.5)
    assert f"plain 2 {first} {shown}" in text
    assert "objective.use infonce fair_cclk" in text
    assert "conditions.condition.name absent color" in text
    assert "fit.seed" not in text.partition("How to reproduce it")[0]


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_when_there_are_too_few_seeds(page, runs, tmp_path):
    text = texts(page)
    assert "2 seeds are few" in text
    assert "only a mean difference of 9.0 times its spread" in text
    one = texts(write_report([runs[0], runs[2]], tmp_path / "one.html"))
    assert "1 seed is few" in one
    assert "it is unknown whether" in one


@pytest.mark.usefixtures("undrawn")
def test_neighbors_are_looked_for_among_a_part_of_many_samples(runs, monkeypatch):
    (all_of_them, *_) = pictures.neighbors({"a": runs[0]})
    monkeypatch.setattr(pictures, "BANK", 20)
    (some, *_) = pictures.neighbors({"a": runs[0]})
    shown = {each["index"] for each in some["rows"][0]["found"]}
    n = len(runs[0].splits[0])
    grid = {int(i * (n - 1) / 19) for i in range(20)}
    assert shown <= grid
    assert not {each["index"] for each in all_of_them["rows"][0]["found"]} <= grid


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (torch.linspace(0, 1, 200), {"0", "0.005025", "0.01005"}),
        (torch.stack([torch.arange(200) % 2, torch.arange(200)], 1), {"0", "1"}),
        (torch.full((200,), -1), {"none"}),
    ],
)
def test_neighbors_have_labels_of_every_type(labels, shown, runs, monkeypatch):
    value_type = "continuous" if labels.is_floating_point() else "categorical"
    monkeypatch.setattr(pictures, "column", lambda *_: Values(labels, value_type, name="label"))
    found = [*pictures.neighbors({"a": runs[0]})]
    assert shown <= {each["label"] for each in found}
    for query in found:
        for each in query["rows"][0]["found"]:
            assert each["same"] == (each["label"] == query["label"] != "none")


def test_neighbors_that_cannot_be_looked_for_cost_themselves(runs, monkeypatch):
    def broken(*_):
        raise TypeError("an odd data set")

    monkeypatch.setattr(pictures, "column", broken)
    assert _neighbors({"a": runs[0]})["neighbors"]["reason"] == "TypeError: an odd data set"


def test_only_objects_of_a_session_are_said_to_be_lost():
    """A folder may be called so, too."""
    table = {"use": "dataset:ccl-plugins/table", "train": "/usr/local/train.csv"}
    for dataset, said in ((table, ""), ({"use": "dataset:local/mine"}, '{"dataset": mine})')):
        group = ReportedGroup([Result(Path("a"), record={"dataset": dataset})], "a")
        (shown,) = _configurations(SimpleNamespace(groups=[group], files=lambda: ["a"]))
        assert bool(shown["note"]) is bool(said)
        assert said in shown["note"]


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_a_single_run_compares_nothing(runs, tmp_path):
    text = texts(write_report(runs[:1], tmp_path / "one.html"))
    assert "There is nothing to compare" in text
    assert "No run is conditioned" in text
    assert "few" not in text


def test_the_configurations_in_the_report_are_those_of_the_runs(page, runs):
    blocks = re.findall(
        r'<pre tabindex="0"><code>(.*?)</code>|<pre><code>(.*?)</code>', page.read_text(), re.DOTALL
    )
    found = [html.unescape(a or b) for a, b in blocks]
    install, commands, *tomls = found
    version = runs[0].record["versions"]["ccl-plugins"]
    assert install.startswith(f"pip install ccl-plugins=={version} lightly==")
    assert f" torch=={importlib.metadata.version('torch')}" in install
    assert commands.splitlines() == [
        "ccl train plain.toml --seeds 1,0",
        "ccl train fair.toml --seeds 1,0",
        "ccl report runs/plain-seed-1 runs/plain-seed-0 runs/fair-seed-1 runs/fair-seed-0",
    ]
    for text, run in zip(tomls, (runs[0], runs[2]), strict=True):
        assert ccl.Pipeline.from_dict(tomllib.loads(text)).to_dict() == run.pipeline.to_dict()


def test_folders_that_are_numbers_are_named_by_their_settings():
    def record(seed, scale, name):
        objective = {"use": f"objective:ccl-plugins/{name}", "kernel": {"scale": scale}}
        return {"objective": objective, "fit": {"seed": seed}}

    grid = [(scale, name) for scale in (0.05, 0.1) for name in ("infonce", "fair")]
    groups = [
        [Result(Path(f"cells/{i}{seed}"), record=record(seed, *cell)) for seed in (0, 1)]
        for i, cell in enumerate(grid)
    ]
    assert run_labels(groups) == [
        "objective infonce, scale 0.05",
        "objective fair, scale 0.05",
        "objective infonce, scale 0.1",
        "objective fair, scale 0.1",
    ]
    by_scale = [groups[0], groups[2]]
    assert run_labels(by_scale) == ["scale 0.05", "scale 0.1"]
    assert run_labels([[Result(Path("a/x_b"))], [Result(Path("a/x_c"))]]) == ["b", "c"]
    assert run_labels([[Result(Path("a/x"))], [Result(Path("b/x"))]]) == ["a/x", "b/x"]


def test_a_record_is_a_toml_file_of_the_same_pipeline(tmp_path):
    odd = {
        "dataset": 'a "quoted" \\ name\n\x7f é',
        "objective": {"use": "x", "kernel": {"use": "rbf", "scale": 1e-07}, "none": None},
        "conditions": {"a b": {"use": "y", "list": [1, 2.5, True, "z"]}},
        "evaluate": [{"use": "linear"}, {"use": "knn", "k": 3}],
        "fit": {"epochs": 1, "clip": float("inf")},
    }
    back = tomllib.loads(Record(odd).to_toml())
    del odd["objective"]["none"]
    assert back == odd
    without = {"dataset": "a", "evaluate": [], "loggers": []}
    assert tomllib.loads(Record(without).to_toml()) == without


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "\x1b[31m", '"><img src=x onerror=alert(1)>']
)
def test_what_comes_from_records_is_escaped(text, runs, copied, tmp_path):
    record = runs[1].record
    fit, versions = record["fit"] | {"precision": text}, record["versions"] | {text: text}
    run = copied("plain-seed-0", "run", callbacks={text: text}, fit=fit, versions=versions)
    with pytest.warns(UserWarning, match="was changed"):
        found = write_report([run], tmp_path / "report.html").read_text()
    assert "<script>alert" not in found
    assert text not in re.findall(r"<pre><code>(.*?)</code>", html.unescape(found), re.DOTALL)[0]
    assert "<img src=x" not in found


@pytest.mark.usefixtures("undrawn")
@pytest.mark.filterwarnings("ignore:.*was changed")
@pytest.mark.parametrize("place", ["dataset", "data"])
def test_runs_of_different_data_sets_are_shown_with_a_warning_and_not_compared(
    place, runs, copied, tmp_path
):
    """Of another seed, or of files that were others when the second was trained."""
    changed = copy.deepcopy(runs[2].record[place])
    if place == "data":
        changed["test"]["digest"] = "0" * 64
    else:
        changed["seed"] = 5
    other = copied("fair-seed-0", "other", **{place: changed})
    text = texts(write_report([runs[0], other], tmp_path / "report.html"))
    with pytest.raises(DoesNotApply, match="different data sets"):
        same_data({"plain": runs[0], "other": other})
    assert "other: another data set than plain-seed-1" in text
    assert "There is nothing to compare" in text
    assert "paired" not in text.partition("What was compared")[0]


@pytest.mark.filterwarnings("ignore:.*was changed")
@pytest.mark.usefixtures("unwritten")
def test_a_run_whose_plugin_is_gone_is_told_of_by_what_is_stored(runs, copied, tmp_path):
    conditions = {"condition": {"use": "condition:ccl-gone/lost"}}
    lost = {"conditions": conditions, "objective": {"use": "objective:ccl-gone/lost"}}
    gone = copied("fair-seed-0", "gone", **lost)
    with pytest.warns(UserWarning, match="the condition 'condition' cannot be read back"):
        page = write_report([runs[0], gone], tmp_path / "report.html")
    text = texts(page)
    assert "gone It is conditioned on color. It holds" in text
    assert "Kept and leaked. One point per run" in text
    assert "ccl-gone is not installed" in text.partition("Not drawn:")[2]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("file", "content", "error", "said"),
    [
        ("weights.pt", None, FileNotFoundError, "holds no weights"),
        ("weights.pt", b"{}x", DamagedFile, "weights.pt"),
        ("pipeline.json", b"{}x", engine.InvalidConfig, "pipeline.json"),
    ],
)
def test_a_run_that_cannot_be_read_is_named_and_the_others_are_shown(
    file, content, error, said, folder, copied, tmp_path, capsys
):
    copied("plain-seed-0", "bad")
    shutil.rmtree(tmp_path / "bad" / "checkpoints")
    (tmp_path / "bad" / file).unlink()
    if content is not None:
        (tmp_path / "bad" / file).write_bytes(content)
    out = tmp_path / "report.html"
    bad, whole = str(tmp_path / "bad"), str(folder / "plain-seed-1")
    with pytest.raises(error, match=said):
        write_report([ccl.load(bad)], out)
    assert main(["report", bad, "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
    assert main(["report", whole, bad, "--out", str(out)]) == 1
    printed = capsys.readouterr()
    assert said in printed.err
    assert "open it in a browser" in printed.out
    assert "bad is not shown" in texts(out)


@pytest.mark.usefixtures("undrawn")
def test_damaged_measurements_are_named_and_not_used(copied, tmp_path):
    run = copied("plain-seed-0", "run")
    (run.path / "measurements.json").write_bytes(b"{}x")
    with pytest.warns(UserWarning, match=r"measurements\.json is damaged"):
        text = texts(write_report([run], tmp_path / "report.html"))
    assert "measurements.json is damaged" in text
    assert "run was not measured: ccl evaluate" in text


@pytest.mark.usefixtures("undrawn")
def test_what_looked_wrong_while_training_is_in_the_report(copied, tmp_path):
    runs = [copied(f"plain-seed-{i}", f"plain-seed-{i}") for i in (0, 1)]
    line = {"name": "x", "step": 12, "line": "the loss is at chance: raise <lr>", "about": ""}
    for run in runs:
        run.folder.write(run.folder.diagnosis, [line])
    text = texts(write_report(runs, tmp_path / "report.html"))
    assert "plain, seed 0, 1 : the loss is at chance: raise <lr> (step 12)" in text
    assert "something looked wrong: see How training went" in text
    runs[0].folder.diagnosis.write_text(json.dumps([{**line, "step": 13}]))
    text = texts(write_report(runs, tmp_path / "report.html"))
    assert "diagnosis.json is damaged" in text


@pytest.mark.usefixtures("undrawn")
def test_a_full_disk_leaves_the_older_report_whole(runs, tmp_path, monkeypatch):
    out = tmp_path / "report.html"
    out.write_text("older")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"could not be written.*report\.html"):
        write_report(runs[:1], out)
    assert out.read_text() == "older"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    "drawn", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["words", "figures"]
)
def test_a_report_of_twenty_runs_stays_small(runs, copied, tmp_path, request, drawn):
    if not drawn:
        request.getfixturevalue("undrawn")
    objective = runs[2].record["objective"]
    copies = [
        copied("fair-seed-0", f"run-{i:02}", objective=objective | {"temperature": 0.1 + i})
        for i in range(20)
    ]
    with pytest.warns(UserWarning, match="was changed"):
        file = write_report(copies, tmp_path / "report.html")
    assert file.stat().st_size < 5_000_000
    text = texts(file)
    assert text.count("run-19") >= 2
    assert "left out, to keep this file small: temperature 6.1, " in text


LABEL = Measurement(
    "linear/top1",
    0,
    "the share named right",
    column="label",
    role="label",
    direction="higher",
    chance=0.1,
)
COLOR = Measurement("color/r2", 0, column="color", role="other", direction="higher", chance=0.0)


def configuration(label, seeds, *, color=None, column=COLOR, spread=None, **options):
    """Label before and after training, by seed, and perhaps another column after it."""

    def at(seed, value, read):
        ends = spread and (value - spread, value + spread)
        found = [replace(LABEL, value=value, interval=ends)]
        if color is not None:
            role = "condition" if column.column in options.get("reads", {}).values() else "other"
            found.append(replace(column, value=read + seed / 100, role=role))
        return {each.name: each for each in found}

    results = [
        Result(Path(f"{label}-{i}"), at(i, before, 0.8), at(i, after, color), record=seeded(i))
        for i, (before, after) in enumerate(seeds)
    ]
    return ReportedGroup(results, label, losses=[(5.0, 4.0)], **options)


def seeded(seed):
    return {"fit": {"seed": seed}, "conditions": {"z": {"use": "condition:ccl-plugins/clusters"}}}


READS = {"condition": "color"}
ROSE = [(0.6, 0.90), (0.62, 0.93), (0.61, 0.92)]
FELL = [(0.6, 0.10), (0.62, 0.11), (0.61, 0.08)]


def words(answer):
    return " ".join(f"{about} {sentence}" for about, sentence in answer.sentences)


def test_the_answers_tell_learning_conditioning_and_luck():
    plain = configuration("plain", FELL, color=0.95)
    fair = configuration("fair", ROSE, color=0.3, reads=READS)
    learning, conditioning, better = answers([plain, fair])
    assert learning.verdict == "fair: yes; plain: not the label"
    assert "linear/top1 is 0.917 ± 0.015; before training it was 0.610" in words(learning)
    assert (
        "linear/top1 is the share named right; features that say nothing would have 0.1."
        in words(learning)
    )
    assert "What its features do hold is color: color/r2 is 0.960" in words(learning)
    assert conditioning.verdict == "fair holds less of color"
    assert "less of color than plain" in words(conditioning)
    assert (better.tone, better.verdict) == ("good", "fair holds most of the label: hardly luck")
    assert "ahead in both" in words(better)
    few = [configuration("plain", FELL[:2], color=0.95), configuration("fair", ROSE[:2], color=0.9)]
    unsure = words(answers(few)[2])
    assert (
        "least of color: color/r2 is 0.905 ± 0.007 (the same difference with every seed, which"
        in unsure
    )
    assert "ahead in both" not in unsure


def test_a_measurement_that_falls_where_more_is_held_is_read_the_other_way():
    error = Measurement("age/error", 0, column="age", direction="lower")
    plain = configuration("plain", ROSE, color=40, column=error)
    fair = configuration("fair", FELL, color=90, column=error, reads={"z": "age"})
    learning, conditioning, better = answers([plain, fair])
    assert conditioning.verdict == "fair holds less of age"
    assert "age/error is 90.010" in words(conditioning)
    assert "fair holds the least of age" in words(better)
    assert "What its features do hold" not in words(
        learning
    )  # nobody knows what nothing would have


@pytest.mark.parametrize("column", ["2", "skin tone", "top1", "linear-label/top1"])
def test_names_are_never_parsed(column):
    """A plug-in's evaluator has its words, and a column is the label only if it is called so."""
    own = Measurement(
        "odd/linear/top1", 0, "how well my probe does", column=column, direction="higher"
    )
    plain = configuration("plain", FELL, color=0.9, column=own)
    told = configuration("told", FELL, color=0.3, column=own, reads={"z": column})
    learning, conditioning, better = answers([plain, told])
    assert learning.verdict == "Not the label"
    assert f"It holds less of {column} than plain: odd/linear/top1 is 0.310" in words(conditioning)
    assert "odd/linear/top1 is how well my probe does." in words(conditioning)
    assert f"told holds the least of {column}" in words(better)


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """Two runs whose test plates no training sample has, one of them conditioned on the plate."""
    out, evaluate = tmp_path_factory.mktemp("apart"), [*plates_apart.NAMING, of_plate("held")]
    plate = ccl.condition("column", name="plate")
    fair = {"objective": "fair_infonce", "condition": plate}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the evaluator .* is left out|the measured samples")
        for name, parts in (("plain", {}), ("fair", fair)):
            plates_apart.fit(out / name, "linear", *evaluate, **parts)
    return {name: ccl.load(out / name) for name in ("plain", "fair")}


def test_what_is_held_of_a_column_is_told_where_training_lacks_its_values(apart, tmp_path, undrawn):
    text = texts(write_report([*apart.values()], tmp_path / "report.html"))
    assert "of plate as plain: held-plate/top1 is 1.000, against 1.000" in text
    assert "All hold equally much of plate, which may be luck: held-plate/top1 is 1.000." in text
    assert "holds the least of plate" not in text
    assert "linear-plate" not in text
    assert "plate is named right by a linear classifier fitted to others of them" in text


def test_what_leaks_is_what_is_held(apart):
    (panel,) = KeptAndLeaked()(apart).axes
    assert panel.get_xlabel().startswith("held-plate/top1 (plate leaks →)")
    lines = [line for line in panel.lines if line.get_marker() != "None"]
    assert {float(line.get_xdata()[0]) for line in lines} == {1.0}


def test_a_number_that_one_run_lacks_is_called_the_least_of_none():
    plain = configuration("plain", ROSE, color=0.9)
    told = configuration("told", ROSE)
    assert "least of color" not in words(answers([plain, told])[2])


def test_a_condition_without_an_evaluator_is_named():
    silent = configuration("silent", ROSE, reads={"z": None})
    _, conditioning, _ = answers([silent])
    assert "No evaluator has a number for clusters" in words(conditioning)
    assert conditioning.verdict == "Not measured"
    by_name = replace(COLOR, name="linear-z/top1", column="z")
    told = configuration("told", ROSE, color=0.3, column=by_name, reads={"z": None})
    assert answers([told])[1].verdict == "told holds less of clusters"


def test_the_answers_do_not_call_luck_a_difference():
    first = configuration("first", [(0.5, 0.8), (0.5, 0.9), (0.5, 0.85)])
    second = configuration("second", [(0.5, 0.86), (0.5, 0.85), (0.5, 0.9)])
    _, conditioning, better = answers([first, second])
    assert conditioning.verdict == "No run is conditioned"
    assert (better.tone, better.verdict) == (
        "unclear",
        "second holds most of the label: that may be luck",
    )
    assert "2.5 times as large as its spread" in words(better)
    alone = answers([configuration("a", ROSE[:1]), configuration("b", ROSE[1:2])])
    assert alone[2].tone == "unclear"
    assert "With one seed in common, it is unknown" in words(alone[2])


def test_learning_is_perhaps_where_seeds_are_too_few_unless_each_run_is_beyond_its_interval():
    rose = [(0.6, 0.7), (0.5, 0.9)]
    learning, *_ = answers([configuration("a", rose)])
    assert (learning.tone, learning.verdict) == ("unclear", "a: perhaps")
    assert "which may be luck" in words(learning)
    learning, *_ = answers([configuration("a", rose, spread=0.05)])
    assert (learning.tone, learning.verdict) == ("good", "Yes, the label")
    assert "in each by more than its test samples explain" in words(learning)
    single = configuration("a", rose[:1], spread=0.15)
    assert answers([single])[0].verdict == "a: perhaps"


def compared(*groups):
    """What the table of measurements says of tests."""
    shown = SimpleNamespace(groups=groups, results=[r for each in groups for r in each.runs])
    found = _measured(shown, compare_results(shown.results))
    return found["tested"], found["test_notes"]


def test_the_run_that_others_are_compared_with_is_named():
    first, *others = (configuration(name, ROSE) for name in ("first", "second", "third"))
    for i, each in enumerate((first, *others)):
        for result in each.runs:
            result.record["objective"] = i
    assert compared(first, *others)[0] == ["first"]
    unfinished = replace(first, runs=[replace(first.runs[0], state="step 1 of 2")])
    assert compared(unfinished, *others)[0] == ["second"]
    more = [
        replace(
            each,
            runs=[replace(r, after={**r.after, "x": r.after[LABEL.name]}) for r in each.runs],
        )
        for each in others
    ]
    assert compared(first, *more)[0] == ["first", "second"]


def test_the_notes_of_the_tests_are_about_those_that_were_made():
    several = [configuration(f"c{i}", [(0.5, 0.5 + i / 100)]) for i in range(7)]
    for i, each in enumerate(several):
        each.runs[0].record["objective"] = i
    assert compared(*several)[1] == [
        "With one seed in common, it is unknown whether a difference is luck: there is no p."
    ]
    several[1].runs[0].record["fit"]["seed"] = 5
    assert compared(*several[:2])[1] == ["Runs without a seed in common have no difference."]


@pytest.mark.parametrize(
    ("others", "best", "told"),
    [
        (3, (0.83, 0.86, 0.86), "corrected for 3 comparisons"),
        (
            4,
            (0.824, 0.84, 0.856),
            "corrected for 4 comparisons): with 3 seeds, a mean difference must be 5.1 times",
        ),
    ],
)
def test_the_test_is_corrected_for_the_number_of_comparisons(others, best, told):
    """Also how large a difference has to be."""
    values = [(0.5, 0.8), (0.5, 0.81), (0.5, 0.82)]
    others = [configuration(f"c{i}", values) for i in range(others)]
    best = configuration("best", [(0.5, value) for value in best])
    corrected = answers([best, *others])[2]
    assert told in words(corrected)
    assert corrected.tone == "unclear"


def test_a_single_comparison_is_not_corrected():
    other = configuration("other", [(0.5, 0.8), (0.5, 0.81), (0.5, 0.82)])
    best = configuration("best", [(0.5, 0.83), (0.5, 0.86), (0.5, 0.86)])
    assert answers([best, other])[2].tone == "good"


def test_the_same_leak_is_not_less_and_the_same_lead_is_no_luck():
    plain = configuration("plain", [(0.6, 0.8), (0.6, 0.82), (0.6, 0.81)], color=1.0)
    fair = configuration("fair", [(0.6, 0.9), (0.6, 0.92), (0.6, 0.91)], color=1.0)
    better = answers([plain, fair])[2]
    assert better.verdict == "fair holds most of the label: hardly luck"
    assert "ahead in both" not in words(better)
    assert "which may be luck" in words(better)


@pytest.mark.parametrize(
    ("recorded", "called"),
    [
        ({"use": "condition:ccl-plugins/column", "name": "color"}, "color"),
        ({"use": "condition:ccl-plugins/shuffled", "of": {}, "seed": 0}, "color, shuffled"),
    ],
)
def test_a_control_is_not_called_a_condition_on_its_column(recorded, called):
    """A report of a run with shuffled colors does not say that it is conditioned on the color."""
    result = replace(
        configuration("fair", ROSE[:1], color=0.3).runs[0],
        record={"fit": {"seed": 0}, "conditions": {"condition": recorded}},
    )
    fair = ReportedGroup([result], "fair", losses=[(5.0, 4.0)], reads=READS)
    plain = configuration("plain", ROSE[:1], color=0.9)
    text = words(answers([plain, fair])[1])
    assert f"It is conditioned on {called}. It holds less of color than plain" in text


def test_without_metrics_the_answers_say_that_nothing_was_measured():
    nothing = ReportedGroup([Result(Path("a"))], "a", reads=READS)
    assert [answer.verdict for answer in answers([nothing])] == [
        "Not measured",
        "Not measured",
        "There is nothing to compare",
    ]


@pytest.fixture
def own_figures():
    """Three figures of the session: one that draws, one that fails, one that does not apply."""

    class Dots:
        """A dot for each run."""

        def __call__(self, runs):
            drawn = figure(2, 2)
            drawn.subplots().plot([*range(len(runs))], [0] * len(runs), "o")
            return drawn

    class Broken:
        """A figure with a bug."""

        def __call__(self, runs):
            raise KeyError("pressure")

    class Elsewhere:
        """A figure of other runs."""

        def __call__(self, runs):
            raise DoesNotApply("no run has a pressure")

    found = registry()
    before = dict(found._session)
    for each in (Dots, Broken, Elsewhere):
        ccl.local("figure")(each)
    yield
    found._session.clear()
    found._session.update(before)


@pytest.mark.usefixtures("own_figures", "unwritten")
def test_a_figure_of_ones_own_is_in_the_report_and_one_that_fails_costs_itself(runs, tmp_path):
    text = texts(file := write_report(runs[:1], tmp_path / "report.html"))
    assert "Dots. A dot for each run." in text
    assert "Broken: KeyError: 'pressure'" in text
    assert "Elsewhere: no run has a pressure" in text
    assert 'alt="Dots. A dot for each run."' in file.read_text()
    assert text.index("Anchor.") < text.index("Dots.")


@pytest.fixture(scope="module")
def browser():
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs Debian's chromium and chromium-driver")
    pytest.importorskip("selenium", reason="needs selenium")
    with chromium() as found:
        yield found


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_in_chromium_without_requests_or_errors(browser, page, width, scheme):
    browser.open(page, width=width, scheme=scheme)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    wide = browser.js("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] == width, "the page itself must not scroll sideways"
    shown = browser.js("return document.body.innerText")
    assert all(question in shown for question in QUESTIONS)
    ground = browser.js("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) > 380) is (scheme == "light")
    broken = "return [...document.images].filter(i => !i.naturalWidth).map(i => i.alt)"
    assert browser.js(broken) == []


def test_the_page_is_used_with_the_keyboard(browser, page):
    from selenium.webdriver.common.keys import Keys

    browser.open(page)
    focus = "const e = document.activeElement; return e.className || e.id || e.tagName"
    keys = browser.driver.find_element("tag name", "body")
    keys.send_keys(Keys.TAB)
    assert browser.js(focus) == "skip"
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.js("return location.hash") == "#main"
    browser.open(page)
    parts = "[...document.querySelectorAll('a[href], button, summary, [tabindex=\"0\"]')]"
    count = browser.js(f"return {parts}.filter(e => e.checkVisibility()).length")
    assert count > 20
    for _ in range(count):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        assert browser.js("return getComputedStyle(document.activeElement).outlineStyle") != "none"
        browser.js("document.activeElement.dataset.reached = 1")
    left = f"return {parts}.filter(e => e.checkVisibility() && !e.dataset.reached).length"
    assert browser.js(left) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_switch_changes_the_colors(browser, page, scheme):
    browser.open(page, scheme=scheme)
    state = "return [getComputedStyle(document.body).backgroundColor,"
    state += " document.getElementById('scheme').getAttribute('aria-pressed')]"
    before = browser.js(state)
    assert before[1] == str(scheme == "dark").lower()
    browser.driver.find_element("id", "scheme").click()
    after = browser.js(state)
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_tables_have_captions_and_headers_and_pictures_have_words(browser, page):
    browser.open(page)
    assert browser.js(
        "return [...document.querySelectorAll('table')].every(t => t.caption"
        " && t.querySelector('th[scope=col]')"
        " && [...t.tBodies].every(b => [...b.rows].every(r => r.querySelector('th[scope]'))))"
    )
    assert browser.js("return document.querySelectorAll('h1').length") == 1
    assert browser.js("return [...document.images].every(i => i.hasAttribute('alt'))")
    ids = browser.js("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len({*ids})
