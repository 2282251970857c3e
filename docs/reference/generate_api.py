"""Write api/: a page per public module, with the signature and docstring of everything public in it."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from ccl_plugins.cli.docstrings import documentation
from ccl_plugins.kinds import FOLDERS, registry

TARGET = Path(__file__).with_name("api")
MODULES = (
    "ccl_plugins",
    "ccl_plugins.protocols",
    "ccl_plugins.pairs",
    "ccl_plugins.numerics",
    "ccl_plugins.information",
    "ccl_plugins.metadata",
    "ccl_plugins.watching",
    "ccl_plugins.arguments",
    "ccl_plugins.experiments",
    "ccl_plugins.hooks",
    "ccl_plugins.testing",
    "ccl_plugins.testing.fixtures",
    *(f"ccl_plugins.{folder}" for folder in FOLDERS.values()),
)
"""The public modules, as docs/explanation/compatibility.md lists them, and the fixtures."""

NOTE = "<!-- Written by docs/reference/generate.py; run it after a change. -->"


class _Text(str):
    """An annotation that a signature shows as it is written."""

    __repr__ = str.__str__


def render() -> dict[str, str]:
    """The pages, by the name of their file."""
    pages = {f"{_short(name)}.md": _page(name) for name in MODULES}
    lines = [
        f"- [`{name}`]({_short(name)}.md): {_summary(importlib.import_module(name))}"
        for name in MODULES
    ]
    head = f"# API reference\n\n{NOTE}\n\nEverything public, by module.\n"
    return {"index.md": "\n".join([head, *lines, ""]), **pages}


def public_names(module: str) -> list[str]:
    """What a module defines, or exports as ``from x import Y as Y``; of the package, its ``__all__``."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return sorted(loaded.__all__)
    found = set()
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom):
            found |= {a.name for a in node.names if a.asname == a.name}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not module.endswith("hooks"):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {t.id for t in targets if isinstance(t, ast.Name)}
    return sorted(name for name in found if not name.startswith("_"))


def _page(module: str) -> str:
    loaded = importlib.import_module(module)
    parts = [f"# {module}\n\n{NOTE}\n\n{_summary(loaded)}\n"]
    for name in public_names(module):
        text = _entry(module, name, getattr(loaded, name))
        parts.append(f"## {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _entry(module: str, name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        functions = {k: v for k, v in vars(value).items() if _own_function(v, value)}
        return "\n\n".join([_summary(value), *(_function(k, v) for k, v in functions.items())])
    if isinstance(value, type):
        return _class(name, value)
    if hasattr(value, "_get_wrapped_function"):  # a fixture of pytest
        return _function(name, value._get_wrapped_function())
    if inspect.isroutine(value):
        return _function(name, value)
    if module == "ccl_plugins" and name in registry().kinds:
        kind = registry().kinds[name]
        return f'{name}(name, **params) or {name}.NAME(**params)\n\nA choice of this kind: "{kind.doc}"'
    return f"{name} = {_plain(value)}\n\n{_comment(module, name)}".rstrip()


def _class(name: str, value: type) -> str:
    components = {spec.target for spec in registry().specs() if spec.plugin == registry().host}
    component = f"{value.__module__}:{value.__qualname__}" in components
    doc = documentation(value) if component else inspect.cleandoc(value.__doc__ or "")
    parts = [f"{name}{_signature(value)}", doc]
    members: dict[str, Any] = {}
    for base in value.__mro__[:1] if component else value.__mro__:
        if base.__module__.partition(".")[0] in ("ccl_plugins", "registry"):
            members = {**vars(base), **members}
    for member, each in members.items():
        if member.startswith("_") and member not in ("__call__", "__len__"):
            continue
        each = each.__func__ if isinstance(each, staticmethod | classmethod) else each
        if inspect.isfunction(each):
            parts.append(_function(member, each))
        elif isinstance(each, property | functools.cached_property):
            text = inspect.cleandoc(each.__doc__ or "")
            parts.append(f"{member}\n{_indented(text)}".rstrip())
    return "\n\n".join(filter(None, parts))


def _function(name: str, value: Any) -> str:
    doc = inspect.cleandoc(value.__doc__ or "")
    return f"{name}{_signature(value)}\n{_indented(doc)}".rstrip()


def _signature(value: Any) -> str:
    if getattr(value, "_is_protocol", False):
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=_annotation(p)) for p in found.parameters.values()]
    parameters = [p for p in parameters if p.name != "self"]
    returns = found.return_annotation
    text = f" -> {returns}" if isinstance(returns, str) else ""
    empty = inspect.Signature.empty
    return f"{found.replace(parameters=parameters, return_annotation=empty)}{text}"


def _annotation(parameter: inspect.Parameter) -> Any:
    written = parameter.annotation
    return _Text(written) if isinstance(written, str) else written


def _plain(value: Any) -> str:
    text = re.sub(r"(typing|collections\.abc|types)\.", "", repr(value))
    return f"a {type(value).__name__}" if " at 0x" in text else text


def _comment(module: str, name: str) -> str:
    """The string after an assignment, where the module that is read has one."""
    body = _tree(module).body
    for node, following in itertools.pairwise(body):
        if isinstance(node, ast.ImportFrom) and any(a.asname == name for a in node.names):
            return _comment(str(node.module), name)
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            value = getattr(following, "value", None)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                return inspect.cleandoc(value.value)
    return ""


@functools.cache
def _tree(module: str) -> ast.Module:
    file = inspect.getsourcefile(importlib.import_module(module)) or ""
    return ast.parse(Path(file).read_text("utf-8"))


def _own_function(value: Any, module: ModuleType) -> bool:
    return (
        inspect.isfunction(value)
        and value.__module__.startswith(module.__name__)
        and not value.__name__.startswith("_")
    )


def _summary(module: ModuleType) -> str:
    return inspect.cleandoc(module.__doc__ or "").partition("\n")[0]


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def _short(module: str) -> str:
    return module.removeprefix("ccl_plugins.")


def write() -> None:
    """Write the pages, and delete those of modules that are gone."""
    TARGET.mkdir(exist_ok=True)
    pages = render()
    for path in TARGET.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (TARGET / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
