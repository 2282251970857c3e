"""Installs packages, and those of ``tests/plugins`` for processes that find them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from support.programs import run

SOURCES = Path(__file__).parents[1] / "plugins"

BUILD = """
import os, sys
from setuptools import build_meta
for folder in sys.argv[1:]:
    os.chdir(folder)
    build_meta.build_wheel(os.path.join(folder, "dist"))
"""


def install_packages(targets: Mapping[Path, Path]) -> None:
    """Install packages without pip, which starts Python four times for each.

    Args:
        targets: By the folder of its ``pyproject.toml``, in which building leaves files, the folder that
            each package goes to.
    """
    sources = [str(source.resolve()) for source in targets]
    subprocess.run(
        [sys.executable, "-c", BUILD, *sources], check=True, timeout=300, capture_output=True
    )
    for source, target in targets.items():
        (wheel,) = (source / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            file.extractall(target)


@dataclass(frozen=True)
class InstalledPlugins:
    """Plug-ins installed in one folder each, which a process gets on its path."""

    root: Path

    def folder(self, name: str) -> Path:
        """The folder of a package; all are installed at first use, from copies."""
        with FileLock(self.root / "lock"):  # the processes of a session share the folder
            if not (self.root / "sources").exists():
                sources = Path(shutil.copytree(SOURCES, self.root / "sources"))
                names = [each.name for each in sources.iterdir()]
                install_packages({sources / each: self.root / each for each in names})
        return self.root / name

    def run(
        self,
        *arguments: str,
        plugins: str = "",
        cwd: Path | None = None,
        anew: bool = False,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run Python with these plug-ins installed.

        Args:
            arguments: Arguments of the interpreter, as ``"-c", code``.
            plugins: Names of folders in ``tests/plugins``, separated by blanks.
            cwd: Its working directory.
            anew: Whether Python is started, and not forked from a process that has imported libraries.
            variables: Environment variables.
        """
        folders = [str(self.folder(name)) for name in plugins.split()]
        folders += [variables.pop("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, folders))
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CCL_")}
        env = {**clean, "PYTHONPATH": path, **variables}
        if not anew:
            return run(*arguments, env=env, cwd=cwd or self.root)
        command = [sys.executable, *arguments]
        options: Any = {"capture_output": True, "text": True, "timeout": 120}
        return subprocess.run(command, env=env, cwd=cwd or self.root, **options)

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
