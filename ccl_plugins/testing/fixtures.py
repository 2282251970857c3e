"""pytest fixtures that install plug-ins for one test; pytest loads them wherever ccl-plugins is installed.

pytest imports this module at every start, so it imports nothing slow.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import ccl_registry as engine


class PluginInstaller:
    """Installs distributions for the duration of a test.

    Args:
        folder: A temporary folder.
        monkeypatch: The patches of the test.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.registries: list[engine.Registry] = []  # each is refreshed after an installation
        self._monkeypatch = monkeypatch

    def __call__(
        self,
        name: str,
        entry_points: Mapping[str, Mapping[str, str]],
        files: Mapping[str, str] | None = None,
        version: str = "0.1",
    ) -> Path:
        """Write a distribution with a real ``.dist-info``, and put it on the path.

        Args:
            name: Its name.
            entry_points: By group, such as ``{"ccl_plugins.kernel": {"ring": "ccl_ring:Ring"}}``.
            files: The text of its modules, by path.
            version: Its version.

        Returns:
            The folder that it is in.
        """
        folder = self.folder / name
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        groups = [
            "\n".join([f"[{group}]", *(f"{key} = {value}" for key, value in points.items())])
            for group, points in entry_points.items()
        ]
        texts = {
            info / "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            info / "entry_points.txt": "\n".join(groups) + "\n",
            **{folder / path: text for path, text in (files or {}).items()},
        }
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return self._add(folder)

    def package(self, source: Path) -> Path:
        """As `install_package`, and put it on the path; returns the folder that it is in."""
        install_package(source, target=self.folder / source.name)
        return self._add(self.folder / source.name)

    def refresh(self) -> None:
        """Have all registries look for plug-ins again."""
        for registry in self.registries:
            registry.refresh()

    def _add(self, folder: Path) -> Path:
        self._monkeypatch.syspath_prepend(str(folder))
        self.refresh()
        return folder


def install_package(*sources: Path, target: Path) -> None:
    """Install packages with pip into one folder, without their dependencies and without network.

    Building leaves files in each of ``sources``, the folders of their ``pyproject.toml``.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *options, *map(str, sources)], check=True, timeout=300)


@pytest.fixture
def install_plugin(tmp_path: Path) -> Iterator[PluginInstaller]:
    """A function that installs a distribution until the test ends.

    ``install_plugin("ccl-ring", {"ccl_plugins.kernel": {"ring": "ccl_ring:Ring"}}, {"ccl_ring.py":
    source})``, or ``install_plugin.package(folder)`` for sources with a ``pyproject.toml``.
    """
    from ccl_plugins.kinds import registry

    with pytest.MonkeyPatch.context() as monkeypatch:
        installer = PluginInstaller(tmp_path / "installed", monkeypatch)
        installer.registries.append(registry())
        yield installer
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_relative_to(installer.folder):
            del sys.modules[name]  # another test may install another module of this name
    installer.refresh()


@pytest.fixture
def ccl_registry(install_plugin: PluginInstaller) -> engine.Registry:
    """A registry of the built-in components and of those that `install_plugin` installs, and no others."""
    from ccl_plugins.kinds import new_registry, registry

    reg = registry()
    others = [plugin.name for plugin in reg.plugins if plugin.name != reg.host]
    isolated = new_registry(disable=others)
    install_plugin.registries.append(isolated)
    return isolated
