"""The installed distributions that declare entry points of a project, read from their metadata."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .spec import normalize

if TYPE_CHECKING:
    from importlib.metadata import Distribution


@dataclass(frozen=True)
class Installed:
    """A distribution with entry points of the project.

    Args:
        name: Its normalized name.
        version: Its version; empty without metadata.
        copies: Where it is installed, ``"1.2 in /folder"``, if that is more than once; the first counts.
        distribution: Its metadata.
    """

    name: str
    version: str
    copies: tuple[str, ...]
    distribution: Distribution


def installed(project: str) -> tuple[list[Installed], tuple[str, ...]]:
    """Distributions with entry points of a project, by name, and leftovers of broken uninstalls.

    Of a distribution that is on ``sys.path`` twice the first counts, as in an import.
    """
    from importlib import metadata  # 30 ms, and not needed before the first look-up

    places: dict[str, dict[str, None]] = defaultdict(dict)
    found: dict[str, Distribution] = {}
    leftovers: dict[str, None] = {}
    for distribution in metadata.distributions():
        # Reading a name reads the whole METADATA file, so only distributions with our groups do it.
        if f"[{project}" in _read(distribution, "entry_points.txt"):
            name = normalize(_field(distribution, "Name"))
            place = os.path.realpath(str(distribution.locate_file("")))
            try:
                # An earlier distribution of that name without such entry points hides this one.
                found[name] = metadata.distribution(name)
            except (metadata.PackageNotFoundError, ValueError):
                # A broken uninstall left the folder; nothing of that name is installed.
                leftovers[f"{name or 'a plugin without a name'} in {place}"] = None
                continue
            # A build in a source folder leaves metadata without METADATA, which is no installation.
            if _read(distribution, "METADATA"):
                places[name][f"{_field(distribution, 'Version')} in {place}"] = None
    plugins = []
    for name, distribution in sorted(found.items()):
        copies = tuple(places[name]) if len(places[name]) > 1 else ()
        plugins.append(Installed(name, _field(distribution, "Version"), copies, distribution))
    return plugins, tuple(leftovers)


def _read(distribution: Distribution, file: str) -> str:
    """A file of the metadata; empty if it is missing or is not text."""
    try:
        return distribution.read_text(file) or ""
    except UnicodeDecodeError:
        return ""


def _field(distribution: Distribution, field: str) -> str:
    """A field of the metadata; empty if the field or the file is missing."""
    text = _read(distribution, "METADATA") or _read(distribution, "PKG-INFO")
    found = re.search(rf"^{field}:[ \t]*(\S+)", text, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else ""
