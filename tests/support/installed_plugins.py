"""Installs the packages of ``tests/plugins`` with pip, and runs processes that find them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ccl_plugins.testing.fixtures import install_package

SOURCES = Path(__file__).parents[1] / "plugins"


@dataclass(frozen=True)
class InstalledPlugins:
    """Plug-ins installed in one folder each, which a process gets on its path."""

    root: Path

    def folder(self, name: str) -> Path:
        """The folder of a package, installed at first use; from a copy, since a build leaves files."""
        target = self.root / name
        with FileLock(f"{target}.lock"):  # the processes of a session share the folder
            if not target.exists():
                source = shutil.copytree(SOURCES / name, self.root / "sources" / name)
                install_package(Path(source), target=target)
        return target

    def run(
        self, *arguments: str, plugins: str = "", cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Python with these plug-ins installed.

        Args:
            arguments: Arguments of the interpreter, as ``"-c", code``.
            plugins: Names of folders in ``tests/plugins``, separated by blanks.
            cwd: Its working directory.
            variables: Environment variables.
        """
        folders = [str(self.folder(name)) for name in plugins.split()]
        folders += [variables.pop("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, folders))
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CCL_")}
        return subprocess.run(
            [sys.executable, *arguments],
            env={**clean, "PYTHONPATH": path, **variables},
            cwd=cwd or self.root,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def python(self, code: str, *, plugins: str = "", **variables: str) -> str:
        """Run code, which must succeed, and return what it prints."""
        done = self.run("-c", code, plugins=plugins, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ccl(
        self, *words: str, plugins: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.run("-m", "ccl_plugins", *words, plugins=plugins, **variables)
