"""From distributions to plugins: pluggy gets one object per distribution, with all its components.

Entry points become components without an import; only hooks modules are imported.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pluggy

from .distributions import Installed, installed
from .errors import InvalidSpec, PluginFailed, one_line
from .spec import ComponentSpec, Project, did_you_mean, normalize

PRINTED = 200
"""Characters kept of the text that a plugin prints."""

Functions = dict[str, Callable[..., Any]]


@dataclass(frozen=True)
class Failure:
    """An error in one entry point, hooks module or component; the rest of the plugin stays on offer."""

    plugin: str
    version: str
    reason: str
    traceback: str

    @classmethod
    def of(cls, plugin: str, version: str, error: BaseException) -> Failure:
        """The failure that an exception causes."""
        details = "".join(traceback.format_exception(error))
        return cls(plugin, version, one_line(error), details)


@dataclass(frozen=True)
class Plugin:
    """An installed plugin.

    Args:
        name: Its normalized name.
        version: Its version; empty without metadata.
        state: ``"ok"``, ``"failed"`` or ``"disabled"``.
        reason: Why it failed.
        seconds: How long reading its hooks took.
        printed: The beginning of the text that they printed.
        modules: Top-level modules that they were the first to import.
        copies: Where it is installed, ``"1.2 in /folder"``, if that is more than once; the first counts.
    """

    name: str
    version: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    printed: str = ""
    modules: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()


class Discovery:
    """The `plugins` of a project, their `specs` and `failures`, and `leftovers` of uninstalls.

    Args:
        project: The project.
        disable: Names of plugins that are not read, ``"*"`` for all but the host.
        strict: Raise errors of plugins instead of recording them.
    """

    def __init__(self, project: Project, disable: Iterable[str], strict: bool) -> None:
        self.specs: list[ComponentSpec] = []
        self._project = project
        self._components = f"{project.prefix}_components"
        self._manager = self._new_manager()
        found, self.leftovers = installed(project.name)
        self._watches = {plugin.name: Watch(plugin, strict) for plugin in found}
        disabled = {normalize(name) for name in disable}
        # pluggy calls the plugin registered last first; this order makes it call them by name.
        for plugin in reversed(found):
            if plugin.name in disabled or ("*" in disabled and plugin.name != project.host):
                self._manager.set_blocked(plugin.name)
            else:
                self._manager.register(self._plugin(plugin), plugin.name)
        for name, offered in self.call(self._components):
            watch, specs = self._watches[name], list[object]()
            with watch.recording(), watch.watching():
                specs.extend(offered)
            for spec in specs:
                with watch.recording():
                    self._offer(spec, watch.plugin)
        watches = self._watches.values()
        self.failures = tuple(failure for watch in watches for failure in watch.failures)
        self.plugins = tuple(w.report(self._manager.is_blocked(w.plugin.name)) for w in watches)

    def call(self, hook: str, **kwargs: Any) -> list[tuple[str, Any]]:
        """Call a hook of every plugin, by name; exceptions name the plugin that raised them.

        Returns:
            ``(plugin, result)`` for each result that is not None.
        """
        results = []
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            others = self._manager.get_plugins() - {implementation.plugin}
            name = implementation.plugin_name
            try:
                found = self._manager.subset_hook_caller(hook, others)(**kwargs)
            except SystemExit as error:  # a plugin must not end the program
                raise PluginFailed(f"plugin {name} in {hook}: {one_line(error)}") from error
            except Exception as error:
                error.add_note(f"raised by plugin {name} in {hook}")
                raise
            results += [(name, result) for result in found]
        return results

    def _new_manager(self) -> pluggy.PluginManager:
        manager = pluggy.PluginManager(self._project.name)
        manager.add_hookspecs(self._project.hooks)
        return manager

    def _plugin(self, plugin: Installed) -> object:
        """The object that stands for a distribution: its hooks, with its entry points as one of them."""
        watch, group = self._watches[plugin.name], self._project.name
        entries, declared, hooks = [], list[ComponentSpec](), Functions()
        with watch.recording():
            entries = sorted(
                plugin.distribution.entry_points, key=lambda entry: (entry.group, entry.name)
            )
        for entry in entries:
            with watch.recording():
                if entry.group == f"{group}.hooks":
                    with watch.watching():
                        hooks |= self._hooks(entry.value)
                elif f"{entry.group}.".startswith(f"{group}."):
                    kind = self._kind(entry.group)
                    declared.append(ComponentSpec(kind, entry.name, entry.value))
        more = hooks.get(self._components, tuple)

        def components() -> Iterator[ComponentSpec]:
            yield from declared
            yield from more()

        return _holder(hooks | {self._components: pluggy.HookimplMarker(group)(components)})

    def _hooks(self, name: str) -> Functions:
        """The hooks of a module, validated by a manager that holds nothing else."""
        found: Functions = {}
        trial, marker = self._new_manager(), f"{self._project.name}_impl"
        # The module's own dictionary: reading attributes would trigger its lazy imports.
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

    def _offer(self, spec: object, plugin: Installed) -> None:
        if not isinstance(spec, ComponentSpec):
            raise InvalidSpec(f"{self._components} must give ComponentSpecs, not {spec!r}")
        self._kind(f"{self._project.name}.{spec.kind}")
        spec = replace(spec, plugin=plugin.name, version=plugin.version)
        if any(spec.use == other.use for other in self.specs):
            raise InvalidSpec(f"{spec.use} is declared twice")
        self.specs.append(spec)

    def _kind(self, group: str) -> str:
        """The kind that an entry-point group stands for."""
        groups = {f"{self._project.name}.{kind.name}": kind.name for kind in self._project.kinds}
        if group not in groups:
            valid = [*groups, f"{self._project.name}.hooks"]
            near = did_you_mean(group, valid, otherwise="")
            raise InvalidSpec(
                f"unknown entry-point group {group!r}.{near} Valid: {', '.join(valid)}"
            )
        return groups[group]


def _holder(functions: Functions) -> object:
    """An object with these functions alone, which pluggy sees in place of a module."""
    return type("Plugin", (), {name: staticmethod(f) for name, f in functions.items()})()


class Watch:
    """Watches a plugin while it is read: what it raises, prints and imports, and how long it takes.

    Args:
        plugin: The plugin.
        strict: Raise its errors instead of recording them.
    """

    def __init__(self, plugin: Installed, strict: bool) -> None:
        self.plugin = plugin
        self.strict = strict
        self.failures: list[Failure] = []
        self.seconds = 0.0
        self.printed = ""
        self.modules: set[str] = set()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record an exception as a failure; Ctrl-C passes."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if self.strict:
                raise PluginFailed(f"plugin {self.plugin.name}: {one_line(error)}") from error
            self.failures.append(Failure.of(self.plugin.name, self.plugin.version, error))
        except KeyboardInterrupt as error:  # perhaps because this plugin takes too long
            error.add_note(f"plugin {self.plugin.name} was being read")
            raise

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note duration, prints and new modules, and send prints to the standard error.

        The standard output belongs to the program, which may be writing JSON to it.
        """
        before, begin = set(sys.modules), time.perf_counter()
        output: Any = _Output(self)
        try:
            with contextlib.redirect_stdout(output):
                yield
        finally:
            self.seconds += time.perf_counter() - begin
            self.modules |= {name.partition(".")[0] for name in set(sys.modules) - before}

    def report(self, disabled: bool) -> Plugin:
        """The plugin with all that was noted."""
        return Plugin(
            self.plugin.name,
            self.plugin.version,
            "failed" if self.failures else "disabled" if disabled else "ok",
            "; ".join(failure.reason for failure in self.failures),
            self.seconds,
            self.printed.strip(),
            tuple(sorted(self.modules)),
            self.plugin.copies,
        )


class _Output:
    """The standard error in place of the standard output; the watch notes what is written to it."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._stream = watch, sys.stderr

    def write(self, text: str) -> int:
        self._watch.printed = (self._watch.printed + text)[:PRINTED]
        return self._stream.write(text) if self._stream else len(text)  # None under pythonw

    def flush(self) -> None:
        if self._stream:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
