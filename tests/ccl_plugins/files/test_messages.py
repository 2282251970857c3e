from __future__ import annotations

import logging
import sys
import warnings

import pytest

from ccl_plugins.files.messages import RANKS, one_line_warnings


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in RANKS:
        monkeypatch.delenv(name, raising=False)


def warn(text):
    """As Python does with a warning; pytest would record it."""
    sys.stderr.write(warnings.formatwarning(UserWarning(text), UserWarning, "file.py", 7))


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
    assert capsys.readouterr().err == "ccl: warning: missing in 3\n"
    assert logging.getLogger("ccl_plugins.evaluators").handlers == []


def test_other_processes_than_the_first_print_no_warning(capsys, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    with one_line_warnings():
        warn("seen by the first process too")
    assert capsys.readouterr().err == ""


def test_warnings_are_recorded_as_before():
    with one_line_warnings(), pytest.warns(UserWarning, match="recorded"):
        warnings.warn("recorded", stacklevel=1)
