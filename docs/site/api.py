"""The pages of the API: everything public by module, but components, which have pages of their own."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import docstrings

from ccl_plugins.commands.docstrings import documentation
from ccl_plugins.kinds import FOLDERS, registry

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
    "ccl_plugins.sweep",
    "ccl_plugins.hooks",
    "ccl_plugins.testing",
    "ccl_plugins.testing.fixtures",
    *(f"ccl_plugins.{folder}" for folder in FOLDERS.values()),
)
"""The public modules, as docs/explanation/compatibility.md lists them, and the fixtures."""


class _Text(str):
    """An annotation that a signature shows as it is written."""

    __repr__ = str.__str__


def pages() -> Iterator[tuple[str, str]]:
    """The path below ``reference/`` and the text of each page."""
    lines = [
        f"- [`{name}`](api/{short(name)}.md): {_summary(importlib.import_module(name))}"
        for name in MODULES
    ]
    toctree = "\n".join(f"api/{short(name)}" for name in MODULES)
    yield (
        "api.md",
        "# The API\n\nEverything public, by module. What stays stable between versions is on the page"
        " about [compatibility](../explanation/compatibility.md).\n\n"
        + "\n".join(lines)
        + f"\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n",
    )
    for name in MODULES:
        yield f"api/{short(name)}.md", _page(name)


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


@functools.cache
def components() -> dict[Any, str]:
    """The built-in components, each with its page below ``reference/``."""
    reg = registry()
    return {
        spec.load(): f"components/{spec.kind}/{spec.name}"
        for spec in reg.specs()
        if spec.plugin == reg.host
    }


@functools.cache
def _full_names() -> dict[str, str]:
    """The full name of what is public, by its short name; kinds' folders come before the package."""
    found = {}
    for module in sorted(MODULES, key=lambda name: name == "ccl_plugins"):
        loaded = importlib.import_module(module)
        for name in public_names(module):
            value = getattr(loaded, name)
            if not isinstance(value, ModuleType):
                found.setdefault(name, f"{module}.{name}")
            for member in vars(value) if isinstance(value, type) else ():
                if _is_public(member, value):
                    found.setdefault(f"{name}.{member}", f"{module}.{name}.{member}")
    return found


def link(name: str) -> str:
    """A name as code, with a link if it is public."""
    short_name = name.removesuffix("()")
    full = _full_names().get(short_name, short_name)
    if full not in _full_names().values():
        return f"`{name}`"
    return f"{{py:obj}}`{name} <{full}>`"


def entry(name: str, value: Any, doc: str) -> str:
    """A class with its own public members, and those of its bases if it is no component."""
    members: dict[str, Any] = {}
    for base in value.__mro__[:1] if value in components() else value.__mro__:
        if base.__module__.partition(".")[0] in ("ccl_plugins", "registry"):
            members = {**vars(base), **members}
    parts, parameters = [doc], signature(value).removesuffix(" -> None")
    for member, each in members.items():
        each = each.__func__ if isinstance(each, staticmethod | classmethod) else each
        if not _is_public(member, value):
            continue
        if inspect.isfunction(each):
            parts.append(_directive(":::", "py:method", f"{member}{signature(each)}", _doc(each)))
        elif isinstance(each, property | functools.cached_property):
            parts.append(_directive(":::", "py:property", member, _doc(each)))
    return _directive("::::", "py:class", f"{name}{parameters}", "\n\n".join(parts))


def signature(value: Any) -> str:
    """The parameters of a function or class with their annotations, and what it returns."""
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
    shown = f"{found.replace(parameters=parameters, return_annotation=empty)}{text}"
    return re.sub(r"<(\w+)[^<>]*>", r"\1", shown)  # <factory>, <object at 0x...>


def _page(module: str) -> str:
    loaded = importlib.import_module(module)
    own = [getattr(loaded, name) for name in public_names(module)]
    listed = [components()[value] for value in own if _is_component(value)]
    parts = [f"# {module}", docstrings.prose(inspect.cleandoc(loaded.__doc__ or ""), link)]
    if listed:
        links = ", ".join(f"[{page.rpartition('/')[2]}](../{page}.md)" for page in listed)
        parts.append(f"Components: {links}.")
    for name, value in zip(public_names(module), own, strict=True):
        if not _is_component(value):
            parts.append(_entry(module, name, value))
    return "\n\n".join(parts) + "\n"


def _is_component(value: Any) -> bool:
    return isinstance(value, type) and value in components()


def _entry(module: str, name: str, value: Any) -> str:
    full = f"{module}.{name}"
    if isinstance(value, ModuleType):
        functions = [
            _directive(":::", "py:function", f"{full}.{k}{signature(v)}", _doc(v))
            for k, v in vars(value).items()
            if _own_function(v, value)
        ]
        return "\n\n".join([f"## {name}", _summary(value), *functions])
    if isinstance(value, type):
        return entry(full, value, _doc(value))
    if hasattr(value, "_get_wrapped_function"):  # a fixture of pytest
        value = value._get_wrapped_function()
    if inspect.isroutine(value):
        return _directive("::::", "py:function", f"{full}{signature(value)}", _doc(value))
    if module == "ccl_plugins" and name in registry().kinds:
        doc = docstrings.prose(f'A choice of this kind: "{registry().kinds[name].doc}"', link)
        return _directive("::::", "py:function", f"{full}(name, **params)", doc)
    doc = docstrings.prose(_comment(module, name), link)
    return _directive("::::", "py:data", full, f"`{_plain(value)}`\n\n{doc}".rstrip())


def _directive(fence: str, kind: str, argument: str, content: str) -> str:
    return f"{fence}{{{kind}}} {argument}\n\n{content}\n{fence}"


def _doc(value: Any) -> str:
    doc = documentation(value) if _is_component(value) else inspect.cleandoc(value.__doc__ or "")
    return docstrings.markdown(doc, link)


def _is_public(member: str, owner: Any) -> bool:
    return not member.startswith("_") or member in ("__call__", "__len__")


def _annotation(parameter: inspect.Parameter) -> Any:
    written = getattr(parameter.annotation, "__forward_arg__", parameter.annotation)
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


def short(module: str) -> str:
    """The name of a module's page."""
    return module.removeprefix("ccl_plugins.")
