"""The installed distributions that declare entry points of a project, from their metadata."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .errors import one_line
from .plugin import Entry, Plugin
from .quoting import escaped, is_distribution, is_version, short_repr
from .spec import normalize

if TYPE_CHECKING:
    from importlib.metadata import Distribution


@dataclass(frozen=True)
class Remnant:
    """Metadata with entry points of the project, to which no installed distribution belongs.

    Args:
        name: The distribution's name, or empty.
        folder: The folder or file of the metadata.
        reason: The fault.
    """

    name: str
    folder: str
    reason: str


class _Head(NamedTuple):
    """The facts in a distribution's METADATA."""

    name: str = ""
    version: str = ""
    fault: str = ""
    """The reason if it has no name."""


def installed(project: str) -> tuple[list[Plugin], tuple[Remnant, ...]]:
    """Distributions with entry points of a project, by name, and metadata that belongs to none.

    If a distribution is on ``sys.path`` twice, the first counts, as in an import.
    """
    from importlib import metadata  # 30 ms, and not needed before the first look-up

    copies: dict[str, list[Distribution]] = defaultdict(list)
    remnants = []
    for distribution in metadata.distributions():
        # Reading a name reads the whole METADATA file, so only distributions with our groups do it.
        if not any(_entries(distribution, project)):
            continue
        name, _, fault = _head(distribution)
        if not fault:
            try:
                metadata.distribution(name)
                copies[name].append(distribution)
                continue
            except metadata.PackageNotFoundError:
                fault = _why_orphaned(distribution, name)
        remnants.append(Remnant(name, escaped(_path(distribution), 1000), fault))
    plugins = []
    for name, found in sorted(copies.items()):
        # The first copy hides those after it, whether it has entry points of the project or not.
        first = metadata.distribution(name)
        entries, faults = _entries(first, project)
        version = _head(first).version
        if not is_version(version):
            version, faults = "", (*faults, _wrong("Version", version))
        plugins.append(Plugin(name, version, tuple(_places(found)), entries, faults))
    return plugins, tuple(dict.fromkeys(remnants))  # once, even if a folder is twice on the path


def _entries(distribution: Distribution, project: str) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Its entry points of a project, and the faults of the file of all its entry points."""
    file = "entry_points.txt"
    try:
        if project not in (distribution.read_text(file) or ""):
            return (), ()
        entries = [Entry(e.group, e.name, e.value) for e in distribution.entry_points]
    except TypeError:  # importlib.metadata raises it
        return (), (f"its {file} has a line that is not name = module:Class",)
    except (OSError, ValueError) as error:
        return (), (f"its {file} cannot be read ({one_line(error)})",)
    return tuple(sorted(e for e in entries if f"{e.group}.".startswith(f"{project}."))), ()


def _head(distribution: Distribution) -> _Head:
    try:
        fields = distribution.metadata
    except FileNotFoundError:  # importlib_metadata replaces Python's own once imported
        return _Head(fault="it has no METADATA")
    except (OSError, ValueError) as error:
        return _Head(fault=f"its METADATA cannot be read ({one_line(error)})")
    if not fields:
        return _Head(fault="it has no METADATA")
    name, version = (fields.get_all(field, [""])[0] for field in ("Name", "Version"))
    if not is_distribution(name):
        return _Head(fault=_wrong("Name", name))
    return _Head(normalize(name), escaped(version))


def _wrong(field: str, value: str) -> str:
    what = f"no valid {field}, {short_repr(value, 80)}" if value else f"no {field}"
    return f"its METADATA has {what}"


def _why_orphaned(distribution: Distribution, name: str) -> str:
    """The reason why nothing of its name is installed."""
    if Path(_path(distribution)).name.startswith("~"):  # pip's name of what it is about to delete
        return "an uninstall left parts of it"
    return f"its METADATA names it {name}, but its folder has another name"


def _places(copies: list[Distribution]) -> list[str]:
    """Version and folder of each copy, if there are several.

    An editable installation and the metadata that setuptools leaves beside its sources are one copy.
    """
    several = copies if len(copies) > 1 else []
    sources = {(_head(each).version, _sources(each)) for each in several}
    places = dict[str, None]()
    for each in copies:
        version, folder = _head(each).version, Path(str(each.locate_file(""))).resolve()
        trees = {folder, *folder.parents} if _path(each).endswith(".egg-info") else ()
        if not any((version, tree) in sources for tree in trees):
            places[f"{version} in {escaped(folder, 1000)}"] = None
    return [*places] if len(places) > 1 else []


def _sources(distribution: Distribution) -> Path | None:
    """The folder of which it is an editable installation, as pip notes it; None if it is none."""
    import json  # late, as few distributions are installed twice
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "")
        editable = origin["dir_info"]["editable"]
        return Path(unquote(urlsplit(origin["url"]).path)).resolve() if editable else None
    except (OSError, ValueError, LookupError, TypeError):  # not of pip, or of an archive
        return None


def _path(distribution: Distribution) -> str:
    """The folder or file of its metadata; empty if its finder has none."""
    return str(getattr(distribution, "_path", ""))
