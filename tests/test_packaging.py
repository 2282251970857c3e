"""What is installed is what is written here."""

from __future__ import annotations

import tomllib
from importlib import metadata

from support.imports import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_entry_points_installed_are_those_declared():
    declared = {
        (f"{group}", name, target)
        for group, entries in PROJECT["entry-points"].items()
        for name, target in entries.items()
    }
    installed = {
        (entry.group, entry.name, entry.value)
        for entry in metadata.distribution("ccl-plugins").entry_points
        if entry.group != "console_scripts"
    }
    assert installed == declared, "reinstall: pip install -e ."


def test_the_version_installed_is_the_one_declared():
    assert metadata.version("ccl-plugins") == PROJECT["version"], "reinstall: pip install -e ."


def test_the_command_is_installed():
    scripts = metadata.distribution("ccl-plugins").entry_points.select(group="console_scripts")
    assert {s.name: s.value for s in scripts} == PROJECT["scripts"]
