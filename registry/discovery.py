"""From distributions to plugins: pluggy gets one object per distribution, with all its components.

Entry points become components without an import; only hooks modules are imported.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import os
import signal
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pluggy

from .distributions import Installed, installed
from .errors import InvalidSpec, PluginFailed, one_line
from .quoting import represented, shown_lines
from .spec import ComponentSpec, Project, did_you_mean, normalize

RECORDED = 10
"""Errors kept of one plugin; the others are counted."""

PRINTED = 200
"""Characters kept of the text that a plugin prints."""

MANY = 100_000
"""Components that one plugin may offer: a hook that never ends must not fill the memory."""

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
        try:
            details = shown_lines("".join(traceback.format_exception(error)))
        except KeyboardInterrupt:
            raise
        except BaseException as another:  # an exception may raise where its own class is looked at
            details = f"no traceback can be formatted: {one_line(another)}"
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
        changes: Settings of the process that importing them changed.
        copies: Where it is installed, ``"1.2 in /folder"``, if that is more than once; the first counts.
    """

    name: str
    version: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    printed: str = ""
    modules: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()


class Discovery:
    """The `plugins` of a project, their `specs` and `failures`, and `remnants` of others.

    Args:
        project: The project.
        disable: Names of plugins that are not read, ``"*"`` for all but the host.
        strict: Raise errors of plugins instead of recording them.
    """

    def __init__(self, project: Project, disable: Iterable[str], strict: bool) -> None:
        self._project = project
        self._offered: dict[tuple[str, str, str], ComponentSpec] = {}
        self._components = f"{project.prefix}_components"
        self._groups = {f"{project.name}.{kind.name}": kind.name for kind in project.kinds}
        self._manager, self._trial = self._new_manager(), self._new_manager()
        found, self.remnants = installed(project.name)
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
                specs.extend(itertools.islice(offered, MANY + 1))
            with watch.recording():
                if len(specs) > MANY:
                    raise InvalidSpec(f"{self._components} gives more than {MANY} components")
            for spec in specs[:MANY]:
                with watch.recording():
                    self._offer(spec, watch.plugin)
        order = list(self._groups.values())
        self.specs = sorted(
            self._offered.values(),
            key=lambda s: (order.index(s.kind), s.name, s.plugin != project.host, s.plugin),
        )
        self.named: Mapping[str, list[ComponentSpec]] = defaultdict(list)
        for each in self.specs:
            self.named[each.name].append(each)
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
            name = implementation.plugin_name
            given = [kwargs[each] for each in implementation.argnames]
            try:
                # By itself: pluggy calls all at once, and an error would not say whose it is.
                result = implementation.function(*given)
            except Exception as error:
                error.add_note(f"raised by plugin {name} in {hook}")
                raise
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a plugin must not end the program
                raise PluginFailed(f"plugin {name} in {hook}: {one_line(error)}") from error
            results += [(name, result)] if result is not None else []
        return results

    def _new_manager(self) -> pluggy.PluginManager:
        manager = pluggy.PluginManager(self._project.name)
        manager.add_hookspecs(self._project.hooks)
        return manager

    def _plugin(self, plugin: Installed) -> object:
        """The object that stands for a distribution: its hooks, with its entry points as one of them."""
        watch, group = self._watches[plugin.name], self._project.name
        declared, hooks = list[ComponentSpec](), Functions()
        for fault in plugin.faults:
            with watch.recording():
                raise InvalidSpec(fault)
        for entry in plugin.entries:
            with watch.recording():
                if entry.group == f"{group}.hooks":
                    with watch.watching():
                        hooks |= self._hooks(entry.value)
                elif f"{entry.group}.".startswith(f"{group}."):
                    kind = self._kind(entry.group)
                    declared.append(ComponentSpec(kind, entry.name, entry.value))

        def components() -> Iterator[ComponentSpec]:
            yield from declared
            more = hooks[self._components]() if self._components in hooks else None
            yield from () if more is None else more

        return _Holder(hooks | {self._components: pluggy.HookimplMarker(group)(components)})

    def _hooks(self, name: str) -> Functions:
        """The hooks of a module, validated by a manager that holds nothing else."""
        found: Functions = {}
        trial, marker = self._trial, f"{self._project.name}_impl"
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
                    if getattr(value, marker).get("hookwrapper") or getattr(value, marker).get(
                        "wrapper"
                    ):
                        raise InvalidSpec(
                            f"{name}: {attribute} is a wrapper, and no hook takes one"
                        )
                    found[attribute] = value
        trial.register(_Holder(found), name)
        trial.unregister(name=name)
        return found

    def _offer(self, spec: object, plugin: Installed) -> None:
        if not isinstance(spec, ComponentSpec):
            raise InvalidSpec(
                f"{self._components} must give ComponentSpecs, not {represented(spec)}"
            )
        kind = self._kind(f"{self._project.name}.{spec.kind}")
        # A new one: a subclass of another author may do anything where it is read.
        spec = ComponentSpec(kind, spec.name, spec.target, plugin.name, plugin.version)
        key = kind, spec.name, plugin.name
        if key in self._offered:
            raise InvalidSpec(f"{spec.use} is declared twice")
        self._offered[key] = spec

    def _kind(self, group: str) -> str:
        """The kind that an entry-point group stands for."""
        if group not in self._groups:
            valid = [*self._groups, f"{self._project.name}.hooks"]
            near = did_you_mean(group, valid, otherwise="")
            raise InvalidSpec(
                f"unknown entry-point group {group!r}.{near} Valid: {', '.join(valid)}"
            )
        return self._groups[group]


class _Holder:
    """An object with these functions alone, which pluggy sees in place of a module."""

    def __init__(self, functions: Functions) -> None:
        vars(self).update(functions)

    def __dir__(self) -> Iterable[str]:
        return [*vars(self)]  # pluggy looks at each; what every object has is no hook


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
        self.more = 0
        self.seconds = 0.0
        self.printed = ""
        self.modules: set[str] = set()
        self.changes: dict[str, None] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record whatever is raised as a failure; Ctrl-C passes."""
        try:
            yield
        except KeyboardInterrupt as error:  # perhaps because this plugin takes too long
            error.add_note(f"plugin {self.plugin.name} was being read")
            raise
        except BaseException as error:  # a plugin may raise anything, and must not end the program
            if self.strict:
                raise PluginFailed(f"plugin {self.plugin.name}: {one_line(error)}") from error
            if len(self.failures) < RECORDED:
                self.failures.append(Failure.of(self.plugin.name, self.plugin.version, error))
            else:
                self.more += 1

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note duration, prints, new modules and changed settings, and send prints to the standard error.

        The standard output belongs to the program, which may be writing JSON to it.  Settings that
        would stop the program or other plugins are restored.
        """
        before, settings, begin = set(sys.modules), _settings(), time.perf_counter()
        output: Any = _Output(self)
        try:
            with contextlib.redirect_stdout(output), warnings.catch_warnings():
                try:
                    yield
                finally:
                    now = _settings()
        finally:
            self.seconds += time.perf_counter() - begin
            self.modules |= {name.partition(".")[0] for name in set(sys.modules) - before}
            changed = [name for name in settings if settings[name] != now[name]]
            self.changes.update(dict.fromkeys(changed))
            for name in changed:
                if name in _RESTORE:
                    _RESTORE[name](settings[name])

    def report(self, disabled: bool) -> Plugin:
        """The plugin with all that was noted."""
        more = [f"and {self.more} errors more"] if self.more else []
        return Plugin(
            self.plugin.name,
            self.plugin.version,
            "failed" if self.failures else "disabled" if disabled else "ok",
            "; ".join([*(f.reason for f in self.failures), *more]),
            self.seconds,
            shown_lines(self.printed.strip()),
            tuple(sorted(self.modules)),
            tuple(self.changes),
            self.plugin.copies,
        )


def _settings() -> dict[str, Any]:
    """Settings of the process that an import should leave as they are."""
    return {
        "sys.path": [*sys.path],
        "warning filters": [*warnings.filters],
        "the working directory": _folder(),
        "the recursion limit": sys.getrecursionlimit(),
        "the handler of Ctrl-C": signal.getsignal(signal.SIGINT),
        "the standard error": sys.stderr,
    }


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


def _restore_handler(handler: Any) -> None:
    with contextlib.suppress(ValueError, TypeError):  # not in the main thread; not set from Python
        signal.signal(signal.SIGINT, handler)


def _restore_folder(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.chdir(folder)


_RESTORE: dict[str, Callable[[Any], object]] = {
    "the working directory": _restore_folder,
    "the recursion limit": sys.setrecursionlimit,
    "the handler of Ctrl-C": _restore_handler,
    "the standard error": lambda stream: setattr(sys, "stderr", stream),
}
"""Without these the program or other plugins would not work; a plugin's own modules may need the rest."""


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

    def close(self) -> None:
        """Nothing: the standard error stays open."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
