"""The classes on the pages are a package when they are saved, and work by their names."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from support.imports import ROOT
from support.programs import run

import ccl_plugins as ccl
from ccl_plugins.testing.fixtures import install_package

PAGES = {
    "write-an-evaluator": ("evaluator", "spread", "Spread"),
    "write-an-optimizer": ("optimizer", "sign", "Sign"),
    "write-a-schedule": ("schedule", "", ""),
    "write-a-logger": ("logger", "lines", "Lines"),
    "write-a-figure": ("figure", "gain", "Gain"),
    "keep-and-suppress": ("objective", "huber", "Huber"),
}
"""By page the kind, the name and the class of the component that it writes."""

TOML = """
dataset = {use = "color_digits", test_fraction = 0.8}
backbone = "lenet5"
method = {use = "simclr", hidden = 16, dim = 8, batch_norm = false}
transform = {use = "simclr", size = 32, jitter = 0.0, gray = 0.0, blur = 0.0}
condition = {use = "column", name = "color"}
loggers = ["csv", "lines"]
evaluate = ["spread", "knn", {use = "regression", column = "color"}]
monitor = {every_steps = 1, evaluate = ["spread"]}

[objective]
use = "guided"
base = "infonce"
guides = [{on = "condition", keep = false, by = {use = "huber"}}]

[fit]
epochs = 1
batch_size = 64
workers = 0
optimizer = {use = "sign", lr = 1e-3}
"""


def component(page: str) -> tuple[str, str, str, str]:
    """Kind, name, class and code of what a page writes in its first blocks, up to a call."""
    kind, name, cls = PAGES[page]
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    code = next(block for block in blocks if re.search(r"^class \w+", block, re.MULTILINE))
    if not name:  # the docstring of the module says it, and the last class is the component
        name = re.findall(rf"The {kind} ``(\w+)``", code)[0]
        cls = re.findall(r"^class (\w+)", code, re.MULTILINE)[-1]
    return kind, name, cls, f"import torch\n{re.split(r'^check', code, flags=re.MULTILINE)[0]}"


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which a pipeline of these components was trained and reported on, and all output."""
    folder = tmp_path_factory.mktemp("pages")
    source, target = folder / "source", folder / "installed"
    source.mkdir()
    entries = ""
    for page in PAGES:
        kind, name, cls, code = component(page)
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
    schedule = component("write-a-schedule")[1]
    (folder / "pages.toml").write_text(f'{TOML}schedule = {{use = "{schedule}"}}\n', "utf-8")
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
    assert {"evaluator:ccl-pages/spread", "objective:ccl-pages/huber"} <= {*used}
    assert {"optimizer:ccl-pages/sign", "logger:ccl-pages/lines"} <= {*used}
    assert any(each.startswith("schedule:") for each in used)
    assert record["versions"]["ccl-pages"] == "1.0"


def test_the_logger_and_the_monitor_of_a_page_have_numbers(trained):
    rows = (trained[0] / "runs" / "pages" / "numbers.jsonl").read_text("utf-8").splitlines()
    logged = {name for row in rows for name in json.loads(row)}
    assert {"loss", "monitor/spread/gap", "evaluation/spread/gap"} <= logged


def test_the_report_has_the_sentence_and_the_figure_of_a_page(trained):
    page = (trained[0] / "report.html").read_text("utf-8")
    assert "how much more alike test samples of one label are than any two" in page
    assert "A line that rises: training put more of the column into the features." in page
    assert "gain" in trained[1]


def test_the_run_is_read_back_without_the_package(trained):
    run = ccl.load(trained[0] / "runs" / "pages")
    assert run.encode(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 84)
