"""The installed distributions that declare entry points of a project, read from their metadata."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .plugin import Entry, Plugin
from .quoting import escaped, is_distribution, is_version, short_repr
from .spec import normalize

if TYPE_CHECKING:
    from importlib.metadata import Distribution


@dataclass(frozen=True)
class Remnant:
    """Metadata with entry points of the project, to which no installed distribution belongs.

    Args:
        name: Its name; empty without one.
        folder: The folder or file of the metadata.
        reason: What is wrong with it.
    """

    name: str
    folder: str
    reason: str


def installed(project: str) -> tuple[list[Plugin], tuple[Remnant, ...]]:
    """Distributions with entry points of a project, by name, and metadata that belongs to none.

    Of a distribution that is on ``sys.path`` twice the first counts, as in an import.
    """
    from importlib import metadata  # 30 ms, and not needed before the first look-up

    places: dict[str, list[str]] = defaultdict(list)
    declarations: dict[str, Metadata] = {}
    remnants: dict[str, Remnant] = {}
    for distribution in metadata.distributions():
        declared = Metadata(distribution)
        # Reading a name reads the whole METADATA file, so only distributions with our groups do it.
        if not declared.concerns(project):
            continue
        first = None
        if not (reason := declared.unnamed):
            try:
                # An earlier distribution of that name without such entry points hides this one.
                first = metadata.distribution(declared.name)
            except (metadata.PackageNotFoundError, ValueError):
                reason = declared.orphaned
        if first is None:
            remnants[declared.folder] = Remnant(declared.name, declared.folder, reason)
            continue
        if declared.name not in declarations:
            same = _path(first) == _path(distribution)
            declarations[declared.name] = declared if same else Metadata(first)
        # A build in a source folder leaves metadata without METADATA, which is no installation.
        if declared.has_metadata:
            places[declared.name].append(f"{declared.version} in {declared.place}")
    plugins = []
    for name, declared in sorted(declarations.items()):
        copies = tuple(dict.fromkeys(places[name]))
        # What an earlier distribution of the name declares may be nothing of this project.
        entries = declared.entries if declared.concerns(project) else ()
        version, faults = declared.version, tuple(dict.fromkeys(declared.faults))
        plugins.append(Plugin(name, version, copies if copies[1:] else (), entries, faults))
    return plugins, tuple(remnants.values())


class Metadata:
    """The metadata of a distribution, read as far as it can be read.

    Args:
        distribution: The distribution.

    Attributes:
        faults: What was found to be wrong with the files that were read.
    """

    def __init__(self, distribution: Distribution) -> None:
        self.faults: list[str] = []  # some of them more than once
        self._distribution = distribution
        self._declared = self._read("entry_points.txt").replace("\0", "")  # of UTF-16
        self._groups: set[str] = set()

    def concerns(self, project: str) -> bool:
        """Whether it declares entry points of a project, as far as its lines can be read."""
        if self.faults:  # it cannot be read as text, so nobody knows what it declares
            return True
        if project not in self._declared:
            return False
        _ = self.entries  # reading them finds groups and faults
        ours = any(f"{group}.".startswith(f"{project}.") for group in self._groups)
        return ours or any(project in fault for fault in self.faults)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entry points of lines that can be read; the others are faults."""
        return tuple(sorted(self._lines(), key=lambda e: (e.group, e.name)))

    def _lines(self) -> Iterator[Entry]:
        group = ""
        for number, line in enumerate(self._declared.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith(("#", ";")):
                continue
            name, equals, value = (part.strip() for part in line.partition("="))
            if line.startswith("[") and line.endswith("]"):
                group = line[1:-1].strip()
                self._groups.add(group)
            elif name and equals and value and group:
                yield Entry(group, name, value)
            else:
                wrong = "must be name = module:Class" if group else "stands before any [group]"
                fault = f"line {number} of its entry_points.txt {wrong}: {short_repr(line, 80)}"
                self.faults.append(fault)

    @property
    def has_metadata(self) -> bool:
        """Whether a file names the distribution."""
        return bool(self._head)

    @property
    def name(self) -> str:
        """Its normalized name; empty without a valid one."""
        name = self._field("Name")
        return normalize(name) if is_distribution(name) else ""

    @property
    def unnamed(self) -> str:
        """Why it has no name; empty if it has one."""
        if self.name:
            return ""
        if not self._head:
            return "it has no METADATA"
        name = self._field("Name")
        return f"its METADATA has {f'no valid Name, {short_repr(name, 80)}' if name else 'no Name'}"

    @property
    def orphaned(self) -> str:
        """Why nothing of its name is installed."""
        # As pip calls what it is about to delete.
        if Path(_path(self._distribution)).name.startswith("~"):
            return "an uninstall left parts of it"
        return f"its METADATA names it {self.name}, and its folder otherwise"

    @property
    def version(self) -> str:
        """Its version; empty, which is a fault, without a valid one."""
        version = self._field("Version")
        if is_version(version):
            return version
        if self._head:  # without METADATA it is a build in a source folder
            wrong = f"no valid Version, {short_repr(version, 80)}" if version else "no Version"
            self.faults.append(f"its METADATA has {wrong}")
        return ""

    @property
    def folder(self) -> str:
        """The folder or file of the metadata."""
        return escaped(_path(self._distribution) or self.place, 1000)

    @property
    def place(self) -> str:
        """The folder that it is installed in."""
        try:
            return escaped(Path(str(self._distribution.locate_file(""))).resolve(), 1000)
        except (OSError, RuntimeError, ValueError):  # a loop of links, a folder that cannot be one
            return escaped(self._distribution.locate_file(""), 1000)

    @cached_property
    def _head(self) -> str:
        """The fields of METADATA, without the description."""
        text = self._read("METADATA") or self._read("PKG-INFO")
        return re.split(r"\r?\n[ \t]*\r?\n", text)[0]

    def _field(self, field: str) -> str:
        """A field of the metadata; empty if the field or the file is missing."""
        line = re.search(
            rf"^{field}:[ \t]*(.*?)[ \t\r]*$", self._head, re.MULTILINE | re.IGNORECASE
        )
        return line[1] if line else ""

    def _read(self, file: str) -> str:
        """A file; empty if it is missing, and with other characters where it is not UTF-8."""
        try:
            return (self._distribution.read_text(file) or "").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            self.faults.append(f"its {file} is not UTF-8")
            return error.object.decode("utf-8", "replace")
        except OSError as error:
            self.faults.append(f"its {file} cannot be read: {escaped(error)}")
            return ""


def _path(distribution: Distribution) -> str:
    """The folder or file of the metadata; empty where the finder of the distribution has none."""
    return str(getattr(distribution, "_path", ""))
