"""The GPU suite at tiny sizes on the CPU: every part, what goes on after a stop, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.scripts import script

FOLDER = Path(__file__).parent.parent / "docs" / "evidence" / "benchmarks"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the script sets it
    return script("docs/evidence/benchmarks/gpu.py")


@pytest.fixture
def call(gpu, tmp_path):
    """Calls the script, and returns its exit status and the rows."""
    out = tmp_path / "rows.json"

    def call(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
        named = ["infonce", "supcon", "simclr", "test_vit", "killed"]
        asked = ["--only", *named, "--out", str(out)]
        status = gpu.main([*arguments, "--device", "cpu", *asked])
        return status, json.loads(out.read_text()) if out.exists() else []

    return call


def stopped(suite):
    yield "infonce", lambda: {"state": "ok", "first": 1.0}
    yield "supcon", interrupt


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.slow
def test_all_parts_run_and_go_on_after_a_stop(gpu, call, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setitem(gpu.PARTS, "objectives", stopped)
        with pytest.raises(KeyboardInterrupt):
            call("objectives")
    assert call("objectives", "--total", "-1")[0] == 1
    assert "objectives: 1 missing, from 'supcon' on" in capsys.readouterr().out
    status, rows = call()
    assert status == 0
    assert rows[0]["first"] == 1.0  # it was not measured again
    assert [row["name"] for row in rows if row["part"] == "objectives"] == ["infonce", "supcon"]
    states = {part: {row["state"] for row in rows if row["part"] == part} for part in gpu.PARTS}
    assert states == {part: {"skipped" if part == "waits" else "ok"} for part in gpu.PARTS}

    written = (tmp_path / "rows.md").read_text()
    assert "**Nothing was measured on a GPU so far.**" in written
    as_on_a_gpu = gpu.page([{**row, "device": "GPU X"} for row in rows])
    assert "Nothing was measured" not in as_on_a_gpu
    assert "Not measured yet" not in as_on_a_gpu
    assert "Measured on one GPU X" in as_on_a_gpu
    numbered = [row for row in rows if row["part"] not in ("share", "waits")]
    assert all(f"| {row['name']} |" in as_on_a_gpu for row in numbered)
    assert "| skipped: nothing waits for a CPU | objective | infonce" in as_on_a_gpu
    assert "| infonce |" in as_on_a_gpu


def test_what_fails_is_a_row_and_is_measured_again_on_request(gpu, call, monkeypatch, capsys):
    judged = script("docs/evidence/benchmarks/gpu_parts.py").judged

    def broken(suite):
        yield "waits", lambda: 1 // 0
        yield "differs", lambda: judged({"value": 0.2, "gradient": float("nan")}, 0.3, 0.3)

    monkeypatch.setitem(gpu.PARTS, "methods", broken)
    monkeypatch.setattr(gpu, "asked_for", lambda name, only: True)
    status, rows = call("methods")
    assert status == 1
    assert [row["state"] for row in rows] == ["failed", "failed"]
    assert rows[0]["error"].startswith("ZeroDivisionError: ")
    assert rows[1]["error"] == "gradient is above 0.3"
    assert "methods: differs failed: gradient is above 0.3" in capsys.readouterr().out
    monkeypatch.setitem(
        gpu.PARTS, "methods", lambda suite: iter([("waits", lambda: {"state": "ok"})])
    )
    assert call("methods")[1] == rows
    assert [row["state"] for row in call("methods", "--again")[1]] == ["failed", "ok"]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("infonce", "infonce"),
        ("fair_cclk (rbf), c 128, b 256", "fair_cclk"),
        ("simclr, resnet50, views drawn", "views drawn"),
        ("fit simclr", "fit simclr"),
    ],
)
def test_a_row_is_asked_for_by_its_words(gpu, name, asked):
    assert gpu.asked_for(name, [])
    assert gpu.asked_for(name, [asked, "moco_v3"])
    assert not gpu.asked_for(name, ["nt_xent", "clr"])


def test_an_unknown_part_is_named(gpu, capsys):
    with pytest.raises(SystemExit):
        gpu.main(["objective"])
    assert "no part 'objective': there are objectives, methods, " in capsys.readouterr().err


def test_the_page_shows_the_stored_rows(gpu):
    rows = json.loads((FOLDER / "gpu.json").read_text())
    assert (FOLDER / "gpu.md").read_text() == gpu.page(rows)
    assert all(row["device"] != "cpu" for row in rows)
