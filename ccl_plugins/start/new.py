"""``ccl new``: a package with a first component and its tests, from templates."""

from __future__ import annotations

import argparse
import importlib.util
import json
import keyword
import re
import sys
import tomllib
from dataclasses import asdict, dataclass
from datetime import date
from importlib import metadata, resources
from pathlib import Path
from string import Template

import ccl_registry as engine
from ccl_plugins.commands.base import KIND_NAMES, reporting_mistakes
from ccl_plugins.kinds import registry

PREFIX = "ccl-"

FILES = {
    "pyproject.toml": "pyproject",
    "README.md": "readme",
    "LICENSE": "license",
    ".gitignore": "gitignore",
    ".github/workflows/ci.yml": "ci",
    "src/$module/__init__.py": "package",
    "src/$module/py.typed": "typed",
    "src/$module/$component.py": "$kind",
    "tests/test_conformance.py": "test_conformance",
    "tests/test_$component.py": "test_examples",
}
"""The files of a package, and the templates they are made from."""

HOOKS = {"src/${module}_hooks.py": "hooks"}
"""The files of a module of hooks, in addition to the package."""

HOOKS_GROUP = """
# Hooks are in a module beside the package, since it is imported at every start, without torch.
[project.entry-points."ccl_plugins.hooks"]
main = "${module}_hooks"

[tool.setuptools]
package-dir = { "" = "src" }
py-modules = ["${module}_hooks"]
"""

_ELSE = "if another plug-in offers this name too."
USES = {
    "command": f"On the command line: `ccl $command`, or `ccl $distribution/$component` {_ELSE}",
    "figure": "On the command line: `ccl figures RUN --figure $component`. A report has it too.",
}
"""The use of components that no pipeline names, by kind."""

IN_A_PIPELINE = (
    'In a pipeline\'s TOML file: `use = "$component"`, or `use = "$distribution/$component"`'
    f" {_ELSE}"
)


class New:
    """Write a package that offers a component of a kind, with tests that pass."""

    example = "ccl new ccl-ring --kind kernel"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="DIST", help="the name of the package, for pip install")
        parser.add_argument("--kind", required=True, metavar="KIND", help=f"one of: {KIND_NAMES}")
        parser.add_argument(
            "--out", default=".", metavar="FOLDER", help="write FOLDER/DIST (default: %(default)s)"
        )
        words = "add a module of hooks, such as for callbacks, beside the component's package"
        parser.add_argument("--hooks", action="store_true", help=words)
        parser.add_argument(
            "--author", default="", metavar="NAME", help="the name in the package's license"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        out = Path(arguments.out).expanduser()
        with reporting_mistakes():
            refuse_package(out, arguments.name, arguments.kind)
            names = read_names(registry(), arguments.name, arguments.kind)
            version = metadata.version("ccl-plugins")
            texts = render(names, author=arguments.author, version=version, hooks=arguments.hooks)
        folder = out / names.distribution
        write(folder, texts)
        print(f"{folder}: the {names.kind} {names.component!r}")
        print(*(f"  {path}" for path in texts), sep="\n")
        print(f"next:\n  cd {folder}\n  pip install -e '.[dev]'\n  pytest")
        return 0


def refuse_package(out: Path, name: str, kind: str) -> None:
    """Refuse to write into or over a package of plug-ins; a component is added to it by hand.

    Args:
        out: The folder in which the new package would be written.
        name: The name of the new package, or of the existing one.
        kind: The kind of the component.

    Raises:
        UnknownComponent: For an unknown kind.
        ValueError: If ``out``, or the folder ``name`` in it, is such a package, or one of this name is
            installed; the message has the lines to add.
    """
    kind = registry().kind(kind).name
    installed = {plugin.name for plugin in registry().plugins} - {registry().host}
    package = _package_in(out) or _package_in(out / name) or (name if name in installed else None)
    if package is None:
        return
    component = f"my_{kind}" if name == package else re.sub(r"\W+", "_", name.removeprefix(PREFIX))
    module = f"{package.replace('-', '_')}.{component}"
    raise ValueError(
        f"{package!r} is a package already, and is not changed. To add a {kind} to it, write a class"
        f" {_class_name(component)} in the module {module}, add the line"
        f' {component} = "{module}:{_class_name(component)}" to the table'
        f' [project.entry-points."ccl_plugins.{kind}"] of its pyproject.toml, and run pip install -e . in'
        " its folder again. A package of another name, written elsewhere (--out), has a class to start from"
    )


def _package_in(folder: Path) -> str | None:
    """The name of the package of plug-ins in a folder; None if there is none."""
    try:
        tables = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
        project = tables["project"]
        plugs = any(group.startswith("ccl_plugins.") for group in project["entry-points"])
        return engine.normalize(project["name"]) if plugs else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # there is no such file, or it is no package's


@dataclass(frozen=True)
class Names:
    """The names in a package, as templates use them."""

    distribution: str  # for pip install
    module: str  # for import
    component: str  # for ccl.<kind>
    class_name: str
    kind: str


def read_names(registry: engine.Registry, distribution: str, kind: str) -> Names:
    """The names in a package: ``ccl-my-ring`` gives ``ccl_my_ring``, ``my_ring`` and ``MyRing``.

    Args:
        registry: The registry of kinds and built-ins.
        distribution: Lower-case words and digits with dashes between; the prefix ``ccl-`` is not
            part of the component's name.
        kind: The kind of the component.

    Raises:
        UnknownComponent: For an unknown kind.
        ValueError: For a name that cannot be a distribution, a module and a component, or is the name of
            another module or of a built-in.
    """
    kind = registry.kind(kind).name
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", distribution) or len(distribution) > 60:
        near = re.sub(r"[^a-z0-9]+", "-", distribution.lower()).strip("-0123456789")[:60]
        raise ValueError(
            f"{distribution!r} cannot name a package: it must be lower-case letters, digits and single"
            f" dashes, starting with a letter, as in {near.rstrip('-') or 'ccl-ring'!r}"
        )
    module = distribution.replace("-", "_")
    component = distribution.removeprefix(PREFIX).replace("-", "_")
    if not re.fullmatch(r"[a-z]\w*", component) or keyword.iskeyword(component):
        raise ValueError(
            f"{distribution!r} would offer a component called {component!r}, which is not a Python name:"
            " add a word, as in 'ccl-my-ring'"
        )
    if module in sys.stdlib_module_names or importlib.util.find_spec(module) is not None:
        raise ValueError(
            f"{distribution!r} would hide the module {module!r}, which already exists: choose another"
            f" name, such as {PREFIX + distribution!r}"
        )
    if any(s.name == component and s.plugin == registry.host for s in registry.specs(kind)):
        raise ValueError(
            f"{component!r} is a built-in {kind}, and the bare name always means the built-in: choose"
            f" another name, such as {PREFIX + 'my-' + component.replace('_', '-')!r}"
        )
    return Names(distribution, module, component, _class_name(component), kind)


def _class_name(component: str) -> str:
    return "".join(word.capitalize() for word in component.split("_"))


def render(names: Names, *, author: str = "", version: str, hooks: bool = False) -> dict[str, str]:
    """The text of every file of a package, by path.

    Args:
        names: The names in it.
        author: The author in the license; by default ``The <distribution> authors``.
        version: The version of ccl-plugins that the package requires.
        hooks: Whether it has a module of hooks.

    Raises:
        ValueError: For an author of several lines.
    """
    author = author or f"The {names.distribution} authors"
    if not author.isprintable():
        raise ValueError(f"the author must be one line of text, not {author!r}")
    values = {
        **asdict(names),
        "command": names.component.replace("_", "-"),
        "author": author,
        "author_toml": json.dumps(author, ensure_ascii=False),  # JSON and TOML quote alike
        "year": str(date.today().year),
        "release": ".".join(version.split(".")[:2]),
    }
    values["use"] = Template(USES.get(names.kind, IN_A_PIPELINE)).substitute(values)
    values["hooks_group"] = Template(HOOKS_GROUP if hooks else "").substitute(values)
    folder = resources.files("ccl_plugins.start") / "templates"

    def fill(text: str) -> str:
        return Template(text).substitute(values)

    return {
        fill(path): fill((folder / f"{fill(name)}.txt").read_text(encoding="utf-8"))
        for path, name in {**FILES, **(HOOKS if hooks else {})}.items()
    }


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write the files of a package into a new folder.

    Raises:
        FileExistsError: If the folder, or a file of its name, exists; it is not changed.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FileExistsError(f"{folder} already exists; nothing was written") from None
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
