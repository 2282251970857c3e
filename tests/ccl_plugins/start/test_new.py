"""`ccl new` writes a package that installs, is listed and passes its own tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial

import pytest
from support import programs
from support.imports import ROOT
from support.installed_plugins import install_packages

from ccl_plugins.cli import main
from ccl_plugins.kinds import KINDS, registry
from ccl_plugins.start.new import read_names, render

AUTHOR = 'Ada "Countess" Lovelace \\ Åström 🎲'


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A package for every kind, in one folder."""
    folder = tmp_path_factory.mktemp("new")
    for kind in KINDS:
        words = ["--kind", kind.name, "--out", str(folder), "--author", AUTHOR]
        hooks = ["--hooks"] * (kind.name == "kernel")
        assert main(["new", f"ccl-made-{kind.name}", *words, *hooks]) == 0
    return folder


@pytest.fixture(scope="module")
def installed(packages, tmp_path_factory):
    """A function that runs Python with all packages installed."""
    target = tmp_path_factory.mktemp("target")
    install_packages(dict.fromkeys(packages.iterdir(), target))

    env = {**os.environ, "PYTHONPATH": str(target)}
    return partial(programs.run, env=env, cwd=packages, timeout=300)


def test_a_package_of_every_kind_is_listed_with_its_summary(installed):
    rows = json.loads(installed("-m", "ccl_plugins", "list", "--json").stdout)
    made = {row["kind"]: row for row in rows if row["plugin"].startswith("ccl-made-")}
    assert made.keys() == {kind.name for kind in KINDS}
    for kind, row in made.items():
        assert row["name"] == f"made_{kind}"
        assert row["summary"].endswith(".")


@pytest.mark.parametrize(
    "some",
    [
        pytest.param(["ccl-made-kernel", "ccl-made-sampler"], id="two"),
        pytest.param([], id="all", marks=pytest.mark.slow),
    ],
)
def test_a_package_of_every_kind_passes_its_own_tests(installed, some):
    options = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", *some]
    done = installed("-m", "pytest", *options)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed >= 10 * (len(some) or len(KINDS))  # the laws of each kind are more


def test_the_tests_of_a_package_are_right_of_the_class_that_replaces_its_own(packages, tmp_path):
    folder = shutil.copytree(packages / "ccl-made-kernel", tmp_path / "ccl-made-kernel")
    module = folder / "src" / "ccl_made_kernel"
    (module / "made_kernel.py").write_text("class Ring:\n    pass\n")
    (module / "__init__.py").write_text("from ccl_made_kernel.made_kernel import Ring as Ring\n")
    options = ["-q", "-p", "no:cacheprovider", "tests/test_made_kernel.py"]
    env = {**os.environ, "PYTHONPATH": str(module.parent)}
    done = programs.run("-m", "pytest", *options, env=env, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]


def test_together_they_are_a_pipeline_that_trains(installed, tmp_path):
    code = f"""
import ccl_plugins as ccl
pipeline = ccl.Pipeline(
    dataset=ccl.dataset("made_dataset", samples=64, size=16),
    backbone=ccl.backbone("made_backbone", width=4),
    transform="made_transform",
    method=ccl.method("made_method", dim=8, queue_size=32),
    sampler="made_sampler",
    condition="made_condition",
    objective=ccl.objective(
        "mixture", objectives=["made_objective", ccl.objective("fair_cclk", kernel="made_kernel")]
    ),
    evaluate=["made_evaluator"],
    loggers=["made_logger"],
    fit={{"optimizer": "made_optimizer", "schedule": {{"use": "made_schedule", "scale": 10.0}}}},
)
run = pipeline.fit(epochs=1, batch_size=16, workers=0, out={str(tmp_path)!r}, progress=False)
record = ccl.load({str(tmp_path)!r}).record
print(*run.evaluate(), *record["versions"], *record["callbacks"])
"""
    done = installed("-c", code)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "numbers.db").is_file()
    metric, *plugins = done.stdout.splitlines()[-1].split()
    assert metric == "made_evaluator/top1"
    parts = {f"ccl-made-{kind}" for kind in re.findall(r'"made_(\w+)"', code)}
    assert sorted(plugins) == sorted(["ccl-plugins", *parts])


def test_what_is_written_is_formatted_and_without_lint(packages):
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", str(packages)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout


def test_the_author_is_named_in_license_and_metadata(packages):
    package = packages / "ccl-made-kernel"

    assert f" {AUTHOR}\n" in (package / "LICENSE").read_text("utf-8")
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["authors"] == [{"name": AUTHOR}]


def test_the_workflow_runs_what_the_readme_says(packages):
    workflow = (packages / "ccl-made-kernel/.github/workflows/ci.yml").read_text()
    assert "python-version: ${{ matrix.python }}" in workflow
    readme = (packages / "ccl-made-kernel/README.md").read_text()
    for command in ("pip install -e '.[dev]'", "pytest", "ruff check .", "mypy"):
        assert command in workflow
        assert command in readme


@pytest.mark.parametrize("existing", ["ccl-ring/notes.txt", "ccl-ring"])
def test_what_exists_is_left_as_it_is(tmp_path, capsys, existing):
    path = tmp_path / existing
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    assert main(["new", "ccl-ring", "--kind", "kernel", "--out", str(tmp_path)]) == 2
    assert "ccl-ring already exists; nothing was written" in capsys.readouterr().err
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "where", "component"),
    [
        ("ccl-ring", ".", "my_objective"),
        ("ccl-ring", "ccl-ring", "my_objective"),
        ("ccl-mine-too", "ccl-ring", "mine_too"),
    ],
)
def test_to_a_package_that_exists_a_component_is_added_by_hand(
    tmp_path, capsys, monkeypatch, name, where, component
):
    """The line that the message has is one that makes the component known."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "ccl-ring", "--kind", "kernel"]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["new", name, "--kind", "objective", "--out", where]) == 2
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    told = capsys.readouterr().err
    assert "'ccl-ring' is a package already, and is not changed" in told
    line, table = re.search(r"add the line (.*) to the table (\[.*\]) of its", told).groups()
    points = tomllib.loads(f"{table}\n{line}")["project"]["entry-points"]
    target = f"ccl_ring.{component}:{component.title().replace('_', '')}"
    assert points == {"ccl_plugins.objective": {component: target}}


def test_to_an_installed_package_a_component_is_added_by_hand(install_plugin, tmp_path, capsys):
    install_plugin("ccl-ring", {"ccl_plugins.kernel": {"ring": "ccl_plugins.kernels:RBF"}})
    assert main(["new", "ccl-ring", "--kind", "sampler", "--out", str(tmp_path / "new")]) == 2
    assert "'ccl-ring' is a package already" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_new_package_may_stand_in_a_folder_that_is_a_project_without_plugins(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "all"\n')
    assert main(["new", "ccl-ring", "--kind", "kernel", "--out", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../ring", "'../ring' cannot name a package: it must be lower-case letters"),
        ("/etc/ring", "as in 'etc-ring'"),
        ("My_Ring", "as in 'my-ring'"),
        ("ccl--ring", "single dashes"),
        ("9lives", "as in 'lives'"),
        ("", "as in 'ccl-ring'"),
        ("ring\n", "cannot name a package"),
        ("r" * 61, "cannot name a package"),
        ("ccl-class", "a component called 'class', which is not a Python name"),
        ("ccl-9", "a component called '9', which is not a Python name"),
        ("json", "would hide the module 'json'"),
        ("torch", "would hide the module 'torch', which already exists"),
        ("ccl-plugins", "would hide the module 'ccl_plugins'"),
        ("ccl-rbf", "'rbf' is a built-in kernel"),
    ],
)
def test_an_impossible_name_is_refused_with_a_possible_one(tmp_path, capsys, name, message):
    assert main(["new", name, "--kind", "kernel", "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_unknown_kind_is_refused_with_the_nearest(tmp_path, capsys):
    assert main(["new", "ccl-ring", "--kind", "kernal", "--out", str(tmp_path)]) == 2
    assert "no kind 'kernal'. Did you mean 'kernel'?" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_author_of_several_lines_is_refused():
    names = read_names(registry(), "ccl-ring", "kernel")
    with pytest.raises(ValueError, match="the author must be one line of text"):
        render(names, author="Ada\nEve", version="1.2.3")


def test_a_package_asks_for_the_release_it_was_written_for():
    texts = render(read_names(registry(), "ccl-ring", "kernel"), version="1.2.3")
    project = tomllib.loads(texts["pyproject.toml"])["project"]
    assert project["dependencies"] == ["ccl-plugins>=1.2"]


def test_a_wheel_holds_the_templates(tmp_path):
    source = tmp_path / "source"  # a copy, as building leaves files behind
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    for folder in ("ccl_plugins", "registry"):
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    install_packages({source: tmp_path / "installed"})
    wanted = [*(ROOT / "ccl_plugins/start/templates").iterdir(), *ROOT.glob("*/py.typed")]
    assert all((tmp_path / "installed" / path.relative_to(ROOT)).is_file() for path in wanted)
