"""The examples of the gallery run, and print the lines that their page shows."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.scripts import script

from ccl_plugins.datasets import color_digits
from ccl_plugins.figures import embedding_map

ROOT = Path(__file__).parents[1]
SMALL = {"EPOCHS": 1, "WARMUP": 0, "STEPS": 2}
"""What stands in for the numbers at the top of an example."""


gallery = script("docs/how-to/gallery.py")
PRINTED = gallery.outputs(gallery.PAGE.read_text("utf-8"))
IN_PROCESS = [name for name in gallery.TITLES if name != "devices.py"]


def form(text):
    """What is printed, without its numbers."""
    return re.sub(r"-?\d+(\.\d+)?(e-\d+)?", "0", text)


def test_the_page_has_every_example_with_what_it_says_and_printed():
    files = {path.name for path in gallery.FOLDER.iterdir() if path.suffix in (".py", ".md")}
    assert files == {*gallery.TITLES} == {*PRINTED}
    assert gallery.PAGE.read_text("utf-8") == gallery.render(PRINTED), (
        "python docs/how-to/gallery.py"
    )


@pytest.mark.parametrize("name", gallery.TITLES)
def test_an_example_is_short(name):
    lines = gallery.source(gallery.FOLDER / name).splitlines()
    assert len(lines) <= 85
    assert any(re.match(r"(EPOCHS|STEPS) = \d+$", line) for line in lines)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (i % 3 > 0))
        for i, name in enumerate(IN_PROCESS)
    ],
)
def test_an_example_prints_the_lines_of_the_page(name, tmp_path, monkeypatch, capsys):
    """One epoch on a part of the digits."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    ink, label = color_digits._all_digits()
    monkeypatch.setattr(color_digits, "_all_digits", lambda: (ink[:300], label[:300]))
    pca = functools.partial(embedding_map.project, method="pca")  # t-SNE takes seconds
    monkeypatch.setattr(embedding_map, "project", lambda features, method: pca(features))
    code = gallery.source(gallery.FOLDER / name)
    for constant, value in SMALL.items():
        code = re.sub(rf"^{constant} = \d+$", f"{constant} = {value}", code, flags=re.M)
    exec(compile(code, name, "exec"), {"__name__": "__main__"})
    assert form(capsys.readouterr().out) == form(PRINTED[name])


@pytest.mark.slow  # two processes import torch
def test_two_processes_print_the_losses_of_one():
    script = gallery.FOLDER / "devices.py"
    out = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True
    ).stdout
    assert form(out) == form(PRINTED["devices.py"])
    assert float(out.split()[-1]) < 1e-4
