"""From plugins to component specifications and hooks.

Entry points become specifications without an import; hooks modules are imported, and go to pluggy.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy

from .distributions import installed
from .errors import InvalidConfig, InvalidSpec, PluginFailed, did_you_mean, one_line
from .plugin import Entry, Plugin
from .quoting import short_repr
from .spec import REJECTING, ComponentSpec, Project, normalize

OLD = ".old"
"""The end of an entry-point group that holds old names."""


class Discovery:
    """The `plugins` of a project and their `specs`, and `remnants` of others.

    Args:
        project: The project.
        disable: Names of plugins that are not read, ``"*"`` for all but the host.
        strict: Raise errors of plugins instead of recording them.
    """

    def __init__(self, project: Project, disable: Iterable[str], strict: bool) -> None:
        self._project = project
        self._components = f"{project.prefix}_components"
        self._groups = {f"{project.name}.{kind.name}": kind.name for kind in project.kinds}
        self._manager = self._new_manager()
        self.plugins, self.remnants = installed(project.name)
        disabled = {normalize(name) for name in disable}
        # pluggy calls the plugin registered last first; this order makes it call them by name.
        for plugin in reversed(self.plugins):
            plugin.strict, star = strict, "*" in disabled and plugin.name != project.host
            if star or plugin.name in disabled:
                plugin.disabled = True
                self._manager.set_blocked(plugin.name)
            else:
                self._read_hooks(plugin)
                self._manager.register(plugin, plugin.name)
        enabled = [plugin for plugin in self.plugins if not plugin.disabled]
        self.specs = [spec for plugin in enabled for spec in self._offered(plugin)]
        self.named: Mapping[str, list[ComponentSpec]] = defaultdict(list)
        for spec in self.specs:
            for name in (spec.name, *spec.old_names):
                self.named[name].append(spec)

    def call(
        self, hook: str, options: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any]
    ) -> list[tuple[str, Any]]:
        """See `Registry.call`."""
        rejects = hasattr(getattr(self._project.hooks, hook), REJECTING)
        results = []
        # Each by itself: pluggy calls all at once, and an error would not say whose it is.
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            plugin: Any = implementation.plugin
            values = {**given, "options": options.get(plugin.name, {})}
            arguments = [values[name] for name in implementation.argnames]
            try:
                result = implementation.function(*arguments)
                result = [*result] if isinstance(result, Iterator) else result
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a plugin must not end the program
                failed = f"in {hook}: {one_line(error)}"
                if rejects:
                    kind = InvalidConfig if isinstance(error, Exception) else PluginFailed
                    raise kind(f"plugin {plugin.name} {failed}") from error
                with plugin.recording():
                    raise PluginFailed(failed) from error
                warnings.warn(
                    f"plugin {plugin.name} {failed}; its result is left out", stacklevel=3
                )
                continue
            results += [(plugin.name, result)] if result is not None else []
        return results

    def with_options(self) -> set[str]:
        """The plugins with a hook that takes options."""
        hooks = vars(self._manager.hook).values()
        implementations = (one for hook in hooks for one in hook.get_hookimpls())
        return {one.plugin_name for one in implementations if "options" in one.argnames}

    def _new_manager(self) -> pluggy.PluginManager:
        manager = pluggy.PluginManager(self._project.name)
        manager.add_hookspecs(self._project.hooks)
        return manager

    def _read_hooks(self, plugin: Plugin) -> None:
        """Give a plugin the hooks of its hooks modules, each validated by a separate manager."""
        for fault in plugin.faults:
            with plugin.recording():
                raise InvalidSpec(fault)
        for entry in plugin.entries:
            if entry.group == f"{self._project.name}.hooks":
                with plugin.recording(), plugin.watching():
                    trial = self._new_manager()
                    hooks = self._hooks_of(importlib.import_module(entry.value), vars(trial.hook))
                    trial.register(SimpleNamespace(**hooks), entry.value)
                    vars(plugin).update(hooks)

    def _hooks_of(self, module: ModuleType, specified: Iterable[str]) -> dict[str, Any]:
        """The functions of a module that are marked as hooks; all must be specified."""
        hooks = {}
        # The module's own dictionary: reading attributes would trigger its lazy imports.
        for name, value in vars(module).items():
            if inspect.isfunction(value):
                marks = getattr(value, f"{self._project.name}_impl", None)
                if marks is None and name in specified:
                    raise InvalidSpec(f"{module.__name__}: {name} is not marked with @hookimpl")
                if marks is not None and name not in specified:
                    near = did_you_mean(name, specified)
                    raise InvalidSpec(f"{module.__name__}: there is no hook {name!r}.{near}")
                if marks and (marks["hookwrapper"] or marks["wrapper"]):
                    raise InvalidSpec(
                        f"{module.__name__}: {name} is a wrapper, and no hook takes one"
                    )
                if marks is not None:
                    hooks[name] = value
        return hooks

    def _offered(self, plugin: Plugin) -> Iterable[ComponentSpec]:
        """The components of a plugin: those of its entry points, then those of its hook."""
        offered: dict[tuple[str, str], ComponentSpec] = {}

        def offer(kind: str, name: str, target: str) -> None:
            spec = ComponentSpec(kind, name, target, plugin.name, plugin.version)
            if (kind, name) in offered:
                raise InvalidSpec(f"{spec.use} is declared twice")
            offered[kind, name] = spec

        prefix, old = f"{self._project.name}.", list[Entry]()
        for entry in plugin.entries:
            with plugin.recording():
                if entry.group.endswith(OLD):
                    old.append(entry)
                elif entry.group != f"{prefix}hooks":
                    offer(self._kind(entry.group), entry.name, entry.value)
        hook = getattr(plugin, self._components, tuple)
        specs: list[ComponentSpec] = []
        with plugin.recording(), plugin.watching():
            specs.extend(hook() or ())
        for spec in specs:
            with plugin.recording():
                if not isinstance(spec, ComponentSpec):
                    raise InvalidSpec(
                        f"{self._components} must give ComponentSpecs, not {short_repr(spec)}"
                    )
                offer(self._kind(f"{prefix}{spec.kind}"), spec.name, spec.target)
        for entry in old:
            with plugin.recording():
                kind = self._kind(entry.group.removesuffix(OLD))
                key = _renamed(kind, entry, offered)
                names = (*offered[key].old_names, entry.name)
                offered[key] = replace(offered[key], old_names=names)
        return offered.values()

    def _kind(self, group: str) -> str:
        """The kind that an entry-point group stands for."""
        if group not in self._groups:
            valid = [*self._groups, f"{self._project.name}.hooks"]
            near = did_you_mean(group, valid, otherwise="")
            raise InvalidSpec(
                f"unknown entry-point group {group!r}.{near} Valid: {', '.join(valid)}"
            )
        return self._groups[group]


def _renamed(
    kind: str, old: Entry, offered: Mapping[tuple[str, str], ComponentSpec]
) -> tuple[str, str]:
    """The key of the component that an old name stands for: the only one with its target."""
    same = [key for key, spec in offered.items() if key[0] == kind and spec.target == old.value]
    if any(old.name in (s.name, *s.old_names) for s in offered.values() if s.kind == kind):
        raise InvalidSpec(f"{old.name!r} in {old.group} is also the name of another component")
    if len(same) != 1:
        raise InvalidSpec(
            f"{old.name!r} in {old.group} must point to one component; {len(same)} are {old.value}"
        )
    return same[0]
