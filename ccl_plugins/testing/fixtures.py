"""Fixtures for the tests of plug-ins; pytest finds them where ccl-plugins is installed.

Nothing slow is imported here: this is read at every start of pytest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ccl_plugins._engine import engine


class PluginInstaller:
    """Installs distributions for the length of a test.

    Args:
        folder: A temporary folder.
        monkeypatch: Of the test.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._registries: list[engine.Registry] = []

    def __call__(
        self,
        name: str,
        entry_points: Mapping[str, Mapping[str, str]],
        files: Mapping[str, str] | None = None,
        version: str = "0.1",
    ) -> Path:
        """Write a distribution and put it on the path.

        Args:
            name: Its name.
            entry_points: By group, as ``{"ccl_plugins.kernel": {"ring": "ccl_ring:Ring"}}``.
            files: Its modules, by path.
            version: Its version.

        Returns:
            The folder that holds it.
        """
        from ccl_plugins.testing.installing import write_distribution

        target = self.folder / name
        write_distribution(target, name, entry_points, files, version)
        self._see(target)
        return target

    def package(self, source: Path) -> Path:
        """Install a package from its sources with pip, and put it on the path.

        Building leaves files in ``source``.

        Args:
            source: The folder of its ``pyproject.toml``.

        Returns:
            The folder that holds it.
        """
        from ccl_plugins.testing.installing import install_package

        target = self.folder / source.name
        install_package(source, target)
        self._see(target)
        return target

    def tell(self, registry: engine.Registry) -> None:
        """Have a registry look again after each installation."""
        self._registries.append(registry)

    def refresh(self) -> None:
        """Have all registries look again."""
        for registry in self._registries:
            registry.refresh()

    def _see(self, target: Path) -> None:
        self._monkeypatch.syspath_prepend(str(target))
        self.refresh()


@pytest.fixture
def install_plugin(tmp_path: Path) -> Iterator[PluginInstaller]:
    """Distributions that are installed, a real ``.dist-info`` each, until the test ends.

    ``install_plugin("ccl-ring", {"ccl_plugins.kernel": {"ring": "ccl_ring:Ring"}}, {"ccl_ring.py":
    source})``, or ``install_plugin.package(folder)`` for sources with a ``pyproject.toml``.
    """
    from ccl_plugins.kinds import registry

    with pytest.MonkeyPatch.context() as monkeypatch:
        installer = PluginInstaller(tmp_path / "installed", monkeypatch)
        installer.tell(registry())
        yield installer
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_relative_to(installer.folder):
            del sys.modules[name]  # another test may install another of its name
    installer.refresh()


@pytest.fixture
def ccl_registry(install_plugin: PluginInstaller) -> engine.Registry:
    """A registry of the built-in components and of what `install_plugin` installs, and of no others."""
    from ccl_plugins.kinds import new_registry, registry

    found = registry()
    strangers = [plugin.name for plugin in found.plugins if plugin.name != found.host]
    isolated = new_registry(disable=strangers)
    install_plugin.tell(isolated)
    return isolated
