"""The commands of the README are commands, and the slow tests run them."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest
from support.imports import ROOT

from ccl_plugins import objectives
from ccl_plugins.cli import main, read_command

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
LINES = [
    part.strip() for block in BLOCKS for line in block.splitlines() for part in line.split("&&")
]
SHORT = [f"--set={setting}" for setting in ("fit.epochs=1", "fit.max_steps=1", "monitor=off")]


def test_every_line_is_a_command_or_installs_and_tests():
    others = [line for line in LINES if not line.startswith("ccl ")]
    assert others == ["pip install .", 'pip install -e ".[dev]"', "python -m pytest -n auto"]


@pytest.mark.parametrize("line", [*LINES, *re.findall(r"`(ccl [a-z-]+ [^`]+)`", README)])
def test_a_command_is_spelled_as_the_command_line_takes_it(line):
    if line.startswith("ccl "):
        _, name, *words = shlex.split(line)
        read_command(name)[1].parse_args(words)
    for file in re.findall(r"examples/\S+", line):
        assert (ROOT / file).is_file()


@pytest.mark.parametrize("name", sorted({*re.findall(r"`ccl ([a-z-]+)", README)}))
def test_a_command_that_is_named_exists(name):
    assert read_command(name)


@pytest.mark.slow
def test_the_commands_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    """Trainings take one step; ``ccl report`` gets the runs that the lines before it made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for line in LINES:
        words = shlex.split(line)[1:]
        if not line.startswith("ccl "):
            continue
        if words[0] == "train":
            words += [*SHORT, "--overwrite"]
        expanded = [
            each
            for word in words
            for each in (sorted(map(str, tmp_path.glob(word))) if "*" in word else [word])
        ]
        assert main(expanded) == 0, capsys.readouterr().err
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_table_beside_other_libraries_counts_no_more_than_there_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    methods = project["entry-points"]["ccl_plugins.method"]
    classes = [each for each in vars(objectives).values() if isinstance(each, type)]
    labels = [each for each in classes if "categorical" in getattr(each, "value_types", ())]
    for words, found in {
        "self-supervised methods": methods,
        "losses that read labels": labels,
    }.items():
        row = re.search(rf"^\| {words} \| (\d+) \|", README, re.MULTILINE)
        assert int(row[1]) <= len(found)
