"""Arrows run one way, and what must stay light stays light."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
import tomllib

import pytest
from imports import ROOT, modules

from ccl_plugins.kinds import FOLDERS

UPPER = {"objectives", "samplers", "methods"}
"""Kinds whose components may be made of others; those of the rest know their own kind alone."""

ENGINE_SIDE = {"_engine", "hooks", "kinds", "pipeline", "run", "launch", "cli", "record"}
"""What speaks of components by name; a component works without any of it."""

HEAVY = ["torch", "numpy", "lightly", "timm", "pytorch_lightning", "sklearn", "matplotlib"]

BASES = {"ContrastiveObjective", "InMemory", "LightlyViews", "Scalar", "ScalarAttribute"}
"""Exported beside the components, for authors to build on."""

PACKAGE = modules("ccl_plugins")


def part(module):
    """The file or folder of the package that a module is in; empty for the face."""
    return module.removeprefix("ccl_plugins").lstrip(".").partition(".")[0]


def ours(imports):
    return {i.name for i in imports if i.name.partition(".")[0] == "ccl_plugins"}


def reached(start):
    """Every module that importing some modules leads to, functions included."""
    seen, todo = set(), set(start)
    while todo:
        module = todo.pop()
        seen.add(module)
        todo |= ours(PACKAGE.get(module, [])) - seen
    return seen


def test_the_registry_stands_on_the_standard_library_and_pluggy():
    for module, imports in modules("registry").items():
        absolute = {i.name.partition(".")[0] for i in imports if not i.relative}
        assert absolute <= {*sys.stdlib_module_names, "pluggy"}, module


def test_one_module_names_the_registry():
    naming = set()
    for path in (ROOT / "ccl_plugins").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [
                alias.name for alias in getattr(node, "names", []) if isinstance(node, ast.Import)
            ]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "registry" for name in names):
                naming.add(path.name)
    assert naming == {"_engine.py"}


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_components_never_reach_the_engine(folder):
    members = [module for module in PACKAGE if part(module) == folder]
    assert members
    found = {part(module) for module in reached(members)}
    assert not found & {*ENGINE_SIDE, ""}


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_a_kind_uses_its_own_folder_and_those_below(folder):
    members = [module for module in PACKAGE if part(module) == folder]
    lower = set(FOLDERS.values()) - UPPER if folder in UPPER else set()
    used = {part(module) for module in reached(members)} & set(FOLDERS.values())
    assert used <= {folder, *lower}


def test_what_components_share_knows_no_component():
    shared = {"protocols", "pairs", "numerics", "information"}
    assert not {part(m) for m in reached(f"ccl_plugins.{s}" for s in shared)} & {*FOLDERS.values()}


def test_training_works_on_built_objects():
    found = {part(m) for m in reached(m for m in PACKAGE if part(m) == "training")}
    assert not found & {*ENGINE_SIDE, ""}


def test_no_module_imports_itself_by_a_detour():
    arrows = {m: ours(i for i in imports if not i.late) - {m} for m, imports in PACKAGE.items()}
    # A folder's face imports what is in it, and is imported before it: that is how packages work.
    arrows = {m: {t for t in to if not m.startswith(f"{t}.")} for m, to in arrows.items()}
    assert tuple(graphlib.TopologicalSorter(arrows).static_order())


@pytest.mark.parametrize(
    "code",
    [
        "import ccl_plugins",
        "import ccl_plugins as ccl; dir(ccl.kernel); str(ccl.list()); ccl.list()._repr_html_()",
        "from ccl_plugins.cli import main; assert main(['list']) == 0",
        "from ccl_plugins.cli import main; assert main(['doctor']) == 0",
    ],
)
def test_what_must_be_quick_loads_nothing_heavy(code, tmp_path):
    asked = f"\nimport sys; print(); print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + asked],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr


def test_importing_the_package_does_not_read_metadata(tmp_path):
    code = "import ccl_plugins, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert not {"importlib.metadata", "argparse", "difflib", "json"} & set(done.stdout.split())


@pytest.mark.parametrize(("kind", "folder"), FOLDERS.items())
def test_a_folder_exports_what_is_declared(kind, folder):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = set(project["entry-points"][f"ccl_plugins.{kind}"].values())
    tree = ast.parse((ROOT / "ccl_plugins" / folder / "__init__.py").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = [(node.module, alias) for node in imports for alias in node.names]
    assert all(alias.asname == alias.name for _, alias in names), "exports are written `X as X`"
    assert {f"{m}:{alias.name}" for m, alias in names if alias.name not in BASES} == declared
