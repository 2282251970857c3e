"""The directory of plug-ins: its page is current, and an entry that is wrong is not listed."""

from __future__ import annotations

import json
import subprocess
import tomllib

import pytest
from support.imports import ROOT
from support.scripts import script

directory = script("docs/plugins.py")


def test_the_page_is_written_from_the_list():
    listed = directory.entries(directory.DATA.read_text())
    assert directory.PAGE.read_text() == directory.page(listed), "run python docs/plugins.py"


def test_the_packages_of_this_repository_are_listed_as_they_are():
    listed = {entry.install: entry for entry in directory.entries(directory.DATA.read_text())}
    for file in (ROOT / "examples" / "plugins").glob("*/pyproject.toml"):
        project = tomllib.loads(file.read_text())["project"]
        entry = listed[str(file.parent.relative_to(ROOT))]
        kinds = sorted(group.removeprefix("ccl_plugins.") for group in project["entry-points"])
        assert (entry.name, entry.license) == (project["name"], project["license"])
        assert entry.kinds == kinds


RING = {
    "name": "ccl-ring",
    "summary": "A ring",
    "kinds": ["kernel"],
    "install": "ccl-ring==1.0",
    "repository": "https://example.org/me/ccl-ring",
    "license": "MIT",
    "tested_with": "0.1.0",
}


def as_toml(*entries):
    lines = []
    for each in entries:
        lines += ["[[plugin]]", *(f"{key} = {json.dumps(value)}" for key, value in each.items())]
    return "\n".join(lines)


@pytest.mark.parametrize("install", ["ccl-ring==1.0", "ccl-ring @ git+https://example.org/me/ring"])
def test_an_entry_of_a_stranger_is_listed(install):
    listed = directory.entries(as_toml({**RING, "install": install}))
    row = next(line for line in directory.page(listed).splitlines() if "| A ring |" in line)
    assert install in row
    assert "https://example.org/me/ccl-ring" in row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "CCL ring"}, "'CCL ring': name must be a distribution's"),
        ({"kinds": ["kernels"]}, r"kinds must be some of .*, not \['kernels'\]"),
        ({"kinds": ["objective", "kernel"]}, "kinds must be some of"),
        ({"kinds": []}, "kinds must be some of"),
        ({"install": "another==1.0"}, "install must be 'ccl-ring==VERSION'"),
        ({"install": "--index-url=https://example.org ccl-ring"}, "install must be"),
        ({"install": ""}, "install must be"),
        ({"repository": "javascript:alert()"}, "repository must begin with https://"),
        ({"summary": "one | two"}, "summary must be one line"),
        ({"license": ""}, "license must be one line"),
        ({"more": 1}, "an entry has name, summary"),
    ],
)
def test_a_wrong_entry_is_refused(change, message):
    with pytest.raises(directory.WrongEntry, match=message):
        directory.entries(as_toml({**RING, **change}))


def test_an_entry_is_listed_once_and_in_order():
    for names in (("ccl-b", "ccl-a"), ("ccl-a", "ccl-a")):
        given = [{**RING, "name": name, "install": f"{name}==1"} for name in names]
        with pytest.raises(directory.WrongEntry, match="in the order of their names"):
            directory.entries(as_toml(*given))


@pytest.mark.parametrize(
    ("fails", "kinds", "said"),
    [
        ("", ["kernel"], "passed"),
        ("pip", ["kernel"], "pip install ccl-ring==1.0 failed"),
        ("check", ["kernel"], "ccl check ccl-ring failed"),
        (
            "",
            ["kernel", "method"],
            r"its kinds are ['kernel', 'method'], and the entry has ['kernel']",
        ),
        ("", [], "its kinds are []"),
    ],
)
def test_a_check_installs_an_entry_and_fails_with_it(
    monkeypatch, tmp_path, capsys, fails, kinds, said
):
    called = []

    def run(words, **_):
        called.append(words[2])
        rows = [{"plugin": "ccl-ring", "kind": kind} for kind in kinds]
        failed = fails in words if fails else False
        return subprocess.CompletedProcess(words, int(failed), json.dumps(rows))

    monkeypatch.setattr(directory.subprocess, "run", run)
    monkeypatch.setattr(directory, "DATA", tmp_path / "plugins.toml")
    directory.DATA.write_text(as_toml(RING))
    assert directory.main(["--check", "ccl-ring"]) == int(said != "passed")
    assert f"ccl-ring: {said}" in capsys.readouterr().out
    assert called[0] == "pip"
    assert directory.main(["--check", "ccl-gone"]) == 2
    assert directory.main(["--names"]) == 0
    assert json.loads(capsys.readouterr().out) == ["ccl-ring"]
