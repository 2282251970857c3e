"""What is known of a component without importing it: its summary, and whether its module exists."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from .quoting import escaped

_CLASS = re.compile(
    r"""^class[ ]+(\w+)[ ]*
    (?:\([^()"'#]{0,500}\))?[ ]*:[ ]*\n
    [ ]+[rR]?\"{3}([^\s"\\][^\n"\\]*)(?:\n|\"{3})""",
    re.MULTILINE | re.VERBOSE,
)
"""A class as most are written, with the first line of its docstring: a twentieth of the time of parsing."""


class Sources:
    """The source files of components, located and read once each, however many components they hold."""

    def __init__(self) -> None:
        self._located: dict[str, ModuleSpec | str | None] = {}
        self._texts: dict[str, str] = {}
        self._quick: dict[str, dict[str, str]] = {}
        self._parsed: dict[str, dict[str, str]] = {}

    def summary(self, target: str) -> str:
        """The first line of the docstring of ``"module:Class"``; empty if it cannot be read."""
        module, path = target.split(":")
        located = self._locate(module)
        if not isinstance(located, ModuleSpec) or not str(located.origin).endswith(".py"):
            return ""
        file = str(located.origin)
        if file not in self._texts:
            self._texts[file] = _text(file)
            self._quick[file] = {each[1]: each[2] for each in _CLASS.finditer(self._texts[file])}
        if path not in self._quick[file] and file not in self._parsed:
            self._parsed[file] = dict(_summaries(self._texts[file]))
        doc = self._quick[file].get(path) or self._parsed[file].get(path, "")
        return escaped(doc.strip())

    def missing_module(self, target: str) -> str:
        """Why the module of ``"module:Class"`` cannot be imported; empty if it exists."""
        module, _ = target.split(":")
        located = self._locate(module)
        if located is None:
            return f"its module {module} is missing"
        return ""

    def _locate(self, module: str) -> ModuleSpec | str | None:
        """The location of a module, None without one, or why it cannot be looked up."""
        if module not in self._located:
            try:
                self._located[module] = self._find(module)
            except (ImportError, ValueError):  # a module without a spec
                self._located[module] = ""
        return self._located[module]

    def _find(self, module: str) -> ModuleSpec | None:
        """The location of a module.  `find_spec` on a dotted name would import its packages."""
        package, _, name = module.rpartition(".")
        if not package:
            # A top-level name is looked up without being executed, by the finders of editable installs too.
            return find_spec(name)
        parent = self._locate(package)
        if not isinstance(parent, ModuleSpec) or parent.submodule_search_locations is None:
            return None
        return PathFinder.find_spec(f"{parent.name}.{name}", parent.submodule_search_locations)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ""  # a listing must not fail; choosing the component will say what is wrong


def _summaries(text: str) -> Iterator[tuple[str, str]]:
    """The first line of each docstring in a source, by the dotted name of its class or function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of another author's source, such as "\d" in a string
            body = ast.parse(text).body
        yield from _of(body, "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def _of(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            doc = (ast.get_docstring(node) or "").partition("\n")[0]
            yield f"{prefix}{node.name}", doc
            if isinstance(node, ast.ClassDef):
                yield from _of(node.body, f"{prefix}{node.name}.")
