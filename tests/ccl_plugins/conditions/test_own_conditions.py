"""The how-to page about conditions and its examples are true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import ccl_plugins as ccl
from ccl_plugins import cli

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "bring-your-own-condition.md").read_text(encoding="utf-8")


def test_the_pages_code_runs_as_one_session(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "page", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:2] == ["condition", "8"]
    assert printed[1] in PAGE


def test_the_pages_commands_run(monkeypatch, tmp_path):
    commands = re.findall(r"^ccl (.*)$", PAGE, re.MULTILINE)
    assert commands
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for command in commands:
        assert cli.main(command.split()) == 0
    assert (tmp_path / "information.png").is_file()


def test_the_pages_pipelines_of_several_conditions_compose():
    blocks = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found = [tomllib.loads(block) for block in blocks]
    found = [each for each in found if "conditions" in each]
    assert len(found) == 2
    for each in found:
        ccl.Pipeline.from_dict({"dataset": "color_digits", "backbone": "lenet5", **each})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("weak_labels", marks=pytest.mark.slow),
        "joint_condition",
    ],
)
def test_the_examples_train(name, tmp_path, capsys):
    """With neighbors for the probes, which take most of the time."""
    example = (ROOT / "examples" / f"{name}.toml").read_text(encoding="utf-8")
    file = tmp_path / f"{name}.toml"
    file.write_text(example.split("[[evaluate]]")[0] + 'workers = 0\n[[evaluate]]\nuse = "knn"\n')
    assert (
        cli.main(["train", str(file), "--epochs", "1", "--out", str(tmp_path / "runs"), "--quiet"])
        == 0
    )
    assert "knn/top1" in capsys.readouterr().out.lower()
