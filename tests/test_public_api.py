"""What others rely on is as it was recorded; docs/explanation/compatibility.md is the promise."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from types import ModuleType

import pytest
from support.imports import ROOT
from support.public_api import HOOKS, MODULES, RECORD, public_api

import ccl_plugins as ccl
from ccl_plugins import kinds

RECORDED = json.loads(RECORD.read_text("utf-8"))
NOW = public_api()
RENEW = (
    "others rely on it: keep the old form beside the new one with a DeprecationWarning, or, where the "
    "change is allowed by docs/explanation/compatibility.md, say so in CHANGELOG.md and run "
    "PYTHONPATH=tests python -m support.public_api"
)


@pytest.mark.parametrize("module", RECORDED["names"])
def test_no_public_name_is_gone(module):
    gone = set(RECORDED["names"][module]) - set(NOW["names"].get(module, ()))
    assert not gone, f"{module} no longer has {sorted(gone)}; {RENEW}"


@pytest.mark.parametrize("module", RECORDED["names"])
def test_every_public_name_can_be_had(module):
    loaded = importlib.import_module(module)
    assert not [name for name in NOW["names"][module] if not hasattr(loaded, name)]


def test_all_names_everything_public():
    assert sorted(ccl.__all__) == NOW["names"]["ccl_plugins"]
    assert {*ccl.__all__} <= {*dir(ccl)}


FOLDERS = [f"ccl_plugins.{name.removesuffix('/__init__')}" for name in MODULES if "/" in name]


@pytest.mark.parametrize("module", FOLDERS)
def test_a_star_import_has_the_exports_of_a_folder_and_hides_no_package(module):
    """Of the folder's modules some are called lightly, torch, timm, csv and sum."""
    found = {}
    exec(f"from {module} import *", found)
    found.pop("__builtins__")
    assert found.keys() == {*NOW["names"][module]}
    assert not [name for name, each in found.items() if isinstance(each, ModuleType)]


@pytest.mark.parametrize(
    ("module", "name"), [(m, name) for m, names in RECORDED["signatures"].items() for name in names]
)
def test_signatures_are_as_recorded(module, name):
    now = NOW["signatures"].get(module, {}).get(name)
    assert now == RECORDED["signatures"][module][name], f"{module}.{name} has changed; {RENEW}"


@pytest.mark.parametrize("hook", RECORDED["hooks"])
def test_hooks_keep_their_arguments(hook):
    assert NOW["hooks"].get(hook) == RECORDED["hooks"][hook], f"{hook} has changed; {RENEW}"


UNRELEASED = (
    (ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n## ")[2].startswith("Unreleased")
)


@pytest.mark.skipif(UNRELEASED, reason="nothing new is released yet, and binds nobody")
def test_what_is_new_is_recorded_where_it_binds_others():
    new = {
        *NOW["signatures"]["ccl_plugins.protocols"].keys()
        - RECORDED["signatures"]["ccl_plugins.protocols"].keys(),
        *NOW["hooks"].keys() - RECORDED["hooks"].keys(),
    }
    command = "PYTHONPATH=tests python -m support.public_api"
    assert not new, f"{sorted(new)} will be relied on: run {command}"


OF_KINDS = {f"{folder}/__init__" for folder in kinds.FOLDERS.values()}
"""The promise names the folders of kinds by a rule."""


@pytest.mark.parametrize("module", sorted({*MODULES, HOOKS} - OF_KINDS))
def test_the_promise_names_every_public_module(module):
    page = (ROOT / "docs/explanation/compatibility.md").read_text("utf-8")
    name = f"ccl_plugins.{module.replace('/', '.')}".removesuffix(".__init__")
    assert re.search(rf"`{re.escape(name)}`", page), name


def test_a_change_is_seen(monkeypatch, tmp_path):
    from support import public_api as reader

    shutil.copytree(ROOT / "ccl_plugins", tmp_path / "ccl_plugins")
    for name, old, new in (
        ("method", "def project(self, x: Tensor)", "def project(self, y: Tensor)"),
        ("evaluator", "class Evaluator(Protocol)", "class Evaluator(Judge)"),
    ):
        file = tmp_path / "ccl_plugins" / "protocols" / f"{name}.py"
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new), "utf-8")
    monkeypatch.setattr(reader, "ROOT", tmp_path)
    changed = reader.public_api()["signatures"]["ccl_plugins.protocols"]
    before = NOW["signatures"]["ccl_plugins.protocols"]
    assert {n for n in before if changed.get(n) != before[n]} == {"Method", "Evaluator"}
