"""Conditional contrastive learning as plug-ins on lightly.

```python
import ccl_plugins as ccl

ccl.list("kernel")
ccl.info("objective", "fair_cclk")
criterion = ccl.create("objective", "fair_cclk", kernel=ccl.kernel("rbf", scale=0.1))
loss = criterion(x, y, condition=z)
```

This package imports no torch, so that listing stays quick; a component is imported when it is
chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ccl_registry as engine
from ccl_plugins.hooks import hookimpl as hookimpl
from ccl_plugins.kinds import KINDS as _KINDS
from ccl_plugins.kinds import registry as _registry

if TYPE_CHECKING:
    from ccl_plugins.commands.info import Description
    from ccl_plugins.commands.tables import TextTable
    from ccl_plugins.experiments.pipeline import Pipeline as Pipeline
    from ccl_plugins.experiments.pipeline import Run as Run
    from ccl_plugins.experiments.pipeline import load as load
    from ccl_plugins.report.page import write_report as write_report

    # One for each kind in `KINDS`.
    objective = kernel = condition = sampler = transform = engine.Namespace(_registry(), "")
    method = backbone = dataset = evaluator = engine.Namespace(_registry(), "")
    optimizer = schedule = logger = figure = command = engine.Namespace(_registry(), "")

__all__ = [
    "AmbiguousName",
    "Choice",
    "ComponentSpec",
    "InvalidConfig",
    "InvalidParameter",
    "InvalidSpec",
    "Mistake",
    "Pipeline",
    "PluginFailed",
    "RegistryError",
    "Run",
    "UnknownComponent",
    "compare",
    "create",
    "hookimpl",
    "info",
    "list",
    "load",
    "local",
    "refresh",
    "write_report",
]
__all__ += [kind.name for kind in _KINDS]

Choice = engine.Choice
ComponentSpec = engine.ComponentSpec

Mistake = engine.Mistake
RegistryError = engine.RegistryError
UnknownComponent = engine.UnknownComponent
AmbiguousName = engine.AmbiguousName
InvalidSpec = engine.InvalidSpec
PluginFailed = engine.PluginFailed
InvalidParameter = engine.InvalidParameter
InvalidConfig = engine.InvalidConfig

globals().update({kind.name: engine.Namespace(_registry(), kind.name) for kind in _KINDS})

_LAZY = {
    "Pipeline": "ccl_plugins.experiments.pipeline",
    "Run": "ccl_plugins.experiments.pipeline",
    "load": "ccl_plugins.experiments.pipeline",
    "write_report": "ccl_plugins.report.page",
}


def list(kind: str | None = None) -> TextTable:
    """A table of the available components, of one kind or of all kinds.

    Args:
        kind: A kind, such as ``"kernel"``.
    """
    from ccl_plugins.commands.list import listing

    return listing(_registry(), kind)


def info(kind: str, name: str) -> Description:
    """A component's parameters with their defaults, its docstring, its file and its plug-in.

    Args:
        kind: The component's kind.
        name: The component's name; ``"plugin/name"`` where several plug-ins offer it.
    """
    from ccl_plugins.commands.info import describe

    return describe(_registry(), kind, name)


def create(kind: str, name: str, /, **params: Any) -> Any:
    """Build a component.

    Args:
        kind: The component's kind.
        name: The component's name; ``"plugin/name"`` where several plug-ins offer it.
        **params: The component's parameters; a parameter that is a component is given as a choice,
            a name or an object.

    Raises:
        RegistryError: For an unknown component, or parameters that it does not take.
    """
    return _registry().create(kind, name, **params)


def compare(runs: Iterable[Run]) -> TextTable:
    """The results of runs in one table, as `ccl evaluate` prints it; nothing is measured.

    It prints as text; its ``markdown()``, ``latex()`` and ``json()`` are for papers and programs.

    Args:
        runs: Runs, such as ``map(ccl.load, paths)``; those that differ in the seed alone share a row.

    Raises:
        FileNotFoundError: For a run without weights.
    """
    from ccl_plugins.commands.batch import compared
    from ccl_plugins.experiments.results import result_of

    return compared(map(result_of, runs))


def local(kind: str, value: Any = None, /, **params: Any) -> Any:
    """Use a class or an object of your own as a component, known as ``local/<class>``.

    As a decorator, ``@ccl.local("kernel")``, it leaves the class as it is.

    Args:
        kind: The component's kind.
        value: The class or object; none for a decorator.
        **params: Parameters of the class.
    """
    if value is not None:
        return _registry().local(kind, value, **params)

    def decorate(defined: Any) -> Any:
        _registry().define(kind, defined)
        return defined

    return decorate


def refresh() -> None:
    """Discover plug-ins installed since; for notebooks, after ``%pip install``."""
    _registry().refresh()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ccl-plugins")
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'ccl_plugins' has no attribute {name!r}")


def __dir__() -> Sequence[str]:
    return sorted([*__all__, "__version__"])
