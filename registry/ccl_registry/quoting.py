"""Text and values from outside as messages show them: printable, bounded, and never raising.

Names, versions, messages and defaults come from files and from other authors' code.  Printed as they are,
they could move the cursor, color the terminal or reverse the order of characters.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

LONGEST = 200
"""Characters of a quoted text or value."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?", re.ASCII | re.IGNORECASE)
"""The name of a distribution, as PEP 508 has it."""

_VERSION = re.compile(
    r"""v?(\d{1,9}!)?\d{1,19}(\.\d{1,19}){0,19}
    ([-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d{0,19})?
    (-\d{1,19}|[-_.]?(post|rev|r)[-_.]?\d{0,19})?
    ([-_.]?dev[-_.]?\d{0,19})?
    (\+[a-z0-9]{1,40}([-_.][a-z0-9]{1,40}){0,19})?""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
"""A version, as PEP 440 has it."""


def escaped(text: object, longest: int = LONGEST) -> str:
    r"""A text on one line: what is not printable as ``\x1b``, and a long one without its middle."""
    return _printable(_shortened(_text(text), longest))


def escaped_lines(text: object, longest: int = 20_000) -> str:
    """As `escaped`, with the text's own lines, such as those of a traceback."""
    lines = re.split(r"\r?\n", _shortened(_text(text), longest))
    return "\n".join(_printable(line.replace("\t", "    ")) for line in lines)


def short_repr(value: Any, longest: int = LONGEST) -> str:
    """The ``repr`` of a value, or a line that says why it has none."""
    try:
        return escaped(repr(value), longest)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # another author's __repr__ may raise anything
        return f"<a {type_name(value)} whose repr raises {type_name(error)}>"


def type_name(value: object) -> str:
    """The name of a value's class, whatever the class's own class does to its attributes."""
    return escaped(type.__dict__["__name__"].__get__(type(value)), 80)


def is_distribution(name: object) -> bool:
    """Whether a value is a valid name of a distribution."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def is_version(version: object) -> bool:
    """Whether a value is a valid version of a distribution."""
    return isinstance(version, str) and bool(_VERSION.fullmatch(version))


def pip_install(name: object, version: object = "", options: str = "") -> str:
    """A command that installs a distribution, to be copied; empty if a name or version is not valid."""
    if not is_distribution(name) or not (version == "" or is_version(version)):
        return ""
    wanted = f"{name}=={version}" if version else f"{name}"
    return " ".join(filter(None, ["pip install", options, shlex.quote(wanted)]))


def _text(text: object) -> str:
    try:
        return str(text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # another author's __str__ may raise anything
        return f"<a {type_name(text)} whose str raises {type_name(error)}>"


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
