"""From distributions to plugins: the layer on pluggy, which gets one object per distribution.

Entry points are plain data and become components without an import; only a hooks module is imported.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import pluggy

from .distributions import Installed, Ledger, installed
from .errors import InvalidSpec, PluginFailed
from .spec import ComponentSpec, Kind, did_you_mean, kind_of_group, spoken

Functions = dict[str, Callable[..., Any]]


class Discovery:
    """The `plugins` installed, the `specs` they offer, the `failures`, and `remains` of others."""

    def __init__(
        self,
        project: str,
        group: str,
        kinds: Mapping[str, Kind],
        hookspecs: type | ModuleType,
        hook_prefix: str,
        blocked: Callable[[str], bool],
        strict: bool,
    ) -> None:
        self.specs: list[ComponentSpec] = []
        self._project, self._group, self._kinds = project, group, kinds
        self._hookspecs, self._components = hookspecs, f"{hook_prefix}components"
        found, self.remains = installed(group)
        self._ledger = ledger = Ledger(found, strict)
        self._manager = self._new_manager()
        # pluggy calls last registered first: so registered, plugins are called in order of name.
        for plugin in reversed(found):
            if blocked(plugin.name):
                self._manager.set_blocked(plugin.name)
            else:
                self._manager.register(self._plugin(plugin), plugin.name)
        for name, offered in self.call(self._components):
            with ledger.recording(name), ledger.watches[name].watching():
                for spec in offered:
                    with ledger.recording(name):
                        self._offer(name, spec)
        self.failures = tuple(ledger.failures)
        self.plugins = ledger.plugins(self._manager.is_blocked)

    def call(self, hook: str, **kwargs: Any) -> list[tuple[str, Any]]:
        """Each plugin's answer, None left out; what a plugin raises is raised and names it."""
        results = []
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            others = self._manager.get_plugins() - {implementation.plugin}
            name = implementation.plugin_name
            try:
                answers = self._manager.subset_hook_caller(hook, others)(**kwargs)
            except SystemExit as error:  # to end the program is not a plugin's to decide
                raise PluginFailed(f"plugin {name} in {hook}: {spoken(error)}") from error
            except Exception as error:
                error.add_note(f"raised by plugin {name} in {hook}")
                raise
            results += [(name, answer) for answer in answers]
        return results

    def _new_manager(self) -> pluggy.PluginManager:
        manager = pluggy.PluginManager(self._project)
        manager.add_hookspecs(self._hookspecs)
        return manager

    def _plugin(self, plugin: Installed) -> object:
        """The object that stands for a distribution: its hooks, its entry points being one."""
        name, declared = plugin.name, list[ComponentSpec]()
        hooks: Functions = {}
        with self._ledger.recording(name):
            for entry in sorted(plugin.entry_points, key=lambda e: (e.group, e.name)):
                with self._ledger.recording(name):
                    if entry.group == f"{self._group}.hooks":
                        with self._ledger.watches[name].watching():
                            hooks |= self._hooks(entry.value)
                    elif f"{entry.group}.".startswith(f"{self._group}."):
                        kind = kind_of_group(entry.group, self._group, self._kinds)
                        declared.append(ComponentSpec(kind, entry.name, entry.value))
        more = hooks.get(self._components, tuple)

        def components() -> Iterator[ComponentSpec]:
            yield from declared
            yield from more()

        return _holder(hooks | {self._components: pluggy.HookimplMarker(self._project)(components)})

    def _hooks(self, name: str) -> Functions:
        """The hooks of a module, validated by a manager that holds nothing else."""
        found: Functions = {}
        trial, marker = self._new_manager(), f"{self._project}_impl"
        # The module's own dictionary: reading attributes would set off its lazy imports.
        for attribute, value in vars(importlib.import_module(name)).items():
            if inspect.isfunction(value):
                known, marked = hasattr(trial.hook, attribute), hasattr(value, marker)
                if known and not marked:
                    raise InvalidSpec(f"{name}: {attribute} is not marked with @hookimpl")
                if marked and not known:
                    near = did_you_mean(attribute, vars(trial.hook))
                    raise InvalidSpec(f"{name}: there is no hook {attribute!r}.{near}")
                if known:
                    found[attribute] = value
        trial.register(_holder(found), name)
        return found

    def _offer(self, name: str, spec: object) -> None:
        if not isinstance(spec, ComponentSpec):
            raise InvalidSpec(f"{self._components} must give ComponentSpecs, not {spec!r}")
        kind_of_group(f"{self._group}.{spec.kind}", self._group, self._kinds)
        spec = replace(spec, plugin=name, version=self._ledger.versions[name])
        if any(spec.use == other.use for other in self.specs):
            raise InvalidSpec(f"{spec.use} is declared twice")
        self.specs.append(spec)


def _holder(functions: Functions) -> object:
    """An object with nothing but these, which is all that pluggy gets to see of a plugin."""
    return type("Plugin", (), {name: staticmethod(f) for name, f in functions.items()})()
