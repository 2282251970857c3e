"""The page that chooses an objective: its files are what `ccl init` writes, and they compose."""

from __future__ import annotations

import re
import tomllib
import warnings

from support.imports import ROOT
from support.scripts import script

import ccl_plugins as ccl

PAGE = ROOT / "docs" / "how-to" / "which-objective.md"


writer = script("docs/how-to/which_objective.py")


def test_the_files_are_what_init_writes():
    assert writer.render() == PAGE.read_text("utf-8"), "run python docs/how-to/which_objective.py"


def test_every_leaf_of_the_tree_has_a_file_that_composes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer.write_birds(tmp_path, size=8)
    leaves = writer.files(PAGE.read_text("utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as of a condition that nothing reads
        found = [
            ccl.Pipeline.from_dict(tomllib.loads(text)).to_dict()["objective"]["use"]
            for text in leaves.values()
        ]
    assert [name.partition("/")[2] for name in found] == [
        "infonce",
        "supcon",
        "cl_infonce",
        "cl_infonce",
        "soft_infonce",
        "fair_infonce",
        "fair_cclk",
        "guided",
        "infonce",
        "supcon",
    ]
    headings = re.findall(r"^## (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    linked = re.findall(r"\]\(#([\w-]+)\)", PAGE.read_text("utf-8"))
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert {*linked} <= anchors
    assert len({*linked}) == len(leaves)
