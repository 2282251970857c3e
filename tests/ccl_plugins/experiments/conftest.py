"""A run that several tests look at, or copy and change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.vector_pipeline import make_pipeline


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished and measured run of `make_pipeline`: two epochs of two steps."""
    run = make_pipeline().fit(out=tmp_path_factory.mktemp("finished") / "run", progress=False)
    run.evaluate()
    return run.path


@pytest.fixture
def copied_run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of it, in ``tmp_path / "run"``."""
    return Path(shutil.copytree(finished_run, tmp_path / "run"))
