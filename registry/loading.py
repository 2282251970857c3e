"""When plugins are read: once, at the first look-up, and which of them are left out."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterable, Mapping
from types import ModuleType

import pluggy

from .discovery import Discovery
from .errors import RegistryError
from .spec import Kind, normalize


class Loader:
    """Reads plugins at the first look-up; the arguments are those of `Registry`."""

    def __init__(
        self,
        project: str,
        group: str,
        kinds: Mapping[str, Kind],
        hookspecs: type | ModuleType | None,
        hook_prefix: str,
        host: str,
        disable: Iterable[str] | None,
        strict: bool | None,
        env_prefix: str,
    ) -> None:
        self._fixed = (project, group, kinds)
        self._hookspecs = hookspecs or _components_only(project, hook_prefix)
        self._hook_prefix, self._host = hook_prefix, host
        self._disable = None if disable is None else tuple(disable)
        self._strict, self._env = strict, env_prefix
        self._lock = threading.RLock()
        self._discovery: Discovery | None = None
        self._reading = False

    @property
    def found(self) -> Discovery:
        """What is installed.

        Raises:
            RegistryError: If a plugin asks for it while it is being read itself.
        """
        with self._lock:
            if self._discovery is None:
                if self._reading:
                    raise RegistryError("plugins are still being read; ask for components later")
                self._reading = True
                try:
                    self._discovery = self._discover()
                finally:
                    self._reading = False
            return self._discovery

    @property
    def strict(self) -> bool:
        """Whether what a plugin raises is raised instead of recorded."""
        if self._strict is None:
            return os.environ.get(f"{self._env}_STRICT", "0") not in ("", "0")
        return self._strict

    def refresh(self) -> None:
        """Forget what is installed, to see what was installed since."""
        importlib.invalidate_caches()
        with self._lock:
            self._discovery = None

    def _discover(self) -> Discovery:
        disable = self._disable
        if disable is None:
            disable = tuple(os.environ.get(f"{self._env}_DISABLE", "").split(","))
        names = {normalize(name) for name in disable}

        def blocked(plugin: str) -> bool:
            return plugin in names or ("*" in names and plugin != self._host)

        return Discovery(*self._fixed, self._hookspecs, self._hook_prefix, blocked, self.strict)


def _components_only(project: str, hook_prefix: str) -> type:
    """The hook specification of a project that has no hooks of its own."""

    def components() -> object:
        """Offer components that no entry point can name."""

    marked = pluggy.HookspecMarker(project)(components)
    return type("Hooks", (), {f"{hook_prefix}components": staticmethod(marked)})
