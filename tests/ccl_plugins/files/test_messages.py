from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

import pytest

from ccl_plugins.files.messages import one_line_warnings, warnings_of
from ccl_plugins.files.processes import NUMBERS


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in NUMBERS:
        monkeypatch.delenv(name, raising=False)


def warn(text):
    """As Python does with a warning; pytest would record it."""
    sys.stderr.write(warnings.formatwarning(UserWarning(text), UserWarning, "file.py", 7))


def issue(text):
    warnings.warn(text, stacklevel=1)


def test_a_warning_is_one_line_without_internals_once_per_run(capsys):
    for _ in range(2):
        with one_line_warnings():
            for text in ("two\n  lines", "two\n  lines", "a \x1b[31mcolor", "größer"):
                warn(text)
    run = "ccl: warning: two lines\nccl: warning: a \\x1b[31mcolor\nccl: warning: größer\n"
    assert capsys.readouterr().err == run * 2
    warn("as before")
    assert "file.py:7: UserWarning: as before" in capsys.readouterr().err


def test_what_an_evaluator_logs_is_one_line_once_per_run(capsys):
    with one_line_warnings():
        for _ in range(2):
            logging.getLogger("ccl_plugins.evaluators.columns").warning("missing in %d", 3)
            logging.getLogger("ccl_plugins.networks.timm_models").warning("downloaded")
    lines = "ccl: warning: missing in 3\nccl: warning: downloaded\n"
    assert capsys.readouterr().err == lines
    assert logging.getLogger("ccl_plugins.evaluators").handlers == []


def test_a_warning_is_printed_once_whatever_python_has_forgotten(printed_warnings, capsys):
    with one_line_warnings():
        for _ in range(20):
            issue("again")
            with warnings.catch_warnings(), one_line_warnings():
                issue("again")
    assert capsys.readouterr().err == "ccl: warning: again\n"


def test_each_of_several_files_keeps_its_warning(printed_warnings, capsys):
    with one_line_warnings():
        for _ in range(3):
            for file in ("a.toml", "b.toml"):
                with warnings_of(file, again=True):
                    issue("few groups")
        issue("of neither")
    lines = ("a.toml: few groups", "b.toml: few groups", "of neither")
    assert capsys.readouterr().err.splitlines() == [f"ccl: warning: {line}" for line in lines]


def test_a_warning_of_twenty_runs_is_a_line_and_a_number(printed_warnings, capsys):
    with one_line_warnings():
        for run in range(20):
            with warnings_of(f"runs/{run}"):
                issue("few groups")
                issue(f"of {run // 19}")
    assert capsys.readouterr().err.splitlines() == [
        "ccl: warning: runs/0: few groups",
        "ccl: warning: runs/0: of 0",
        "ccl: warning: runs/19: of 1",
        "ccl: warning: 19 more runs: few groups",
        "ccl: warning: 18 more runs: of 0",
    ]


def test_a_process_prints_a_warning_of_a_run_once_until_it_is_trained_anew(
    printed_warnings, capsys
):
    for anew, run in ((True, "a"), (False, "a"), (False, "a"), (False, "b"), (True, "a")):
        with one_line_warnings(Path(run), anew=anew):
            issue("few groups")
    assert capsys.readouterr().err == "ccl: warning: few groups\n" * 3


def test_other_processes_than_the_first_print_no_warning(capsys, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    with one_line_warnings():
        warn("seen by the first process too")
    assert capsys.readouterr().err == ""


def test_warnings_are_recorded_as_before():
    with one_line_warnings(), pytest.warns(UserWarning, match="recorded"):
        warnings.warn("recorded", stacklevel=1)
