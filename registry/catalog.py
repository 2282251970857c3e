"""The catalog: look a component up, choose it, build it."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from .choice import Choice
from .distributions import Failure, Plugin
from .errors import InvalidConfig, InvalidParameter, RegistryError, UnknownComponent
from .loading import Loader
from .lookup import look_up, shown
from .namespace import Offer
from .params import Schema, fill, schema
from .session import Session, local_spec
from .source import summary
from .spec import ComponentSpec, Kind, LocalSpec, did_you_mean, fold, normalize, with_article


class Registry:
    """The components of one project: its own, those of installed plugins and of the session.

    Nothing is read before the first look-up, and no component is imported before it is chosen.

    Args:
        project: Name of the project's hook markers.
        group: Prefix of its entry-point groups, ``<group>.<kind>`` and ``<group>.hooks``.
        kinds: What kinds of component there are.
        hookspecs: A class or module of hook specifications, ``<hook_prefix>components`` among them.
        hook_prefix: Prefix of that hook's name.
        host: The distribution whose components win over others of the same name.
        disable: Plugins to leave out unread, ``"*"`` for all but the host; by default those in the
            variable ``<env_prefix>_DISABLE``, separated by commas.
        strict: Raise what a plugin raises instead of recording it; by default whether
            ``<env_prefix>_STRICT`` is set to anything but 0.
        env_prefix: Prefix of the two variables.
    """

    def __init__(
        self,
        project: str,
        group: str,
        kinds: Iterable[Kind],
        hookspecs: type | ModuleType | None = None,
        hook_prefix: str = "",
        *,
        host: str,
        disable: Iterable[str] | None = None,
        strict: bool | None = None,
        env_prefix: str = "CCL",
    ) -> None:
        self.kinds: Mapping[str, Kind] = {kind.name: kind for kind in kinds}
        self.host = normalize(host)
        self._protocols = {kind.protocol: kind.name for kind in self.kinds.values()}
        self._session = Session()
        self._loader = Loader(
            project,
            group,
            self.kinds,
            hookspecs,
            hook_prefix,
            self.host,
            disable,
            strict,
            env_prefix,
        )

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins installed, with their states, by name."""
        return self._loader.found.plugins

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What plugins failed at."""
        return self._loader.found.failures

    @property
    def remains(self) -> tuple[str, ...]:
        """What broken uninstalls left behind: ``"name in /folder"``."""
        return tuple(self._loader.found.remains)

    @property
    def strict(self) -> bool:
        """Whether what a plugin raises is raised instead of recorded."""
        return self._loader.strict

    def call(self, hook: str, **kwargs: Any) -> list[tuple[str, Any]]:
        """Call a hook, plugin by plugin in order of name: ``(plugin, answer)``, None left out."""
        return self._loader.found.call(hook, **kwargs)

    def refresh(self) -> None:
        """Forget what is installed, to see what was installed since."""
        self._loader.refresh()

    def kind(self, name: str) -> Kind:
        """The kind of that name.

        Raises:
            UnknownComponent: If there is none.
        """
        found = self.kinds.get(fold(name))
        if found is None:
            near = did_you_mean(name, self.kinds) or f" There are: {', '.join(self.kinds)}."
            raise UnknownComponent(f"no kind {name!r}.{near}")
        return found

    def specs(self, kind: str | None = None) -> tuple[ComponentSpec, ...]:
        """The components on offer, by kind and name; of one name, the built-in comes first."""
        order = list(self.kinds)
        wanted = self.kind(kind).name if kind else None
        found = [*self._loader.found.specs, *self._session.specs]
        found.sort(key=lambda s: (order.index(s.kind), s.name, s.plugin != self.host, s.plugin))
        return tuple(spec for spec in found if wanted in (None, spec.kind))

    def find(self, kind: str, name: str) -> ComponentSpec:
        """The component that a name means.

        Args:
            kind: The name of a kind.
            name: ``rbf``, ``ccl-plugins/rbf`` or ``kernel:ccl-plugins/rbf``; case and dashes of a
                component's name do not count.

        Raises:
            UnknownComponent: If there is none; near names and failed plugins are named.
            AmbiguousName: If several plugins offer it and none of them is the host.
        """
        return look_up(self.specs(), self.kind(kind).name, name, self.host, self.plugins)

    def shown(self, spec: ComponentSpec) -> str:
        """The shortest name by which a component is found."""
        return shown(self.specs(spec.kind), spec, self.host)

    def summary(self, spec: ComponentSpec) -> str:
        """The first line of its docstring, read without importing it; empty if that cannot be."""
        if isinstance(spec, LocalSpec):
            return (getattr(spec.value, "__doc__", None) or "").strip().partition("\n")[0]
        return summary(spec.target)

    def schema(self, spec: ComponentSpec) -> Schema:
        """What a component takes; this imports it.

        Raises:
            PluginFailed: If that fails.
            InvalidSpec: If its parameters are not all named.
        """
        if _is_object(spec):
            return Schema(())
        return schema(spec.load(), self.kinds[spec.kind].supplied)

    def choose(self, kind: str, name: str, /, **params: Any) -> Choice:
        """A component with its parameters, checked and complete, not built yet.

        Raises:
            InvalidParameter: For an unknown name, a missing value, or one of the wrong type.
            RegistryError: What `find` and `schema` raise.
        """
        return self._choose(self.find(kind, name), params)

    def create(
        self, kind: str, name: str, /, *, supplied: Mapping[str, Any] | None = None, **params: Any
    ) -> Any:
        """Choose and build; what a pipeline would supply may stand among the parameters."""
        spec = self.find(kind, name)
        taken = [p for p in self.schema(spec).supplied if p.name in params]
        given = {p.name: params.pop(p.name) for p in taken}
        given = fill(Schema(tuple(taken)), given, self, f"{spec.kind} {spec.id}")
        given |= dict(supplied or {})
        for key, value in given.items():
            if isinstance(value, Choice):
                given[key] = value.build(given)
        return self._choose(spec, params).build(given)

    def define(self, kind: str, value: Any) -> ComponentSpec:
        """Make a class or object of the session known as ``local/<class>``, until another is."""
        spec = local_spec(self.kind(kind).name, value)
        self._session.define(spec)
        return spec

    def local(self, kind: str, value: Any, /, **params: Any) -> Choice:
        """The choice of something of the session: a class with its parameters, or an object."""
        return self._choose(self.define(kind, value), params)

    def read(self, kind: str, data: Any, where: str = "") -> Choice:
        """The choice that a value stands for.

        Args:
            kind: The kind it must be of.
            data: A name, a table with ``use`` and parameters, a choice, or an object.
            where: The place in a config, for messages.

        Raises:
            InvalidConfig: If it is none of these.
            RegistryError: What `choose` raises, with the place.
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
                raise InvalidConfig(f'{place}{one} needs use = "its name"; there is {has}')
            params = {key: value for key, value in data.items() if key != "use"}
            try:
                spec = self.find(kind, data["use"])
            except RegistryError as error:
                raise type(error)(f"{place}{error}") from None
            return self._choose(spec, params, where)
        if data is None or isinstance(data, numbers.Number | list | tuple | bytes):
            raise InvalidConfig(f"{place}must be the name of {one} or a table, not {data!r}")
        return self._choose(local_spec(kind, data), {}, where)

    def read_loose(self, data: Any, where: str = "") -> Any:
        """The choice where a value says itself that it is one, else the value as it is."""
        if isinstance(data, Offer):
            return data()
        if isinstance(data, Mapping) and isinstance(data.get("use"), str):
            kind, colon, _ = data["use"].partition(":")
            return self.read(kind, data, where) if colon else data
        return data

    def kind_of(self, hint: object) -> str | None:
        """The kind whose protocol a type hint is, or inherits from."""
        bases = getattr(hint, "__mro__", ())
        names = (f"{base.__module__}:{base.__qualname__}" for base in bases)
        return next((self._protocols[name] for name in names if name in self._protocols), None)

    def _choose(self, spec: ComponentSpec, params: Mapping[str, Any], where: str = "") -> Choice:
        try:
            found = self.schema(spec)
        except RegistryError as error:
            if not where:
                raise
            raise type(error)(f"{where}: {error}") from error.__cause__
        values = fill(found, params, self, f"{spec.kind} {spec.id}", where)
        target = None if _is_object(spec) else spec.load()
        return Choice(spec, values, target, found, self.shown(spec))


def _is_object(spec: ComponentSpec) -> bool:
    """Whether it is an object of the session, built already."""
    return isinstance(spec, LocalSpec) and not isinstance(spec.value, type)
