"""What is installed, built and written about it agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.imports import ROOT, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


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


def test_the_citation_has_the_version_and_the_changelog_begins_with_it_or_with_what_is_unreleased():
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] in ("Unreleased", version)


def test_the_command_is_installed():
    scripts = metadata.distribution("ccl-plugins").entry_points.select(group="console_scripts")
    assert {s.name: s.value for s in scripts} == PROJECT["scripts"]


WRITERS = {"torch.utils.tensorboard": "tensorboard"}
"""Modules of torch that stand on packages which it does not need itself."""


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    imported = {
        WRITERS.get(each.name, each.name).partition(".")[0]
        for package in ("ccl_plugins", "ccl_registry")
        for imports in modules(package).values()
        for each in imports
        if not each.relative
    }
    ours = {"ccl_plugins", "ccl_registry", "pytest", *sys.stdlib_module_names}
    providers = metadata.packages_distributions()
    found = {
        canonicalize_name(name) for each in imported - ours for name in providers.get(each, ())
    }
    extras = set().union(*map(names, PROJECT["optional-dependencies"].values()))
    needed = names(PROJECT["dependencies"])
    assert found <= needed | extras, found - needed - extras
    assert needed <= found, needed - found


def test_every_dependency_is_defended():
    page = (ROOT / "docs" / "evidence" / "benchmarks" / "light.md").read_text("utf-8")
    defended = re.findall(r"^\| `([\w-]+)` \| [A-Z`].*\. \|", page, re.MULTILINE)
    assert {*defended} == names(PROJECT["dependencies"]), "python docs/evidence/benchmarks/light.py"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_asks_for_the_least(path):
    """It may read; a job that writes has an environment; actions have versions, and jobs a limit."""
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert {"name", True, "jobs"} <= workflow.keys()  # YAML reads the key `on` as true
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        writes = {name for name, right in job.get("permissions", {}).items() if right == "write"}
        assert not writes or "environment" in job
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"])


def test_the_workflows_try_every_python_and_every_plug_in():
    tests, plugins = (
        yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8"))["jobs"]
        for name in ("tests", "plugins")
    )
    tried = {"3.11", *tests["pythons"]["strategy"]["matrix"]["python"]}
    assert {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if ":: 3." in c} <= tried
    folders = {path.parent.name for path in (ROOT / "examples/plugins").glob("*/pyproject.toml")}
    assert {*plugins["plugin"]["strategy"]["matrix"]["name"]} == folders


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()))
def test_an_issue_form_asks_something(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    assert all({"type", "id", "attributes"} <= each.keys() for each in form["body"])
    assert any(each.get("validations", {}).get("required") for each in form["body"])


def test_the_hooks_before_a_commit_are_tools_of_the_gate():
    (own,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    gate = (ROOT / ".ci" / "run").read_text("utf-8")
    assert own["repo"] == "local"
    assert {each["entry"].split()[0] for each in own["hooks"]} == {"ruff", "mypy"}
    assert all(re.search(rf"^{each['entry'].split()[0]}\b", gate, re.M) for each in own["hooks"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive, and the wheel built from it."""
    if not (find_spec("build") and find_spec("twine")):
        pytest.skip('needs pip install -e ".[release]"')
    out, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    program(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source))
    return out


def program(*command: str, cwd: Path | None = None, **variables: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CCL_", "PYTEST_"))}
    done = subprocess.run(
        command, cwd=cwd, env={**env, **variables}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_what_is_built_passes_twine(built):
    program(sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir()))


@pytest.mark.slow
def test_the_archives_hold_the_packages_and_their_data_alone(built):
    tracked = subprocess.run(
        ["git", "ls-files", "ccl_plugins", "registry"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split()
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        inside = {name for name in file.namelist() if ".dist-info/" not in name}
        licenses = [name for name in file.namelist() if name.endswith("licenses/LICENSE")]
    assert inside == {name.removeprefix("registry/") for name in tracked}
    assert len(licenses) == 1
    assert wheel.stat().st_size < 2**21
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        sources = {name.partition("/")[2] for name in file.getnames()}
    assert {*tracked, "pyproject.toml", "README.md", "LICENSE"} <= sources
    assert {name.partition("/")[0] for name in sources} <= {
        *("", "ccl_plugins", "registry", "ccl_plugins.egg-info", "LICENSE", "MANIFEST.in"),
        *("PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"),
    }
    assert archive.stat().st_size < 2**21


@pytest.mark.slow
def test_the_wheel_trains_in_an_environment_of_its_own(built, tmp_path):
    """Which sees the dependencies of this one, and this checkout not."""
    venv.create(tmp_path / "env", with_pip=False)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    # Their folders, and not the paths in them, which lead to editable installations.
    folders = {
        str(Path(metadata.distribution(each).locate_file("")).resolve())
        for each in names(PROJECT["dependencies"])
    }
    (site / "dependencies.pth").write_text("\n".join(sorted(folders)))
    python = str(tmp_path / "env" / "bin" / "python")
    alone = {"cwd": tmp_path, "PYTHONPATH": "", "OMP_NUM_THREADS": "1"}
    asked = "import ccl_plugins, ccl_registry; print(ccl_plugins.__file__, ccl_registry.__file__)"
    where = program(python, "-c", asked, **alone).split()
    assert all(Path(each).is_relative_to(site) for each in where), where
    example = str(ROOT / "examples" / "grating_digits_fair.toml")
    words = ["ccl_plugins", "train", example, "--set", "fit.epochs=1", "--set", "fit.max_steps=1"]
    assert "angle/r2" in program(python, "-m", *words, **alone)
    assert (tmp_path / "runs" / "grating_digits_fair" / "metrics.json").is_file()
