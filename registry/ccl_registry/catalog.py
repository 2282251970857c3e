"""The catalog: find a component by name, choose it with parameters, build it."""

from __future__ import annotations

import importlib
import inspect
import numbers
import os
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .choice import Choice
from .discovery import Discovery
from .distributions import Remnant
from .errors import (
    AmbiguousName,
    InvalidConfig,
    InvalidParameter,
    RegistryError,
    UnknownComponent,
    did_you_mean,
    placed,
)
from .params import Schema, fill, schema
from .plugin import Failure, Plugin
from .quoting import escaped, pip_install, short_repr
from .source import Sources
from .spec import (
    LOCAL,
    ComponentSpec,
    Kind,
    LocalSpec,
    Project,
    fold,
    normalize,
    with_article,
)


class Registry:
    """The components of a project: those of installed plugins and of the running session.

    Plugins are read at the first look-up, and a component is imported when it is chosen.

    Args:
        project: The project.
        disable: Names of plugins to leave out, ``"*"`` for all but the host; by default those in
            the variable ``<PREFIX>_DISABLE``, separated by commas.
        strict: Whether errors of plugins are raised instead of recorded; by default whether the
            variable ``<PREFIX>_STRICT`` is set to anything but 0.
    """

    _lock = threading.RLock()  # of all registries, since reading hooks replaces the standard output

    def __init__(
        self, project: Project, disable: Iterable[str] | None = None, strict: bool | None = None
    ) -> None:
        self.kinds: Mapping[str, Kind] = {kind.name: kind for kind in project.kinds}
        self.host = project.host
        self._protocols = {kind.protocol: kind.name for kind in project.kinds}
        self._session: dict[tuple[str, str], LocalSpec] = {}
        self._project = project
        self._disable = None if disable is None else tuple(disable)
        self._strict = strict
        self._discovery: Discovery | None = None
        self._reading = False

    @property
    def strict(self) -> bool:
        """Whether errors of plugins are raised instead of recorded."""
        if self._strict is None:
            return self._variable("STRICT") not in ("", "0")
        return self._strict

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The installed plugins with their states, by name."""
        return tuple(self._found.plugins)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The errors that plugins raised while they were read, and in hooks."""
        return tuple(failure for plugin in self.plugins for failure in plugin.failures)

    @property
    def remnants(self) -> tuple[Remnant, ...]:
        """Metadata of plugins to which no installed distribution belongs."""
        return self._found.remnants

    def call(
        self, hook: str, options: Mapping[str, Mapping[str, Any]] | None = None, **given: Any
    ) -> list[tuple[str, Any]]:
        """Call a hook of every plugin, by name.

        An implementation's error is recorded, with a warning, and its result is left out.

        Args:
            hook: The hook.
            options: The tables of plugins; an implementation gets its plugin's table as
                ``options``.
            **given: The other arguments of the hook.

        Returns:
            ``(plugin, result)`` for each result that is not None, those of iterators as lists.

        Raises:
            InvalidConfig: If the hook `may_reject`, and an implementation raises an error.
            PluginFailed: If the error is not an ``Exception``; for every hook, if the registry is
                strict.
        """
        return self._found.call(hook, options or {}, given)

    def read_options(self, data: Any, where: str) -> dict[str, dict[str, Any]]:
        """Tables of options by the normalized names of plugins, from those of a configuration.

        Raises:
            InvalidConfig: For anything but tables, a plugin that is not installed or is given twice, and
                one whose hooks take no options.
        """
        if not isinstance(data, Mapping):
            raise InvalidConfig(f"{where}: must be a table of plugins, not {short_repr(data)}")
        plugins, tables = {plugin.name: plugin for plugin in self.plugins}, {}
        for written, table in data.items():
            name = normalize(str(written))
            if name not in plugins:
                raise InvalidConfig(
                    f"{where}: no plugin {written!r}.{did_you_mean(name, plugins, 'Installed:')}"
                )
            if name in tables:
                raise InvalidConfig(f"{where}: {name} is given twice")
            if not isinstance(table, Mapping):
                raise InvalidConfig(f"{where}.{written}: must be a table, not {short_repr(table)}")
            if plugins[name].state == "ok" and name not in self._found.with_options():
                raise InvalidConfig(f"{where}.{written}: no hook of {name} takes options")
            tables[name] = dict(table)
        return tables

    def refresh(self) -> None:
        """Read the plugins again at the next look-up, to find newly installed ones."""
        importlib.invalidate_caches()
        with self._lock:
            self._discovery = None

    @property
    def _found(self) -> Discovery:
        """The plugins and their components, read at the first access."""
        with self._lock:
            if self._discovery is None:
                if self._reading:
                    raise RegistryError("plugins are still being read; ask for components later")
                disable = self._disable
                if disable is None:
                    disable = tuple(self._variable("DISABLE").split(","))
                self._reading = True
                try:
                    self._discovery = Discovery(self._project, disable, self.strict)
                finally:
                    self._reading = False
            return self._discovery

    def _variable(self, name: str) -> str:
        return os.environ.get(f"{self._project.prefix.upper()}_{name}", "")

    def kind(self, name: str) -> Kind:
        """The kind of that name.

        Raises:
            UnknownComponent: If there is none.
        """
        kind = self.kinds.get(fold(name))
        if kind is None:
            raise UnknownComponent(f"no kind {name!r}.{did_you_mean(name, self.kinds)}")
        return kind

    def specs(self, kind: str | None = None) -> tuple[ComponentSpec, ...]:
        """The available components, by kind and name; of the same name, the host's comes first."""
        wanted = (self.kind(kind).name,) if kind else tuple(self.kinds)
        specs = [s for s in (*self._found.specs, *self._session.values()) if s.kind in wanted]
        return tuple(sorted(specs, key=lambda s: (self._place(s)[0], s.name, *self._place(s))))

    def _place(self, spec: ComponentSpec) -> tuple[int, bool, str]:
        return list(self.kinds).index(spec.kind), spec.plugin != self.host, spec.plugin

    def named(self, name: str, kind: str | None = None) -> list[ComponentSpec]:
        """The components with this present or old name, of a kind or of all; the host's come first."""
        specs = [*self._found.named.get(name, ())]
        specs += [spec for spec in self._session.values() if spec.name == name]
        return sorted((s for s in specs if kind in (None, s.kind)), key=self._place)

    def find(self, kind: str, name: str, where: str = "") -> ComponentSpec:
        """The component of a kind with this name; an old name is found with a warning.

        Args:
            kind: The name of the kind.
            name: ``rbf``, ``ccl-plugins/rbf`` or ``kernel:ccl-plugins/rbf``; upper case and dashes
                in a component's name are accepted.
            where: The place in a config, for the warning.

        Raises:
            UnknownComponent: If there is none; the message has near names and failed plugins.
            AmbiguousName: If several plugins offer it and none of them is the host.
        """
        kind = self.kind(kind).name
        if not isinstance(name, str):
            raise UnknownComponent(f"{with_article(kind)} is found by its name, not by {name!r}")
        of, colon, rest = name.rpartition(":")
        if colon and fold(of) != kind:
            raise UnknownComponent(
                f"{name!r} is of kind {of!r}, but {with_article(kind)} is needed"
            )
        plugin, slash, bare = rest.rpartition("/")
        plugin, bare = normalize(plugin), fold(bare)
        named = [s for s in self.named(bare) if not slash or s.plugin == plugin]
        of_kind = [spec for spec in named if spec.kind == kind]
        chosen = self._preferred(of_kind)
        if chosen:
            if chosen.name != bare:
                place = f"{where}: " if where else ""
                said = f"{place}the {kind} {bare!r} is called {chosen.name!r} now"
                warnings.warn(said, FutureWarning, stacklevel=2)
            return chosen
        if of_kind:
            ids = ", ".join(repr(f"{spec.plugin}/{bare}") for spec in of_kind)
            raise AmbiguousName(f"several plugins offer the {kind} {bare!r}; say which: {ids}")
        parts = [f"no {kind} {name!r}."]
        if slash and plugin == LOCAL:
            parts.append(f"It is not defined in this session; local({kind!r}, ...) defines it.")
        elif slash and plugin not in {p.name for p in self.plugins}:
            command = pip_install(plugin)
            missing = f"{plugin} is not installed: {command}" if command else ""
            parts.append(missing or f"{short_repr(plugin)} is not the name of a plug-in.")
        else:
            names = sorted({spec.name for spec in self.specs(kind)})
            parts.append(did_you_mean(bare, names).strip())
            parts += [f"There is {with_article(s.kind)} of that name." for s in named[:1]]
        raise UnknownComponent(" ".join([*parts, *self._unread()]))

    def short_name(self, spec: ComponentSpec) -> str:
        """The shortest name that finds a component: ``rbf``, or ``plugin/rbf`` if that is taken."""
        same = self.named(spec.name, spec.kind)
        return spec.name if self._preferred(same) == spec else spec.id

    def _preferred(self, same: Sequence[ComponentSpec]) -> ComponentSpec | None:
        """Of components with the same name, the only one or the host's, which is sorted first."""
        alone = len(same) == 1 or (same and same[0].plugin == self.host)
        return same[0] if alone else None

    def _unread(self) -> list[str]:
        """Sentences on plugins whose components are not available."""
        failed = [f"{p.name} ({p.reason})" for p in self.plugins if p.state == "failed"]
        disabled = [p.name for p in self.plugins if p.state == "disabled"]
        parts = []
        if self.host not in {p.name for p in self.plugins}:
            parts.append(
                f"{self.host} is not installed itself: run pip install -e . in its folder."
            )
        if failed:
            plural = "s" * (len(failed) > 1)
            parts.append(f"{len(failed)} plugin{plural} failed: {'; '.join(failed)}.")
        if disabled:
            parts.append(f"Disabled: {', '.join(disabled)}.")
        return parts

    def summary(self, spec: ComponentSpec, sources: Sources | None = None) -> str:
        """The first line of a docstring, read without an import; empty if it cannot be read.

        Args:
            spec: The component.
            sources: The source files that are read for several components.
        """
        if isinstance(spec, LocalSpec):
            doc = getattr(spec.value, "__doc__", None)
            return escaped(doc.strip().partition("\n")[0]) if isinstance(doc, str) else ""
        return (sources or Sources()).summary(spec.target)

    def schema(self, spec: ComponentSpec) -> Schema:
        """The parameters that a component takes; this imports it.

        Raises:
            PluginFailed: If the import fails.
            InvalidSpec: If it has no signature, takes ``*args`` or ``**kwargs``, or has a hint that cannot
                be resolved.
        """
        target = spec.load()
        if _is_object(spec):
            return Schema(())
        with placed(spec.label):
            return schema(target, self.kinds[spec.kind].supplied)

    def choose(self, kind: str, name: str, /, **params: Any) -> Choice:
        """A component with its parameters, checked and complete, not built yet.

        Raises:
            InvalidParameter: For an unknown name, a missing value, or a value of the wrong type.
            RegistryError: See `find` and `schema`.
        """
        return self._choose(self.find(kind, name), params)

    def create(self, kind: str, name: str, /, **params: Any) -> Any:
        """Choose and build a component; parameters may include those that a pipeline supplies.

        Raises:
            RegistryError: See `choose` and `Choice.build`.
        """
        spec = self.find(kind, name)
        taken = [p for p in self.schema(spec).supplied if p.name in params]
        given = {p.name: params.pop(p.name) for p in taken}
        supplied = fill(Schema(tuple(taken)), given, self, f"{spec.kind} {spec.id}")
        for key, value in supplied.items():
            if isinstance(value, Choice):
                supplied[key] = value.build(supplied, where=f"{spec.kind}.{key}")
        return self._choose(spec, params).build(supplied)

    def define(self, kind: str, value: Any) -> ComponentSpec:
        """Offer a class or object of the session as ``local/<class>``, in place of one with that name."""
        spec = LocalSpec.of(self.kind(kind).name, value)
        self._session[spec.kind, spec.name] = spec
        return spec

    def local(self, kind: str, value: Any, /, **params: Any) -> Choice:
        """Define and choose a class of the session with its parameters, or an object."""
        return self._choose(self.define(kind, value), params)

    def read(self, kind: str, data: Any, where: str = "") -> Choice:
        """The choice that a value stands for.

        Args:
            kind: The kind that it must have.
            data: A name, a table with ``use`` and parameters, a choice, or an object.
            where: The place in a config, for messages.

        Raises:
            InvalidConfig: For any other value.
            RegistryError: See `choose`; the message has the place.
        """
        kind, place = self.kind(kind).name, f"{where}: " if where else ""
        one = with_article(kind)
        if isinstance(data, Offer):
            data = data()
        if isinstance(data, Choice):
            if data.kind != kind:
                raise InvalidParameter(f"{place}must be {one}, not the {data.kind} {data!r}")
            return data
        data = {"use": data} if isinstance(data, str) else data
        if isinstance(data, Mapping):
            if not isinstance(data.get("use"), str):
                has = ", ".join(map(str, data)) or "nothing"
                raise InvalidConfig(f'{place}{one} needs use = "its name"; it has {has}')
            params = {key: value for key, value in data.items() if key != "use"}
            with placed(where):
                spec = self.find(kind, data["use"], where)
            return self._choose(spec, params, where)
        if data is None or isinstance(data, numbers.Number | list | tuple | bytes):
            raise InvalidConfig(f"{place}must be the name of {one} or a table, not {data!r}")
        return self._choose(LocalSpec.of(kind, data), {}, where)

    def read_unhinted(self, data: Any, where: str = "") -> Any:
        """The choice that ``use = "kind:name"`` or an offer stands for; any other value unchanged."""
        if isinstance(data, Offer):
            return data()
        if isinstance(data, Mapping) and isinstance(data.get("use"), str):
            kind, colon, _ = data["use"].partition(":")
            return self.read(kind, data, where) if colon else data
        return data

    def read_fields(self, hint: type, data: Any, where: str) -> dict[str, Any]:
        """The fields of a dataclass, checked and complete, from a table or from an instance.

        Raises:
            InvalidParameter: For an unknown field, a missing value, or a value of the wrong type.
        """
        table = data if isinstance(data, Mapping) else vars(data)
        return fill(schema(hint), table, self, with_article(hint.__name__.lower()), where)

    def kind_of(self, hint: object) -> str | None:
        """The kind whose protocol a type hint is or inherits from."""
        bases = getattr(hint, "__mro__", ())
        names = (f"{base.__module__}:{base.__qualname__}" for base in bases)
        return next((self._protocols[name] for name in names if name in self._protocols), None)

    def _choose(self, spec: ComponentSpec, params: Mapping[str, Any], where: str = "") -> Choice:
        with placed(where):
            declared = self.schema(spec)
        values = fill(declared, params, self, f"{spec.kind} {spec.id}", where)
        target = None if _is_object(spec) else spec.load()
        return Choice(spec, self.kinds[spec.kind], values, target, declared, self.short_name(spec))


class Namespace:
    """The components of a kind as attributes: ``kernel.rbf(scale=0.1)`` is ``kernel("rbf", scale=0.1)``."""

    def __init__(self, registry: Registry, kind: str) -> None:
        self._registry = registry
        self._kind = kind

    def __call__(self, name: str, /, **params: Any) -> Choice:
        """The component of that name with these parameters, not built yet."""
        return self._registry.choose(self._kind, name, **params)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # notebooks and copy look for such attributes on every object
            raise AttributeError(name)
        try:
            return Offer(self._registry, self._registry.find(self._kind, name))
        except UnknownComponent as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        return sorted({spec.name for spec in self._registry.specs(self._kind)})

    def __repr__(self) -> str:
        return f"<{self._kind}: {', '.join(dir(self))}>"


class Offer:
    """An available component: call it with parameters to choose it; it prints with its parameters.

    Its signature and documentation are those of its component, which is imported when they are read.
    """

    def __init__(self, registry: Registry, spec: ComponentSpec) -> None:
        self._registry, self._spec = registry, spec

    def __call__(self, **params: Any) -> Choice:
        """The choice with these parameters."""
        return self._registry.choose(self._spec.kind, self._spec.id, **params)

    def __repr__(self) -> str:
        parameters = ", ".join(map(str, self._registry.schema(self._spec).parameters))
        return f"{self._registry.short_name(self._spec)}({parameters})"

    @property
    def __name__(self) -> str:
        return self._spec.name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return inspect.getdoc(self._spec.load())

    @property
    def __signature__(self) -> inspect.Signature:
        named = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [
                inspect.Parameter(p.name, named, default=p.default, annotation=p.text or p.hint)
                for p in self._registry.schema(self._spec).parameters
            ]
        )


def _is_object(spec: ComponentSpec) -> bool:
    """Whether it is an object of the session, already built."""
    return isinstance(spec, LocalSpec) and not isinstance(spec.value, type)
