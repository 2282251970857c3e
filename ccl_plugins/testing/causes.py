"""The cause of a broken law: an exception on one line, and its place."""

from __future__ import annotations

import functools
import importlib.util
import re
import traceback
from dataclasses import dataclass
from pathlib import Path

import ccl_registry as engine

LONGEST = 400
"""The most characters of a message that are shown."""


@dataclass(frozen=True)
class Cause:
    """An exception that broke a law.

    Two failures have one cause if their type and place are equal, and the message where there is no place.

    Args:
        kind: The exception's type.
        message: Its message on one line.
        place: ``folder/file.py:line`` of the component's code that raised it, or "".
    """

    kind: str
    message: str
    place: str

    def __str__(self) -> str:
        where = f" ({self.place})" if self.place else ""
        return f"it raised {self.kind}: {self.message}{where}"

    @property
    def key(self) -> tuple[str, str]:
        """Equal for equal causes."""
        return self.kind, self.place or self.message


def cause_of(error: BaseException) -> Cause | None:
    """The cause of a failure; None for a law's own finding, which is like no other."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not _is_ours(frame.filename)]
    if isinstance(error, AssertionError) and (not frames or _is_ours(frames[-1].filename)):
        return None
    place = _place(theirs[-1].filename, theirs[-1].lineno) if theirs else ""
    message = str(error)
    if type(error).__module__.startswith("torch._dynamo"):
        # The message is a page: what cannot be compiled, explanations, and at last the user's code.
        users = re.findall(r'File "(.+?)", line (\d+)', message.partition("from user code:")[2])
        places = [_place(file, line) for file, line in users if not _is_ours(file)]
        place = places[-1] if places else place
        message = message.strip().partition("\n")[0]
    return Cause(type(error).__name__, engine.escaped(" ".join(message.split()), LONGEST), place)


def _is_ours(file: str) -> bool:
    """Whether a file is of the code that runs components: this kit, the registry, torch or Python."""
    path, python = Path(file), Path(functools.__file__).parent
    if any(path.is_relative_to(folder) for folder in _folders()):
        return True
    # Without an environment of their own, installed packages lie in a folder of Python's modules.
    return path.is_relative_to(python) and "site-packages" not in path.relative_to(python).parts


@functools.cache
def _folders() -> tuple[Path, ...]:
    modules = [__file__, engine.__file__]
    spec = importlib.util.find_spec("torch")
    return tuple(Path(file).parent for file in [*modules, spec and spec.origin] if file)


def _place(file: str, line: int | str | None) -> str:
    return f"{'/'.join(Path(file).parts[-2:])}:{line}"
