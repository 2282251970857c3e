"""Arrows run one way, and what must stay light stays light."""

from __future__ import annotations

import ast
import builtins
import graphlib
import re
import subprocess
import sys
import tomllib

import pytest
from support.imports import ROOT, modules

from ccl_plugins.kinds import FOLDERS, HEAVY

PAGE = (ROOT / "docs" / "explanation" / "design.md").read_text("utf-8")
ROWS = re.findall(r"^\| \d+ \| (.*) \|$", PAGE, re.MULTILINE)
LAYERS = [
    re.findall(r"`(\w+)(?:\.py)?`", row.replace("`ccl_plugins`", "")) for row in reversed(ROWS)
]
"""Files and folders of the package, from the table of the page about the design.

Each imports those of the layers before it, and some of its own.
"""

ENGINE = {
    "hooks": {"protocols"},
    "kinds": {"hooks", "protocols"},
}
"""Beside the layers: the hooks, the kinds, and what of the package they import."""

ENGINE_FROM = 7
"""The first of the layers that may use these and the registry: what stands before works without."""

MISTAKES = "ccl_registry.errors"
"""What of the registry stands below all layers: the root of errors that a user can mend."""

ANNEXES = {
    "explore": set(),
    "report": set(),
    "sharing": {"report"},
    "start": {"explore"},
    "sweep": {"explore", "report"},
    "__init__": {"report"},
}
"""What stands around the core, and the face: the annexes that each imports."""

NEIGHBORS = {
    "files": {"arguments"},
    "networks": {"arguments", "files"},
    "protocols": {"pairs"},
    "metadata": {"protocols"},
    "methods": {"objectives"},
    "__main__": {"__init__"},
}
"""What a part imports of its own layer."""

BASES = {
    "Annotated",
    "ContrastiveObjective",
    "Exclude",
    "Failed",
    "FeatureQueue",
    "Guide",
    "GuideHead",
    "InMemory",
    "LightlyTransform",
    "LoRA",
    "MomentumEncoder",
    "QueuedLoss",
    "Scalar",
    "ScalarAttribute",
    "TextTable",
    "WarmUp",
    "WithQueue",
    "add_format",
    "add_json",
    "add_runs",
    "add_set",
    "count_epochs",
    "estimate",
    "figure",
    "mean",
    "mlp_head",
    "of_known_classes",
    "of_present_samples",
    "over_rows",
    "reporting_mistakes",
    "save",
    "show",
    "styled",
    "svg",
    "uniforms",
}
"""Exported beside the components, for authors to build on."""

PACKAGE = modules("ccl_plugins")
PARTS = sorted({*ENGINE, *(part for layer in LAYERS for part in layer)})


def part(module):
    """The file or folder of the package that a module is in."""
    return module.removeprefix("ccl_plugins").lstrip(".").partition(".")[0] or "__init__"


def ours(imports):
    return {i.name for i in imports if i.name.partition(".")[0] == "ccl_plugins"}


def imported(name):
    """The parts that a part imports, anywhere in its modules."""
    members = [imports for module, imports in PACKAGE.items() if part(module) == name]
    assert members
    return {part(target) for imports in members for target in ours(imports)} - {name}


def allowed(name):
    if name in ENGINE:
        return ENGINE[name]
    number = next(i for i, layer in enumerate(LAYERS) if name in layer)
    below = {part for layer in LAYERS[:number] for part in layer}
    doors = {*ENGINE} if number >= ENGINE_FROM else set()
    return below | doors | NEIGHBORS.get(name, set())


def test_the_table_names_every_part():
    found = {part(module) for module in PACKAGE}
    assert found == {*PARTS}


def test_the_page_about_the_design_draws_the_folders_of_the_code():
    folders = {path.parent.name for path in (ROOT / "ccl_plugins").glob("*/__init__.py")}
    assert {*re.findall(r"^  (\w+)/ {2,}\S", PAGE, re.MULTILINE)} == folders


@pytest.mark.parametrize("name", PARTS)
def test_arrows_run_one_way(name):
    """Imports for type checkers and those inside functions count too."""
    assert imported(name) <= allowed(name)


@pytest.mark.parametrize("name", PARTS)
def test_the_core_imports_no_annex(name):
    assert imported(name) & {*ANNEXES} - {"__init__"} == ANNEXES.get(name, set())


def test_no_module_imports_itself_by_a_detour():
    arrows = {m: ours(imports) - {m} for m, imports in PACKAGE.items()}
    # A folder's face imports what is in it, and is imported before it: that is how packages work.
    arrows = {m: {t for t in to if not m.startswith(f"{t}.")} for m, to in arrows.items()}
    assert tuple(graphlib.TopologicalSorter(arrows).static_order())


def test_the_registry_stands_on_the_standard_library_and_pluggy():
    for module, imports in modules("ccl_registry").items():
        absolute = {i.name.partition(".")[0] for i in imports if not i.relative}
        assert absolute <= {*sys.stdlib_module_names, "pluggy"}, module


ACCIDENTS = {"Broken", "CannotBeSent", "Failed", "LostProcess", "NotFinite", "RunInterrupted"}
"""The exceptions of the package whose cause is nothing that a user has written."""


def test_what_a_user_can_mend_is_a_mistake():
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "ccl_plugins").rglob("*.py")]
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    bases = {node.name: {ast.unparse(base) for base in node.bases} for node in nodes}
    builtin = {name for name, value in vars(builtins).items() if hasattr(value, "__traceback__")}
    mistakes = {"Mistake", "engine.Mistake"}
    assert {
        name for name in bases if bases[name] & builtin and not bases[name] & mistakes
    } == ACCIDENTS


def test_components_and_what_they_stand_on_work_without_the_registry():
    users = {*ENGINE, *(name for layer in LAYERS[ENGINE_FROM:] for name in layer)}
    naming = {
        module
        for module, imports in PACKAGE.items()
        if any(
            each.name.partition(".")[0] == "ccl_registry" and each.name != MISTAKES
            for each in imports
        )
    }
    assert {part(module) for module in naming} <= users


@pytest.mark.parametrize(
    "code",
    [
        "import ccl_plugins",
        "import ccl_plugins as ccl; dir(ccl.kernel); str(ccl.list()); ccl.list()._repr_html_()",
        "from ccl_plugins.cli import main; assert main(['list']) == 0",
        "from ccl_plugins.cli import main; assert main(['doctor']) == 0",
        "from ccl_plugins.cli import read_command; read_command('train')[1].format_help()",
    ],
)
def test_what_must_be_quick_loads_nothing_heavy(code, tmp_path):
    asked = f"\nimport sys; print(); print([m for m in {[*HEAVY, 'numpy']} if m in sys.modules])"
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
    if kind == "command":  # of which only the one that is called is imported
        declared = set()
    tree = ast.parse((ROOT / "ccl_plugins" / folder / "__init__.py").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = [(node.module, alias) for node in imports for alias in node.names]
    assert all(alias.asname == alias.name for _, alias in names), "exports are written `X as X`"
    assert {f"{m}:{alias.name}" for m, alias in names if alias.name not in BASES} == declared
