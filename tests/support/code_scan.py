"""Finds calls that could run foreign code in the syntax tree of Python sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
RUNNING = {"eval", "exec", "compile", "__import__"}
SHELLS = {"system", "popen", "startfile", "spawnl", "spawnv", "execv", "execl"}


def unsafe(source: str) -> Iterator[str]:
    """Every place that reads pickles, or runs text as code or as a command."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(node, alias.name)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from _module(node, node.module or "")
        elif isinstance(node, ast.Call):
            yield from (f"line {node.lineno}: {what}" for what in _call(node))


def _module(node: ast.stmt, name: str) -> Iterator[str]:
    top = name.partition(".")[0]
    if top in UNSAFE_MODULES:
        yield f"line {node.lineno}: imports {top}"
    if top == "subprocess":
        yield f"line {node.lineno}: imports subprocess"


def _call(node: ast.Call) -> Iterator[str]:
    given = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
    called = ast.unparse(node.func)
    if called in RUNNING:
        yield f"calls {called}"
    if called.partition(".")[0] == "os" and called.rpartition(".")[2] in SHELLS:
        yield f"calls {called}"
    if given.get("shell"):
        yield "shell=True"
    if given.get("allow_pickle"):
        yield "allow_pickle=True"
    if called in ("np.load", "numpy.load") and given.get("allow_pickle") is not False:
        yield f"{called} without allow_pickle=False"
    reads = called.endswith(("torch.load", "load_state_dict_from_url", "load_url"))
    if reads and given.get("weights_only") is not True:
        yield f"{called} without weights_only=True"
    if called.startswith("torch.hub.") or called in ("torch.jit.load", "torch.package"):
        yield f"calls {called}"
