"""Fifty hostile packages at once: each is named with its error, and everything else is shown."""

from __future__ import annotations

import json
import os

import pytest
from support import hostile_plugins, programs
from support.hostile_plugins import distribution
from support.imports import ROOT

INFO = """
import contextlib, io, json, sys
from ccl_plugins.cli import main
from ccl_plugins.kinds import registry
found = {}
for spec in registry().specs("kernel"):
    if spec.plugin.startswith("ccl-hostile"):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(["info", "kernel", spec.id])
        found[spec.id] = status, out.getvalue(), err.getvalue()
sys.__stdout__.write(json.dumps(found))
"""


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    return {"root": root, **hostile_plugins.write(root)}


def run(names, *words):
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", names["root"])))
    return programs.run(*words, env={**os.environ, "PYTHONPATH": path}, cwd=names["root"])


@pytest.fixture(scope="module")
def report(names):
    done = run(names, "-m", "ccl_plugins", "doctor", "--load", "--json")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def reasons(report, name):
    found = [f["reason"] for f in report["failures"] if f["plugin"] == distribution(name)]
    return found + [f["text"] for f in report["problems"] if f["plugin"] == distribution(name)]


def test_the_list_names_every_plugin_that_fails_and_shows_everything_else(names):
    done = run(names, "-m", "ccl_plugins", "list")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stdout.replace("\n", "").isprintable()
    assert max(map(len, done.stdout.splitlines())) < 2000
    rows = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("kernel ")}
    assert {"rbf", "hostile_good", "twice", "hook_panics_first"} <= rows
    notes = [line for line in done.stdout.splitlines() if line.endswith("(ccl doctor)")]
    for name in names["raised"] + names["hooks"]:
        assert [n for n in notes if n.startswith(f"{distribution(name)} 1 failed: ")], name
    for name in names["metadata"]:
        assert [n for n in notes if distribution(name) in n or f"hostile_{name}-1." in n], name


def test_the_doctor_survives_every_hostile_plugin_and_names_it(names, report):
    built = {"constructor", "attribute"}  # fail where they are used
    for name in {*names["raised"], *names["hooks"], *names["components"]} - built:
        assert reasons(report, name), name
    for name in ("import_panics", "import_exits", "import_deep_source"):
        (reason,) = reasons(report, name)
        start = f"kernel {distribution(name)}/{name} 1: cannot import ccl_hostile_{name}:Hostile ("
        assert reason.startswith(start)
    assert {p["name"] for p in report["plugins"]} > {"ccl-plugins", "ccl-hostile-good"}
    assert not [f for f in report["failures"] if f["plugin"] == "ccl-plugins"]


def test_the_doctor_survives_whatever_is_wrong_with_metadata_and_names_it(names, report):
    text = json.dumps(report["failures"] + report["problems"])
    for name in names["metadata"]:
        assert distribution(name) in text or f"ccl_hostile_{name}-1.dist-info" in text, name
    assert "its METADATA has no Version" in reasons(report, "no_version")
    assert "kernel:ccl-hostile-twice/twice is declared twice" in reasons(report, "twice")


def test_entry_points_that_cannot_be_read_are_named_and_other_plugins_are_shown(tmp_path):
    names = {"root": tmp_path, "broken": hostile_plugins.write_unreadable(tmp_path)}
    listed = run(names, "-m", "ccl_plugins", "list")
    assert listed.returncode == 0
    assert " rbf " in listed.stdout
    done = run(names, "-m", "ccl_plugins", "doctor", "--json")
    assert done.returncode == 1
    for name in names["broken"]:
        assert f"{distribution(name)} 1 failed: " in listed.stdout
        assert any(
            "its entry_points.txt" in each for each in reasons(json.loads(done.stdout), name)
        )


def test_three_nameless_distributions_are_told_apart_by_folder(names, report):
    nameless = [f["text"] for f in report["problems"] if "without a name" in f["plugin"]]
    for name in ("no_name", "no_metadata", "empty", "odd_name", "latin"):
        (text,) = [each for each in nameless if f"ccl_hostile_{name}-1.dist-info" in each]
        assert text.isprintable()


def test_what_importing_hooks_changes_is_named_and_undone(names, report):
    remarks = {f["plugin"]: f["text"] for f in report["remarks"] if "changed" in f["text"]}
    for name, changed in (
        ("stays_in_folder", "the working directory"),
        ("filters", "warning filters"),
        ("path", "sys.path"),
        ("limit", "the recursion limit"),
        ("deaf", "the handler of Ctrl-C"),
    ):
        assert remarks[distribution(name)] == f"reading its hooks changed {changed}"


def test_info_names_the_component_and_the_error_in_one_line_and_shows_the_rest(names):
    done = run(names, "-c", INFO)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in names["components"]:
        component = name if name.startswith("import_") else f"hostile_{name}"
        identity = f"{distribution(name)}/{component}"
        status, out, err = found[identity]
        line, *_ = lines = [x for x in (out + err).splitlines() if identity in x]
        assert all(each.isprintable() for each in lines)
        if name in ("constructor", "attribute"):
            assert (status, err) == (1, "")
            assert "PanicException" in line
            assert f"kernel {component}   {distribution(name)} 1" in out
            assert "ccl_hostile_" in out.splitlines()[1]
        else:
            assert status in (1, 2)
    assert found["ccl-hostile-good/hostile_good"][0] == 0
