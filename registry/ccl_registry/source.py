"""Facts about a component without importing it: its summary, and whether its module exists."""

from __future__ import annotations

import ast
import functools
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
"""A class in the usual form, with the first line of its docstring: this takes a twentieth of the
time of parsing."""


class Sources:
    """The source files of components, located and read once each, however many components they hold."""

    def __init__(self) -> None:
        self._locate = functools.cache(self._located)
        self._summaries = functools.cache(_Summaries)

    def summary(self, target: str) -> str:
        """The first line of the docstring of ``"module:Class"``; empty if it cannot be read."""
        module, path = target.split(":")
        location = self._locate(module)
        if not isinstance(location, ModuleSpec) or not str(location.origin).endswith(".py"):
            return ""
        return escaped(self._summaries(str(location.origin)).of(path).strip())

    def missing_module(self, target: str) -> str:
        """The reason why the module of ``"module:Class"`` cannot be imported; empty if it exists."""
        module, _ = target.split(":")
        return f"its module {module} is missing" if self._locate(module) is None else ""

    def _located(self, module: str) -> ModuleSpec | str | None:
        """The place of a module; None if it is missing, "" if its place is unknown.

        `find_spec` on a dotted name would import its packages.
        """
        package, _, name = module.rpartition(".")
        if not package:
            # A top-level name is looked up without being executed, by the finders of editable installs too.
            try:
                return find_spec(name)
            except (ImportError, ValueError):
                return ""
        parent = self._locate(package)
        if not isinstance(parent, ModuleSpec) or parent.submodule_search_locations is None:
            return None
        return PathFinder.find_spec(f"{parent.name}.{name}", parent.submodule_search_locations)


class _Summaries:
    """The first lines of the docstrings in a file, which is parsed if the pattern does not match."""

    def __init__(self, file: str) -> None:
        self._text = _text(file)
        self._quick = {match[1]: match[2] for match in _CLASS.finditer(self._text)}

    def of(self, path: str) -> str:
        """The first line of the docstring of a class or function."""
        return self._quick.get(path) or self._parsed.get(path, "")

    @functools.cached_property
    def _parsed(self) -> dict[str, str]:
        return dict(_summaries(self._text))


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ""  # a listing must not fail; choosing the component will say what is wrong


def _summaries(text: str) -> Iterator[tuple[str, str]]:
    """The first line of each docstring in a source, by the dotted name of its class or function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # another author's source may have "\d" in a string
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
