"""The checksums of a run's measurements and logs, which `sha256sum` compares."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.resuming import StopAfter
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.experiments.train import RunInterrupted
from ccl_plugins.explore.viewer_file import embed
from ccl_plugins.figures.board import show_figures
from ccl_plugins.files.events import event_files
from ccl_plugins.files.sums import SUMS


def sums_of(out: Path) -> set[str]:
    """The names of the files that have a checksum, once all are compared."""
    checked = subprocess.run(
        ["sha256sum", "--strict", "--check", SUMS], cwd=out, text=True, capture_output=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return {line.removesuffix(": OK") for line in checked.stdout.splitlines()}


def fit(out: Path, **given: Any) -> ccl.Run:
    return ccl.Pipeline.from_toml("x.toml").fit(out=out, progress=False, **given)


@pytest.mark.usefixtures("in_a_folder_with_data")
def test_the_sums_of_a_run_are_right_whatever_was_done_with_it():
    Path("x.toml").write_text(TOML)
    out = Path("run")
    with pytest.raises(RunInterrupted):
        fit(out, callbacks=[StopAfter(1)])
    logged = {"measurements.json", "history.csv", "diagnosis.json"}
    assert sums_of(out) > logged
    fit(out, resume=True).evaluate()
    for epochs in (1, 2):  # a finished run, and one that goes on
        run = fit(out, resume=True, epochs=epochs)
        assert ("metrics.json" in sums_of(out)) == (epochs == 1)
        run.evaluate()
        assert show_figures(run)
        assert sums_of(out) > {*logged, "metrics.json"}
    again = ccl.load(out)
    again.evaluate()
    again.validate()
    before, gone = sums_of(out), {"metrics.json", *event_files(out)}
    assert before > gone
    embed(again, out / "vectors.parquet", method="pca")
    assert sums_of(out) == before
    fit(out, overwrite=True)
    assert sums_of(out) > logged
    assert not sums_of(out) & gone
    assert (out / "vectors.parquet").exists(), "which is the user's"
