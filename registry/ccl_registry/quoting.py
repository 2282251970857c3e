"""Text and values from outside, made printable and bounded for messages.

Names, versions, messages and defaults come from files and from other authors' code. Unescaped, they
could move the cursor, color the terminal or reverse the order of characters.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

LONGEST = 200
"""The most characters of a quoted text or value."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?", re.ASCII | re.IGNORECASE)
"""The name of a distribution, by PEP 508."""

_VERSION = re.compile(r"v?\d[a-z0-9.!+_-]{0,98}", re.ASCII | re.IGNORECASE)
"""The characters of a version; pip checks the rules of PEP 440."""


def escaped(text: object, longest: int = LONGEST) -> str:
    r"""A text on one line: unprintable characters as ``\x1b``, and a long text without its middle."""
    return _printable(_shortened(str(text), longest))


def escaped_lines(text: object, longest: int = 20_000) -> str:
    """The `escaped` text, with its own lines, such as those of a traceback."""
    lines = re.split(r"\r?\n", _shortened(str(text), longest))
    return "\n".join(_printable(line.replace("\t", "    ")) for line in lines)


def short_repr(value: Any, longest: int = LONGEST) -> str:
    """The `escaped` ``repr`` of a value, or a line that says that it has none."""
    try:
        return escaped(repr(value), longest)
    except Exception as error:  # such as for an integer of more digits than Python writes
        return f"<a {type(value).__name__} whose repr raises {type(error).__name__}>"


def is_distribution(name: object) -> bool:
    """Whether a value is a valid name of a distribution."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def is_version(version: object) -> bool:
    """Whether a value looks like a version of a distribution, and can stand in a command."""
    return isinstance(version, str) and bool(_VERSION.fullmatch(version))


def pip_install(name: object, version: object = "", options: str = "") -> str:
    """A command that installs a distribution, to be copied; empty if a name or version is not valid."""
    if not is_distribution(name) or not (version == "" or is_version(version)):
        return ""
    wanted = f"{name}=={version}" if version else f"{name}"
    return " ".join(filter(None, ["pip install", options, shlex.quote(wanted)]))


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    end = longest // 4
    return f"{text[: longest - end - 5]} ... {text[-end:]}"


def _printable(text: str) -> str:
    # Controls, escapes, surrogates and marks of direction are what `repr` escapes too.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
