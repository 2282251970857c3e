from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.training_fakes import fit, make_parts

from ccl_plugins.training import FitSettings
from ccl_plugins.training import progress as module

SETTINGS = FitSettings(2, 8, workers=0, log_every=1)


def test_a_log_has_lines(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    fit(make_parts(), SETTINGS, tmp_path, {})
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  loss")[0] for line in lines] == [
        "epoch 1/2  step 1",
        "epoch 1/2  step 2",
        "epoch 2/2  step 3",
        "epoch 2/2  step 4",
    ]
    assert all(line.endswith(" images/s") for line in lines)


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
