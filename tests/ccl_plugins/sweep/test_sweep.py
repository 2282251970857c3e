"""Sweeps: every cell is trained once, whatever is killed, and one that fails stops no other."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import io
import json
import math
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import torch
from safetensors.torch import save_file
from support.damage import each_wrong_bit
from support.small_pipeline import TOML, write_data
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
import ccl_registry as engine
from ccl_plugins.cli import main
from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.lock import FolderInUse, owning
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.protocols import Measurement
from ccl_plugins.report import page as report
from ccl_plugins.sweep import cells as sweeps
from ccl_plugins.sweep.cells import SweepExists
from ccl_plugins.sweep.command import _table
from ccl_plugins.sweep.queue import CellQueue
from ccl_plugins.sweep.sweep import Range, Sweep, named

parquet = pytest.importorskip("pyarrow.parquet")

GRID = """
base = "base.toml"
out = "out"
metric = "knn/top1"
[grid]
"objective.temperature" = [0.1, 0.5]
"fit.seed" = [0, 1]
"""

ONE = (("[0.1, 0.5]", "[0.1]"), ("[0, 1]", "[0]"))
"""The changes that leave one cell."""

SEARCH = """
base = "base.toml"
out = "out"
metric = "knn/top1"
[search]
trials = 4
"objective.temperature" = {low = 0.05, high = 1.0, log = true}
"objective" = ["infonce", {use = "nt_xent"}]
"method.dim" = {low = 2, high = 6}
"""


BASE = re.sub(r"(?m)^(\[\[?)", r"\1base.", TOML)

GRIDS = f"""
out = "out"
metric = "knn/top1"
[base]
{BASE}
[[grid]]
name = "InfoNCE"
objective = ["infonce"]
"fit.seed" = [0, 1]
[[grid]]
name = "NT-Xent"
objective = ["nt_xent"]
"objective.temperature" = [0.1, 0.5]
"fit.seed" = [0]
"""

RANGE = "{low = 0.05, high = 1.0, log = true}"


@pytest.fixture(autouse=True)
def _base(in_a_folder_with_data):
    Path("base.toml").write_text(TOML)


@pytest.fixture(autouse=True)
def _without_report(monkeypatch):
    """To draw a report takes longer than to train its cells."""
    monkeypatch.setattr(report, "write_report", lambda runs, file: file)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of the sweep `GRID`, trained and reported, and what was printed."""
    folder, out, err = tmp_path_factory.mktemp("finished"), io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        write_data(folder)
        Path("base.toml").write_text(TOML)
        write(GRID)
        assert run() == 0
    return folder, out.getvalue(), err.getvalue()


@pytest.fixture
def resumed(finished):
    """The finished sweep and its data, in the folder of the test."""
    shutil.copytree(finished[0], ".", dirs_exist_ok=True)


def write(text, *changes, name="sweep.toml"):
    for right, wrong in changes:
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    Path(name).write_text(text)
    return name


def measured(**values):
    return {name: Measurement(name, value) for name, value in values.items()}


def judged(value):
    interval = (value - 0.1, value + 0.1)
    return {"knn/top1": Measurement("knn/top1", value, samples=144, interval=interval)}


def run(*words):
    return main(["sweep", "sweep.toml", "--quiet", *words])


def table(out="out"):
    with Path(out, "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_grid_trains_every_cell_into_a_folder_of_its_own(finished):
    folder, printed, told = finished
    rows = table(folder / "out")
    assert [(r["objective.temperature"], r["fit.seed"]) for r in rows] == [
        ("0.1", "0"),
        ("0.1", "1"),
        ("0.5", "0"),
        ("0.5", "1"),
    ]
    assert {r["state"] for r in rows} == {"done"}
    for row in rows:
        cell = ccl.load(folder / "out/cells" / row["cell"])
        assert cell.record["objective"]["temperature"] == float(row["objective.temperature"])
        assert cell.record["fit"]["seed"] == int(row["fit.seed"])
        assert float(row["test/knn/top1"]) == cell.metrics["knn/top1"]
        assert float(row["validation/knn/top1"]) == cell.validation["knn/top1"]
        assert float(row["before/knn/top1"]) == cell.before["knn/top1"]
    assert "cell 000 (of 4): objective.temperature=0.1 fit.seed=0" in told
    assert "4 of 4 cells done" in printed
    assert "objective.temperature=0.5 " in printed
    assert "knn/top1" in (folder / "out/report.html").read_text()


def test_a_sweep_whose_data_is_swapped_between_cells_ends_and_goes_on_with_the_former(capsys):
    write(GRID, ("[0.1, 0.5]", "[0.1]"))
    former = Path("test.safetensors").read_bytes()
    finish = sweeps._run_cell

    def swap(sweep, folder, cell, *rest):
        if folder.name == "001":
            columns = {"label": torch.arange(8) % 2, "age": torch.linspace(0, 1, 8)}
            save_file({"features": torch.ones(8, 4), **columns}, "test.safetensors")
        return finish(sweep, folder, cell, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "_run_cell", swap)
        assert run() != 0
    error = capsys.readouterr().err
    assert "the data is not that of cell 000: test split: images differ" in error
    Path("test.safetensors").write_bytes(former)
    assert run("--resume") == 0
    assert {row["state"] for row in table()} == {"done"}


@pytest.mark.usefixtures("resumed")
def test_a_wrong_bit_in_the_file_of_a_cell_is_named(capsys):
    file = Path("out/queue/000.json")
    content = 8 * file.read_bytes().rindex(b"}")
    for _ in each_wrong_bit(file, random.Random(0).sample(range(content), 60)):
        capsys.readouterr()
        assert run("--resume") == 2
        assert re.search(r"queue.000\.json is damaged \(", capsys.readouterr().err)
    assert run("--resume") == 0


def test_a_grid_needs_neither_optuna_nor_pyarrow(monkeypatch, capsys):
    for package in ("optuna", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    write(GRID, *ONE)
    assert run() == 0
    assert {row["state"] for row in table()} == {"done"}
    assert not Path("out/results.parquet").exists()
    write(SEARCH)
    assert run("--out", "search") == 2
    assert 'a search needs Optuna: pip install "ccl-plugins[sweep]"' in capsys.readouterr().err
    assert not Path("search").exists()


def test_both_files_of_results_hold_the_same(finished):
    out = finished[0] / "out"
    columns = parquet.read_table(out / "results.parquet").to_pydict()
    for name, values in columns.items():
        assert [str(value) for value in values] == [row[name] for row in table(out)]


def test_the_configuration_with_the_best_mean_over_seeds_comes_first():
    def cell(value, seed, found, state="done"):
        metrics = measured(m=found) if state == "done" else {}
        return sweeps.Cell("", {"x": value, "fit.seed": seed}, state, {}, metrics, metrics)

    cells = [cell(1, 0, 0.5), cell(1, 1, 0.7), cell(2, 0, 0.9), cell(2, 1, None, "failed: x")]
    sweep = Sweep({}, [{}], Path(), "m")
    first, second = sweeps.configurations(sweep, cells)
    assert (first.name, len(sweeps.done(first).runs), len(first.runs)) == ("x=2", 1, 2)
    _, _, line, *_ = str(_table(sweep, cells, [], [])).splitlines()
    assert line.split() == ["x=1", "2", "0.60", "±", "0.14", "0.60", "±", "0.14"]
    mean, deviation = second.estimate("m", "validation")[1:3]
    assert (mean, deviation) == pytest.approx((0.6, 0.02**0.5))
    (first, _) = sweeps.configurations(Sweep({}, [{}], Path(), "m", "minimize"), cells)
    assert first.name == "x=1"


def test_grids_with_their_keys_in_another_order_are_one_configuration():
    """As where a grid with a further seed is added."""

    def cell(values):
        return sweeps.Cell("", values, "done", {}, measured(m=0.5), measured(m=0.5))

    cells = [cell({"x": 1, "y": 2, "fit.seed": 0}), cell({"fit.seed": 1, "y": 2, "x": 1})]
    (group,) = sweeps.configurations(Sweep({}, [{}], Path(), "m"), cells)
    assert group.runs == cells


def test_a_component_is_chosen_before_its_parameters():
    values = {"objective.temperature": [0.2], "objective": ["nt_xent"]}
    write(GRID, ('"fit.seed" = [0, 1]', '"objective" = ["nt_xent", {use = "infonce"}]'))
    sweep = Sweep.from_toml("sweep.toml")
    pipeline = ccl.Pipeline.from_dict(
        sweep.configuration({key: each[0] for key, each in values.items()})
    )
    assert pipeline.to_dict()["objective"]["use"].endswith("nt_xent")
    assert pipeline.to_dict()["objective"]["temperature"] == 0.2


def test_a_name_that_is_a_formula_or_an_escape_is_text(capsys):
    text = GRID.replace("[grid]", '[[grid]]\nname = "=HYPERLINK(1) \\u001b[31m"')
    write(text, *ONE)
    run()
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert {row["name"] for row in table()} == {"'=HYPERLINK(1) \x1b[31m"}


def test_drawn_numbers_are_shown_with_six_digits():
    cell = {"a.b": 0.4140491086357939, "c": {"use": "x"}, "d": "word", "e": 3}
    assert named(cell) == 'a.b=0.414049 c={"use": "x"} d=word e=3'


def test_keys_may_be_written_without_quotes():
    write(GRID, ('"fit.seed" = [0, 1]', "fit.seed = [0, 1]"))
    assert Sweep.from_toml("sweep.toml").values == {
        "objective.temperature": [0.1, 0.5],
        "fit.seed": [0, 1],
    }


class Fails(InfoNCE):
    """Fails in a training step.

    Args:
        how: The error, or how the process ends.
    """

    def __init__(self, how: str = "bug") -> None:
        super().__init__()
        self.how = how

    def loss(self, pairs):
        if self.how == "kill" or (self.how == "once" and not Path("once").exists()):
            Path("once").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "bug" and not Path("mended").exists():
            raise RuntimeError("a bug\nof two lines")
        return super().loss(pairs)


def sweep_over(*objectives):
    base = {"objective": "infonce"} | engine.read_toml("base.toml")
    return Sweep(base, [{"objective": list(objectives)}], Path("out"), "knn/top1")


def test_a_cell_that_fails_is_reported_and_the_rest_goes_on(capsys, monkeypatch):
    ccl.local("objective")(Fails)
    write(GRID, ('"objective.temperature" = [0.1, 0.5]\n"fit.seed" = [0, 1]', OBJECTIVES))
    assert run() == 1
    assert [row["state"] for row in table()] == [
        "failed: RuntimeError: a bug of two lines",
        "done",
    ]
    assert "cell 000 failed: RuntimeError: a bug of two lines" in capsys.readouterr().err
    Path("mended").touch()
    assert run("--resume") == 0
    assert [row["state"] for row in table()] == ["done", "done"]


OBJECTIVES = '"objective" = ["local/Fails", "infonce"]'


PROCESSES = multiprocessing.get_context("forkserver")


def _call(folder, begun, work, *arguments):
    os.chdir(folder)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    begun.send(True)
    work(*arguments)


def in_a_process(work, *arguments):
    """Begin a call in a process that may end in any way.

    It is not forked from this one, whose libraries have threads: a lock that one holds would stay locked.
    """
    receive, send = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_call, args=(Path.cwd(), send, work, *arguments))
    process.start()
    receive.recv()
    return process


def was_killed(process):
    process.join(100)
    assert process.exitcode is not None, "it does not end"
    return process.exitcode == -signal.SIGKILL


def test_a_cell_whose_metric_is_no_number_fails_and_says_so(capsys, monkeypatch):
    """Optuna counts it as failed, without a reason."""
    monkeypatch.setattr(sweeps, "_run_cell", lambda *_: {"knn/top1": math.nan})
    write(GRID, ("[0, 1]", "[0]"))
    assert run() == 1
    assert [each["state"] for each in table()] == [
        "failed: ValueError: knn/top1 is nan, so the cell cannot be chosen by it"
    ] * 2
    assert "knn/top1 is nan" in capsys.readouterr().err


def test_cells_killed_at_random_end_with_the_same_table(finished, resumed):
    shutil.rmtree("out")
    draw, killed = random.Random(0), 0
    for _ in range(4):
        process = in_a_process(run, "--resume")
        time.sleep(0.6 * draw.random())
        process.kill()
        killed += was_killed(process)
    assert killed
    assert run("--resume") == 0
    assert table() == table(finished[0] / "out")


def work_on(sweep):
    ccl.local("objective")(Fails)
    sweeps.work(sweep)


def test_a_cell_that_kills_its_process_is_given_up_after_three():
    ccl.local("objective")(Fails)
    sweep = sweep_over({"use": "local/Fails", "how": "kill"}, "infonce")
    sweeps.begin(sweep)
    assert all(was_killed(in_a_process(work_on, sweep)) for _ in range(3))
    sweeps.work(sweep)
    assert [cell.state for cell in sweeps.cells_of(sweep)] == [
        "failed: its processes ended",
        "done",
    ]


@pytest.mark.parametrize(
    "executor",
    [
        "DebugExecutor",  # in this process, one after the other
        pytest.param("LocalExecutor", marks=pytest.mark.slow),  # two processes import all libraries
    ],
)
def test_jobs_take_all_cells_of_a_sweep(executor, monkeypatch, capsys):
    submitit = pytest.importorskip("submitit")
    monkeypatch.setattr(submitit, "LocalExecutor", getattr(submitit, executor))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    write(GRID, ("[0.1, 0.5]", "[0.1]"))
    assert run("--jobs", "2") == 0
    assert [row["state"] for row in table()] == ["done"] * 2
    assert "2 processes; their output is in out/logs" in capsys.readouterr().err


def refuse_locks(*_):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.fixture(params=["locks", "no locks"])
def file_system(request, monkeypatch):
    """A file system with locks, or one without, as some of several machines."""
    if request.param == "no locks":
        monkeypatch.setattr(fcntl, "flock", refuse_locks)
    return request.param


def take_and_die(sweep, file_system):
    if file_system == "no locks":
        fcntl.flock = refuse_locks
    CellQueue._next = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    with CellQueue(sweep).taking():
        pass


def test_a_process_killed_while_it_takes_a_cell_holds_up_no_other(file_system):
    sweep = sweep_over("infonce")
    sweeps.begin(sweep)

    assert was_killed(in_a_process(take_and_die, sweep, file_system))
    with CellQueue(sweep).taking() as name:
        assert name == "000"


@pytest.mark.usefixtures("file_system")
def test_a_process_that_does_not_go_on_while_it_takes_a_cell_is_named(monkeypatch):
    monkeypatch.setattr("ccl_plugins.sweep.queue.WAIT", 0.1)
    sweep = sweep_over("infonce")
    sweeps.begin(sweep)
    name = f"process {os.getpid()} on"
    with (
        CellQueue(sweep).locked(),
        pytest.raises(FolderInUse, match=name),
        CellQueue(sweep).taking(),
    ):
        pass


def test_a_cell_that_another_process_works_on_is_left_to_it():
    sweep = sweep_over("infonce", "nt_xent")
    sweeps.begin(sweep)
    queue = CellQueue(sweep)
    with queue.taking() as first:
        with queue.taking() as second, queue.taking() as third:
            assert (first, second, third) == ("000", "001", None)
        with queue.taking() as again:  # its process has ended
            assert again == "001"


def test_a_record_that_another_process_has_just_put_away_is_passed_over(monkeypatch):
    """A cell that was killed before its first checkpoint is deleted and begun anew."""
    sweep = Sweep.from_toml(write(GRID))
    sweeps.begin(sweep)
    folder = sweep.out / "cells" / "001"
    folder.mkdir(parents=True)
    (folder / "pipeline.json").write_text("{}")

    def gone(*_):
        raise FileNotFoundError(folder)

    monkeypatch.setattr(sweeps, "read_json", gone)
    sweeps._refuse_other_data(sweep, {"dataset": "features"})
    monkeypatch.setattr(sweeps, "Run", gone)
    assert [each.state for each in sweeps.cells_of(sweep)] == ["waiting"] * 4


def test_a_cell_that_is_done_while_another_process_asks_for_it_stays_done(monkeypatch):
    sweep = sweep_over("infonce")
    sweeps.begin(sweep)
    queue = CellQueue(sweep)
    with queue.taking() as name:
        pass

    @contextlib.contextmanager
    def owning_late(folder, *patience, **options):
        if folder.name == name:
            queue.change(name, state="done", value=1.0)
        with owning(folder, *patience, **options):
            yield

    monkeypatch.setattr("ccl_plugins.sweep.queue.owning", owning_late)
    with queue.taking() as other:
        assert other is None
    assert queue.read(name).state == "done"


def test_a_search_draws_the_same_values_again_after_a_kill():
    longer = ("trials = 4", "trials = 3")
    write(SEARCH, longer)
    sweep = Sweep.from_toml("sweep.toml")
    assert run() == 0
    cells = sweeps.cells_of(sweep)
    assert len(cells) == 3
    assert all(0.05 <= cell.values["objective.temperature"] <= 1 for cell in cells)
    assert all(cell.values["method.dim"] in range(2, 7) for cell in cells)
    assert all(cell.values["objective"] in ("infonce", {"use": "nt_xent"}) for cell in cells)
    assert len({cell.values["objective.temperature"] for cell in cells}) == 3
    Path("out").rename("whole")
    assert main(["sweep", write(SEARCH, ("trials = 4", "trials = 1")), "--quiet"]) == 0
    write(SEARCH, longer)
    process = in_a_process(run, "--resume")
    time.sleep(0.2)
    process.kill()
    was_killed(process)
    assert run("--resume") == 0
    assert table() == table("whole")


def test_a_cell_killed_before_its_values_are_noted_draws_the_same_again(monkeypatch):
    sweep = Sweep.from_toml(write(SEARCH))
    sweeps.begin(sweep)
    queue = CellQueue(sweep)
    with queue.taking() as name:
        values = queue.read(name).values
    Path("out").rename("whole")
    sweeps.begin(sweep)
    with monkeypatch.context() as patch:
        patch.setattr(CellQueue, "write", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt), queue.taking():
            pass
    with queue.taking() as name:
        assert (name, queue.read(name).values) == ("000", values)


def test_a_search_stops_a_cell_that_is_behind():
    sweep = Sweep(
        engine.read_toml("base.toml"),
        [{"objective.temperature": Range(0.05, 1.0), "fit.epochs": [3]}],
        Path("out"),
        "knn/top1",
        "minimize",
        trials=12,
        prune="loss",
    )
    sweeps.begin(sweep)
    sweeps.work(sweep)
    states = [cell.state for cell in sweeps.cells_of(sweep)]
    assert len(states) == 12
    assert {*states} == {"done", "pruned"}


REFUSED = [
    (GRID, '"objective.temperature"', '"objective.temperatur"', "temperature"),
    (GRID, '"objective.temperature"', '"objektive.temperature"', "Did you mean 'objective'?"),
    (GRID, "[0.1, 0.5]", "[0.1, -0.5]", "objective.temperature=-0.5"),
    (GRID, "[0.1, 0.5]", "[]", "objective.temperature has no values"),
    (GRID, "[0.1, 0.5]", "[0.1, 0.1]", "has a value twice"),
    (GRID, "[0.1, 0.5]", "{low = 0.1, high = 0.5}", "must be a list of values in a grid"),
    (GRID, '"base.toml"', '"other.toml"', "other.toml"),
    (GRID, 'out = "out"', "", "out must be a path"),
    (GRID, "[grid]", "[gird]", "grid"),
    (GRID, "[grid]", "[search]", "search.trials"),
    (GRID, 'metric = "knn/top1"', "metric = 3", "metric must be a name"),
    (GRID, 'metric = "knn/top1"', 'direction = "up"', "direction must be"),
    (GRID, "[0, 1]", "[0, 1]\n[search]\ntrials = 2", "one of the tables"),
    (GRID, '"fit.seed" = [0, 1]', '"fit.devices" = [1, 2]', "each cell in one process"),
    (GRID, '"fit.seed" = [0, 1]', '"evaluate" = [[]]', "evaluate has no evaluator, but a sweep"),
    (GRID, "[grid]", "follow = 3\n[grid]", "follow must be a table"),
    (
        GRID,
        "[grid]",
        'follow = {"dataset.seed" = "fit.sede"}\n[grid]',
        "must name a key that the sweep tries, one of",
    ),
    (
        GRID,
        "[grid]",
        'follow = {"fit.seed" = "objective.temperature"}\n[grid]',
        "fit.seed has values of its own",
    ),
    (GRID, "[grid]", "subject_to = 3\n[grid]", "subject_to must be a table"),
    (GRID, "[grid]", 'subject_to = {"a/b" = 0.5}\n[grid]', "'a/b' must have bounds"),
    (GRID, "[grid]", 'subject_to = {"a/b" = {above = 0.5}}\n[grid]', "'a/b' must have bounds"),
    (SEARCH, RANGE, "{low = 1.0, high = 0.5}", "low must be below high"),
    (SEARCH, RANGE, "{low = 0.0, high = 0.5, log = true}", "low must be above 0"),
    (SEARCH, RANGE, '{low = "a", high = 0.5}', "must be numbers"),
    (SEARCH, RANGE, "{low = 0.1, high = 0.5, step = 2}", "or a range such as"),
    (SEARCH, RANGE, "0.5", "or a range such as"),
    (SEARCH, RANGE, "{low = -1.0, high = 0.5}", "temperature"),
    (GRIDS, 'name = "NT-Xent"', "name = 3", "a grid's name must be text, not 3"),
    (GRIDS, 'objective = ["nt_xent"]', 'objective = "supcon"', "objective must be a list"),
    (
        GRIDS,
        'name = "NT-Xent"\nobjective = ["nt_xent"]\n"objective.temperature" = [0.1, 0.5]',
        'name = "InfoNCE"\nobjective = ["infonce"]',
        "two grids have the same cell: name=InfoNCE objective=infonce fit.seed=0",
    ),
    (GRIDS, "[base]\n", "base = 3\n[other]\n", "base"),
    (
        GRIDS,
        "[base]\n",
        'follow = {"dataset.seed" = "objective.temperature"}\n[base]\n',
        "objective.temperature', which grid 1 does not try",
    ),
]


@pytest.mark.parametrize(("text", "right", "wrong", "message"), REFUSED)
def test_a_sweep_that_cannot_be_tried_is_refused_before_any_cell_is_trained(
    text, right, wrong, message, capsys
):
    write(text, (right, wrong))
    assert run() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "sweep.toml" in line or "other.toml" in line
    assert message in line
    assert not Path("out").exists()


@pytest.mark.usefixtures("resumed")
def test_two_sweeps_do_not_share_a_folder(capsys):
    before = table()
    assert run() == 2
    assert "out already holds this sweep: --resume goes on" in capsys.readouterr().err
    write(GRID, ("[0.1, 0.5]", "[0.2]"))
    assert run("--resume") == 2
    error = capsys.readouterr().err
    assert re.search(
        r"out holds another sweep: spaces\.1\.objective\.temperature: \[0\.1, 0\.5\] -> \[0\.2\]",
        error,
    )
    assert table() == before


@pytest.mark.usefixtures("resumed")
def test_a_grid_may_be_added_to_a_sweep_that_is_done(capsys):
    before = table()
    one = write(GRID, ("[grid]", "[[grid]]"))
    added = '[[grid]]\n"objective.temperature" = [0.7]\n"fit.batch_size" = [8, 16]\n'
    Path(one).write_text(Path(one).read_text() + added)
    assert run("--resume") == 0
    rows = table()
    assert [{key: row[key] for key in before[0]} for row in rows[:4]] == before
    assert [(r["objective.temperature"], r["fit.batch_size"]) for r in rows[4:]] == [
        ("0.7", "8"),
        ("0.7", "16"),
    ]
    write(GRID)
    assert run("--resume") == 2
    assert (
        'out holds another sweep: spaces.2: {"objective.temperature": [0.7], '
        '"fit.batch_size": [8, 16]} -> null\n'
    ) in capsys.readouterr().err


def test_a_folder_with_other_files_is_no_place_for_a_sweep(tmp_path):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    with pytest.raises(SweepExists, match=r"'notes\.txt'"):
        sweeps.begin(sweep_over("infonce"))
    assert os.listdir("out") == ["notes.txt"]


def begin_and_die(sweep):
    def die(file, _):
        with atomic_write(file):
            os.kill(os.getpid(), signal.SIGKILL)

    sweeps.write_json = die
    sweeps.begin(sweep)


def test_a_sweep_killed_while_its_definition_is_written_begins_anew():
    sweep = sweep_over("infonce", "nt_xent")
    assert was_killed(in_a_process(begin_and_die, sweep))
    sweeps.begin(sweep)
    assert [cell.state for cell in sweeps.cells_of(sweep)] == ["waiting", "waiting"]


def test_a_metric_that_no_evaluator_gives_is_named_before_training(capsys):
    write(GRID, ('"knn/top1"', '"knn/top"'))
    assert run() == 1
    assert {row["state"] for row in table()} == {
        "failed: ValueError: no evaluator of the pipeline gives the metric 'knn/top'. Did you mean"
        " 'knn/top1'?"
    }
    assert not list(Path("out").rglob("*.ckpt"))


@pytest.mark.usefixtures("resumed")
def test_a_disk_that_is_full_when_results_are_written_loses_no_cell(monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device", "out/results.csv")

    with monkeypatch.context() as patch:
        patch.setattr(sweeps, "atomic_write", full)
        assert run("--resume") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert run("--resume") == 0
    assert [row["state"] for row in table()] == ["done"] * 4


def test_slurm_gets_an_array_with_the_options_of_the_file(monkeypatch, tmp_path, capsys):
    pytest.importorskip("submitit")
    write(GRID + '[slurm]\nslurm_partition = "gpu"\ntimeout_min = 90\n')
    if shutil.which("srun") is None:
        assert run("--launcher", "slurm") == 2
        assert "slurm" in capsys.readouterr().err.lower()
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("srun", ""), ("sbatch", 'cp "$1" sent.sh; echo "Submitted batch job 7"')):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    jobs = sweeps.launch(Sweep.from_toml("sweep.toml"), 3, "slurm")
    assert len(jobs) == 3
    sent = Path("sent.sh").read_text()
    assert "#SBATCH --array=0-2" in sent
    assert "#SBATCH --partition=gpu" in sent
    assert "#SBATCH --time=90" in sent
    bad = Sweep.from_toml(write(GRID + "[slurm]\nslurm_partitoin = 'gpu'\n"))
    with pytest.raises(ValueError, match=r"\[slurm\].*slurm_partitoin"):
        sweeps.launch(bad, 1, "slurm")


def test_definition_and_sweep_are_one(tmp_path):
    sweep = Sweep.from_toml(write(SEARCH))
    again = Sweep.from_dict(json.loads(json.dumps(sweep.to_dict())), sweep.out)
    assert again == sweep


EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.filterwarnings("ignore:nothing in this pipeline reads the condition")
@pytest.mark.parametrize(
    "file",
    [
        *(EXAMPLES / "sweeps" / f"{name}.toml" for name in ("kernel_scale", "search")),
        *(
            pytest.param(file, marks=[pytest.mark.slow] * (i % 4 > 0))  # of one form
            for i, file in enumerate(sorted((EXAMPLES / "reproduction").glob("*.toml")))
        ),
    ],
    ids=lambda file: file.stem,
)
def test_the_examples_can_be_tried(file):
    if "proto_nce" in file.read_text():
        pytest.importorskip("ccl_prototypes", reason="PCL is in the package ccl-prototypes")
    Sweep.from_toml(file).check()


@pytest.mark.filterwarnings("ignore:nothing in this pipeline reads the condition")
def test_the_blocks_of_the_how_to_page_can_be_tried():
    page = (EXAMPLES.parent / "docs/how-to/sweep.md").read_text()
    first, *others = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    head, _, _ = first.partition("[grid]")
    shutil.copy(EXAMPLES / "color_digits_fair.toml", "color_digits_fair.toml")
    assert len(others) == 5
    for text in (first, *(text if "[base]" in text else head + text for text in others)):
        Sweep.from_toml(write(text)).check()


def test_grids_with_names_and_keys_of_their_own_are_one_sweep(capsys, monkeypatch):
    write(GRIDS)
    assert run("--set", "fit.epochs=2") == 0
    rows = table()
    assert [r["name"] for r in rows] == ["InfoNCE"] * 2 + ["NT-Xent"] * 2
    assert [r["objective.temperature"] for r in rows] == ["", "", "0.1", "0.5"]
    assert ccl.load("out/cells/000").record["fit"]["epochs"] == 2
    shown = capsys.readouterr().out
    for label in ("InfoNCE ", "NT-Xent, temperature 0.1 ", "NT-Xent, temperature 0.5 "):
        assert label in shown
    earlier = json.loads(Path("out/sweep.json").read_text())
    del earlier["follow"]  # as a version without this key wrote it
    Path("out/sweep.json").write_text(json.dumps(earlier))
    monkeypatch.setattr("ccl_plugins.sweep.command.REPORTED", 1)
    assert run("--set", "fit.epochs=2", "--resume", "--out", "out") == 0
    printed = capsys.readouterr()
    assert "report takes minutes: ccl report out/cells/*" in printed.err
    assert "report.html" not in printed.out
    assert run("--resume") == 2
    assert "fit.epochs" in capsys.readouterr().err


def test_a_key_follows_another():
    """Each seed of the training draws its own part of the data."""
    write(GRID, ("[grid]", 'follow = {"dataset.seed" = "fit.seed"}\n[grid]'))
    sweep = Sweep.from_toml("sweep.toml")
    made = [sweep.configuration(cell) for cell in sweep.cells]
    assert [each["dataset"]["seed"] for each in made] == [each["fit"]["seed"] for each in made]
    assert {each["dataset"]["seed"] for each in made} == {0, 1}
    assert Sweep.from_dict(sweep.to_dict(), sweep.out).follow == sweep.follow


def test_cells_within_the_bounds_come_first_and_others_are_marked(capsys):
    """The cell that reads the site best is the worst choice where it must not be read."""
    write(GRID, ("[grid]", 'subject_to = {"linear-age/top1" = {most = 0.6}}\n[grid]'))
    sweep = Sweep.from_toml("sweep.toml")
    assert sweep.excess({"linear-age/top1": 0.5}) == 0
    assert sweep.excess({"linear-age/top1": 0.75}) == pytest.approx(0.15)
    assert sweep.excess({}) == float("inf")
    cells = [
        sweeps.Cell(
            str(i),
            {"objective.temperature": t},
            "done",
            {},
            judged(kept) | measured(**{"linear-age/top1": leaked}),
            judged(0.5),
        )
        for i, (t, kept, leaked) in enumerate(
            [(0.1, 0.97, 0.9), (0.5, 0.80, 0.55), (0.9, 0.85, 0.6)]
        )
    ]
    rows = sweeps.configurations(sweep, cells)
    assert [row.runs[0].values["objective.temperature"] for row in rows] == [0.9, 0.5, 0.1]
    assert rows[0].estimate("knn/top1", "validation").interval == pytest.approx((0.75, 0.95))
    text = str(_table(sweep, cells, [], []))
    assert "0.85 (0.75 to 0.95)" in text
    assert "beyond a bound" in text.splitlines()[3]
    assert "a part of the training split of 144 samples" in text


def test_a_search_avoids_cells_beyond_the_bounds(capsys):
    bound = 'subject_to = {"knn/top1" = {least = 2.0}}\n[search]'  # which none can keep
    write(SEARCH, ("[search]", bound), ("trials = 4", "trials = 2"))
    assert run() == 0
    assert capsys.readouterr().out.count("beyond a bound") == 2
    queue = CellQueue(Sweep.from_toml("sweep.toml"))
    for trial in queue.study(queue.entries()).trials:
        (excess,) = trial.constraints.values()
        assert excess >= 1.0


def test_cells_are_chosen_by_validation_data_of_ones_own(capsys):
    """Its labels are turned round, so that what is right on the training split is wrong on it."""
    columns = {"label": 1 - torch.arange(24) % 2, "age": torch.linspace(0, 1, 24)}
    save_file({"features": torch.randn(24, 4), **columns}, "own.safetensors")
    own = 'validation = {use = "features", train = "train.safetensors", test = "own.safetensors"}\n[grid]'
    write(GRID, ("[grid]", own), *ONE)
    assert run() == 0
    assert "the test split of the sweep's validation data of 24 samples" in capsys.readouterr().out
    cell = ccl.load("out/cells/000")
    assert cell.measurements("validation")["knn/top1"].samples == 24
    write(GRID, ("[grid]", own.replace("features", "nothing")), name="wrong.toml")
    assert main(["sweep", "wrong.toml", "--out", "other"]) == 2
    assert "nothing" in capsys.readouterr().err


def test_a_condition_that_goes_together_with_the_label_is_said_before_a_sweep(capsys):
    Path("base.toml").write_text(
        TOML.replace('"infonce"', '"supcon"') + 'condition = {use = "column", name = "site"}\n'
    )
    for split, n in (("train", 32), ("test", 8)):
        ids = torch.arange(n) % 2
        columns = {"label": ids, "site": ids.clone()}
        save_file({"features": torch.randn(n, 4), **columns}, f"{split}.safetensors")
    write(GRID, *ONE)
    assert run() == 0
    out, err = capsys.readouterr()
    for text in (out, err):
        assert "the condition 'site' and the label go together (100%)" in text


def with_plates(count, *evaluators):
    """Data of a few plates, as a base whose samples belong together; the test split has three more."""
    evaluate = ", ".join(evaluators or ['"knn"'])
    base = TOML.replace('test.safetensors"}', 'test.safetensors", group = "plate"}')
    Path("base.toml").write_text(base.replace('["knn"]', f"[{evaluate}]"))
    for split, plates in (("train", range(count)), ("test", range(count, count + 3))):
        plate = torch.tensor(plates).repeat_interleave(24)
        columns = {"label": torch.arange(len(plate)) % 2, "plate": plate, "age": plate.float()}
        save_file({"features": torch.randn(len(plate), 4), **columns}, f"{split}.safetensors")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (
            2,
            "cells are chosen by 1 of 2 groups of 'plate', 24 of 48 samples: the best cell need not",
        ),
        (
            6,
            "cells are chosen by 3 of 6 groups of 'plate', 72 of 144 samples: the best cell may be",
        ),
        (91, None),
    ],
)
def test_a_sweep_says_if_it_chooses_by_few_groups(count, said):
    with_plates(count)
    sweep = Sweep.from_toml(write(GRID))
    lines = sweep.remarks()
    assert len(lines) == (said is not None)
    if said:
        assert lines[0].startswith(said)
        assert "fewer than 10 groups give no interval; a training split of more groups" in lines[0]
        assert "or data of your own (validation = {...} of the sweep)" in lines[0]
    own = {**sweep.tables["dataset"], "train": "train.safetensors"}
    (line,) = Sweep.from_dict({**sweep.to_dict(), "validation": own}, sweep.out).remarks()
    assert "cells are chosen by 3 of 3 groups of 'plate', 72 of 72 samples" in line


def test_a_sweep_says_which_classes_its_few_groups_lack():
    with_plates(4)
    plate = torch.arange(4).repeat_interleave(8)
    columns = {"label": plate, "plate": plate.clone(), "age": plate.float()}
    save_file({"features": torch.randn(32, 4), **columns}, "train.safetensors")
    assert "16 of 32 samples, without 2 of 4 classes" in Sweep.from_toml(write(GRID)).remarks()[0]


def test_a_sweep_without_a_validation_part_is_refused_before_any_cell_is_trained(capsys):
    with_plates(1)
    write(GRID)
    assert run() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs two training groups of samples or more, but there are 1; data of your own" in line
    assert not Path("out").exists()


@pytest.mark.filterwarnings("ignore:the measured samples are of")
@pytest.mark.filterwarnings("ignore:the evaluator regression.* is left out")
@pytest.mark.filterwarnings("ignore:the evaluator cka.* is left out of the choice between runs")
@pytest.mark.parametrize("metric", ["features/cka", "age/r2"])
def test_a_metric_that_cannot_choose_is_told_before_training(metric, capsys):
    """One compares with the network before training; the other is constant on one plate."""
    with_plates(2, '"knn"', '"cka"', '{use = "regression", column = "age"}')
    write(GRID, ('"knn/top1"', f'"{metric}"'), *ONE)
    assert run() == 1
    assert (
        f"'{metric}' has no number for the choice of cells (see the warning): choose by knn/top1"
        in (capsys.readouterr().err)
    )
    assert not list(Path("out").rglob("*.ckpt"))
    write(
        GRID,
        ("[grid]", f'subject_to = {{"{metric}" = {{least = 0.5}}}}\n[grid]'),
        *ONE,
        name="b.toml",
    )
    assert main(["sweep", "b.toml", "--quiet", "--out", "bounded"]) == 1
    assert f"'{metric}' has no number for the choice of cells" in capsys.readouterr().err


def test_an_evaluator_that_cannot_choose_is_named_and_the_sweep_goes_on(capsys):
    Path("base.toml").write_text(TOML.replace('["knn"]', '["knn", "cka"]'))
    write(GRID, *ONE)
    with pytest.warns(
        UserWarning, match="evaluator cka.* left out of the choice between runs: it reads"
    ):
        assert run() == 0
    assert "features/cka: no number for the choice of cells" in capsys.readouterr().out
    (row,) = table()
    assert row["test/features/cka"]
    assert "validation/features/cka" not in row


@pytest.mark.parametrize(("third", "said"), [(0.7, "1 other lies"), (0.82, "2 others lie")])
def test_configurations_that_the_interval_of_the_first_does_not_tell_apart_are_counted(third, said):
    sweep = Sweep.from_toml(write(GRID))

    def cell(temperature, found):
        values = {"objective.temperature": temperature, "fit.seed": 0}
        return sweeps.Cell("", values, "done", {}, judged(found), judged(found))

    cells = [cell(0.1, 0.85), cell(0.5, 0.9), cell(0.9, third)]
    assert f"{said} within the interval of the first" in str(_table(sweep, cells, [], []))
    assert "within the interval" not in str(_table(sweep, cells[:1], [], []))
