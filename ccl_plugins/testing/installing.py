"""Putting a distribution in a folder: a real ``.dist-info``, as an installer leaves it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def write_distribution(
    folder: Path,
    name: str,
    entry_points: Mapping[str, Mapping[str, str]],
    files: Mapping[str, str] | None = None,
    version: str = "0.1",
    requires: tuple[str, ...] = (),
) -> Path:
    """Write a distribution; with the folder on ``sys.path`` it is installed.

    Args:
        folder: Where.
        name: Its name.
        entry_points: By group, as ``{"ccl_plugins.kernel": {"ring": "ccl_ring:Ring"}}``.
        files: Its modules, by path.
        version: Its version.
        requires: What it depends on.

    Returns:
        The ``.dist-info``.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    heading = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    heading += [f"Requires-Dist: {each}" for each in requires]
    (info / "METADATA").write_text("\n".join(heading) + "\n", encoding="utf-8")
    lines = []
    for group, points in entry_points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for path, text in (files or {}).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return info


def install_package(source: Path, target: Path) -> None:
    """Install a package with pip into a folder, without what it depends on and without network.

    Building leaves files in ``source``.

    Raises:
        subprocess.CalledProcessError: If pip fails.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *options, str(source)], check=True, timeout=300)
