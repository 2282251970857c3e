"""What is installed: the distributions with entry points of ours, and how each of them fared."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import PluginFailed
from .spec import normalize, spoken

if TYPE_CHECKING:
    from importlib.metadata import Distribution


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
    """An installed plugin: ``state`` is ``"ok"``, ``"failed"`` or ``"disabled"``."""

    name: str
    version: str
    state: str
    reason: str = ""


def installed(group: str) -> list[tuple[str, Distribution]]:
    """Distributions with entry points under ``group``, in order of their normalized names.

    Of a distribution that is on ``sys.path`` twice the first counts, as in an import.
    """
    from importlib import metadata  # 30 ms, and not needed before the first look-up

    found: dict[str, Distribution] = {}
    for distribution in metadata.distributions():
        # Reading a name parses the whole METADATA file: only of those that concern us.
        if f"[{group}" in (distribution.read_text("entry_points.txt") or ""):
            name = normalize(distribution.metadata["Name"] or "")
            try:
                # An earlier one of that name without such entry points hides this one.
                found[name] = metadata.distribution(name)
            except (metadata.PackageNotFoundError, ValueError):
                continue  # what a broken uninstall left behind: nothing of that name is installed
    return sorted(found.items())


class Ledger:
    """The versions of plugins and the failures on record.

    Args:
        strict: Raise instead of recording.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.versions: dict[str, str] = {}
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

    def plugins(self, blocked: Callable[[str], bool]) -> tuple[Plugin, ...]:
        """Every plugin and its state, by name."""
        found = []
        for name, version in sorted(self.versions.items()):
            reasons = [failure.reason for failure in self.failures if failure.plugin == name]
            state = "failed" if reasons else "disabled" if blocked(name) else "ok"
            found.append(Plugin(name, version, state, "; ".join(reasons)))
        return tuple(found)
