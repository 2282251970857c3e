"""The classes on the pages are a package when they are saved, and work by their names."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.component_page import section
from support.imports import ROOT
from support.programs import run

import ccl_plugins as ccl
from ccl_plugins.testing.fixtures import install_package

NAMES = {
    "evaluator": "nearest_mean",
    "optimizer": "smooth",
    "schedule": "root",
    "logger": "lines",
    "figure": "gain",
}
"""What the class of a section is called in the package, by its kind."""
GUIDES = ROOT / "docs" / "how-to" / "keep-and-suppress.md"

TOML = """
dataset = {use = "color_digits", test_fraction = 0.8}
backbone = "lenet5"
method = {use = "simclr", hidden = 16, dim = 8, batch_norm = false}
transform = {use = "simclr", size = 32, jitter = 0.0, gray = 0.0, blur = 0.0}
condition = {use = "column", name = "color"}
loggers = ["csv", "lines"]
evaluate = ["nearest_mean", "knn", {use = "regression", column = "color"}]
monitor = {every_steps = 1, evaluate = ["nearest_mean"]}

[objective]
use = "guided"
base = "infonce"
guides = [{on = "condition", keep = false, by = {use = "huber"}}]

[fit]
epochs = 1
batch_size = 64
workers = 0
optimizer = {use = "smooth", lr = 1e-3}
schedule = "root"
"""


def components() -> Iterator[tuple[str, str, str, str]]:
    """Kind, name, class and code of the first block of each section, and of the head of a guide."""
    for kind, name in NAMES.items():
        _, classes, checked = section(kind)
        yield kind, name, checked[0], classes[0]
    (code,) = re.findall(
        r"^```python\n([^`]*?^class Huber.*?)^check", GUIDES.read_text("utf-8"), re.M | re.S
    )
    yield "objective", "huber", "Huber", f"import torch\n{code}"


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which a pipeline of these components was trained and reported on, and all output."""
    folder = tmp_path_factory.mktemp("pages")
    source, target = folder / "source", folder / "installed"
    source.mkdir()
    entries = ""
    for kind, name, cls, code in components():
        module = f"ccl_page_{name}"
        (source / f"{module}.py").write_text(code, "utf-8")
        entries += f'[project.entry-points."ccl_plugins.{kind}"]\n{name} = "{module}:{cls}"\n'
    modules = json.dumps([path.stem for path in source.glob("*.py")])
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "ccl-pages"\nversion = "1.0"\n{entries}'
        f"[tool.setuptools]\npy-modules = {modules}\n",
        "utf-8",
    )
    install_package(source, target=target)
    (folder / "pages.toml").write_text(TOML, "utf-8")
    commands = ("train pages.toml --quiet", "report runs/pages", "list figure")
    calls = " or ".join(
        f"main({line.split()})" for line in commands
    )  # the first that fails is the status
    code = f"import sys; from ccl_plugins.cli import main; sys.exit({calls})"
    env = {**os.environ, "PYTHONPATH": str(target)}
    done = run("-c", code, env=env, cwd=folder, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    shutil.rmtree(target)
    return folder, done.stdout + done.stderr


def test_a_run_of_components_from_the_pages_is_recorded_with_their_names(trained):
    record = json.loads((trained[0] / "runs" / "pages" / "pipeline.json").read_text("utf-8"))
    used = re.findall(r'"(\w+:ccl-pages/\w+)"', json.dumps(record))
    assert {"evaluator:ccl-pages/nearest_mean", "objective:ccl-pages/huber"} <= {*used}
    assert {"optimizer:ccl-pages/smooth", "schedule:ccl-pages/root"} <= {*used}
    assert "logger:ccl-pages/lines" in used
    assert record["versions"]["ccl-pages"] == "1.0"


def test_the_logger_and_the_monitor_of_a_page_have_numbers(trained):
    rows = (trained[0] / "runs" / "pages" / "numbers.jsonl").read_text("utf-8").splitlines()
    logged = {name for row in rows for name in json.loads(row)}
    assert {"loss", "monitor/nearest_mean/top1", "evaluation/nearest_mean/top1"} <= logged


def test_the_report_has_the_sentence_and_the_figure_of_a_page(trained):
    page = (trained[0] / "report.html").read_text("utf-8")
    assert "the share of the test samples whose label has the nearest mean" in page
    assert "A line that rises: training put more of the label into the features." in page
    assert "gain" in trained[1]


def test_the_run_is_read_back_without_the_package(trained):
    run = ccl.load(trained[0] / "runs" / "pages")
    assert run.encode(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 84)
