"""What is installed: the distributions with entry points of ours, and how each of them fared."""

from __future__ import annotations

import os
import re
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import PluginFailed
from .spec import normalize, spoken
from .watching import Watch

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoints


@dataclass(frozen=True)
class Failure:
    """Something of a plugin that could not be taken in; the rest of it stays on offer."""

    plugin: str
    version: str
    reason: str
    traceback: str

    @classmethod
    def of(cls, plugin: str, version: str, error: BaseException) -> Failure:
        """The failure that an exception is."""
        details = "".join(traceback.format_exception(error))
        return cls(plugin, version, spoken(error), details)


@dataclass(frozen=True)
class Plugin:
    """An installed plugin.

    Args:
        name: Its normalized name.
        version: Its version; empty where its metadata is gone.
        state: ``"ok"``, ``"failed"`` or ``"disabled"``.
        reason: Why it failed.
        seconds: What reading its hooks took.
        printed: What they printed meanwhile, if anything.
        modules: Top-level modules that they were the first to import.
        copies: Where it is installed, ``"1.2 in /folder"``, if that is more than once; the first counts.
    """

    name: str
    version: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    printed: str = ""
    modules: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Installed:
    """A distribution with entry points of ours, and where all of its name are."""

    name: str
    version: str
    distribution: Distribution
    copies: tuple[str, ...]

    @property
    def entry_points(self) -> EntryPoints:
        """Read when they are asked for: what raises on the way is this plugin's failure."""
        return self.distribution.entry_points


def installed(group: str) -> tuple[list[Installed], list[str]]:
    """Distributions with entry points under ``group`` by name, and folders of half a distribution.

    Of a distribution that is on ``sys.path`` twice the first counts, as in an import.
    """
    from importlib import metadata  # 30 ms, and not needed before the first look-up

    places: dict[str, dict[str, None]] = defaultdict(dict)
    found: dict[str, Distribution] = {}
    remains: dict[str, None] = {}
    for distribution in metadata.distributions():
        # Reading a name reads the whole METADATA file: only of those that concern us.
        if f"[{group}" in _read(distribution, "entry_points.txt"):
            name, place = normalize(_field(distribution, "Name")), _place(distribution)
            try:
                # An earlier one of that name without such entry points hides this one.
                found[name] = metadata.distribution(name)
            except (metadata.PackageNotFoundError, ValueError):
                # What a broken uninstall left behind: nothing of that name is installed.
                remains[f"{name or 'a plugin without a name'} in {place}"] = None
                continue
            # What building in a source folder leaves has no METADATA, and is no installation.
            if _read(distribution, "METADATA"):
                places[name][f"{_field(distribution, 'Version')} in {place}"] = None
    plugins = []
    for name, distribution in sorted(found.items()):
        copies = tuple(places[name]) if len(places[name]) > 1 else ()
        version = _field(distribution, "Version")
        plugins.append(Installed(name, version, distribution, copies))
    return plugins, list(remains)


def _read(distribution: Distribution, file: str) -> str:
    """A file of its metadata; empty where it is gone, or was overwritten by what is no text."""
    try:
        return distribution.read_text(file) or ""
    except UnicodeDecodeError:
        return ""


def _field(distribution: Distribution, field: str) -> str:
    """A field of the metadata; empty where it or the whole file is gone."""
    text = _read(distribution, "METADATA") or _read(distribution, "PKG-INFO")
    found = re.search(rf"^{field}:[ \t]*(\S+)", text, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else ""


def _place(distribution: Distribution) -> str:
    return os.path.realpath(str(distribution.locate_file("")))


class Ledger:
    """The plugins there are, and what was recorded of each.

    Args:
        found: The plugins.
        strict: Raise instead of recording.
    """

    def __init__(self, found: list[Installed], strict: bool) -> None:
        self.strict = strict
        self.found = found
        self.versions = {plugin.name: plugin.version for plugin in found}
        self.watches = {plugin.name: Watch() for plugin in found}
        self.failures: list[Failure] = []

    @contextmanager
    def recording(self, plugin: str) -> Iterator[None]:
        """Turn what a plugin raises into a failure on record; Ctrl-C passes."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if self.strict:
                raise PluginFailed(f"plugin {plugin}: {spoken(error)}") from error
            self.failures.append(Failure.of(plugin, self.versions[plugin], error))
        except KeyboardInterrupt as error:  # perhaps for want of patience with this one
            note = f"plugin {plugin} was being read"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            raise

    def plugins(self, blocked: Callable[[str], bool]) -> tuple[Plugin, ...]:
        """Every plugin and its state, by name."""
        plugins = []
        for one in self.found:
            reasons = [failure.reason for failure in self.failures if failure.plugin == one.name]
            state = "failed" if reasons else "disabled" if blocked(one.name) else "ok"
            watch = self.watches[one.name]
            plugins.append(
                Plugin(
                    one.name,
                    one.version,
                    state,
                    "; ".join(reasons),
                    watch.seconds,
                    watch.printed.strip(),
                    tuple(sorted(watch.modules)),
                    one.copies,
                )
            )
        return tuple(plugins)
