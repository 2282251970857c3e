from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.training_fakes import fit, make_parts

from ccl_plugins.training import progress as module
from ccl_plugins.training.settings import FitSettings

SETTINGS = FitSettings(2, 8, workers=0, log_every=1)


def test_lines_without_a_terminal_show_total_and_time_left(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    fit(make_parts(), SETTINGS, tmp_path, {})
    *lines, last = capsys.readouterr().err.splitlines()
    for step, line in enumerate(lines, 1):
        assert re.fullmatch(
            rf"step {step} of 4, loss \d\.\d+, .* s(teps)?/s(tep)?, \d+:\d\d left", line
        )
    assert re.fullmatch(r"step 4 of 4, loss \d\.\d+, .* s(teps)?/s(tep)?, done in \d+:\d\d", last)
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0:00"), (336, "5:36"), (3599.7, "1:00:00"), (90000, "25:00:00")]
)
def test_times_are_minutes_or_hours(seconds: float, words: str) -> None:
    assert module.clock(seconds) == words


def test_a_terminal_has_a_bar(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((100, 30)))
    fit(make_parts(), SETTINGS, tmp_path, {})
    err = capsys.readouterr().err
    assert "epoch 2/2: 100%" in err
    assert "4/4" in err


def test_nothing_is_shown_without_progress(tmp_path: Path, capsys: Any) -> None:
    fit(make_parts(), SETTINGS, tmp_path, {}, progress=False)
    assert capsys.readouterr() == ("", "")
