"""The paths in a record, which name places of one machine and are useless on another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BEGINS = re.compile(r"local-dir:|\w[\w+.-]+://|~|/|\\\\|\.{1,2}[/\\]|[A-Za-z]:[/\\]")
"""The beginnings of a machine's paths: the root, the home, a drive or dots; also a URL."""

_INSIDE = re.compile(r"(?<![\w.~:/\\-])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\"]+[/\\])+([^\s/\\'\"]*)")
"""A path of at least two parts in a sentence."""


def without_paths(data: Any) -> tuple[Any, list[str]]:
    """Plain data with each path shortened to its last part, and the places of the shortened paths.

    A path is a text that begins with ``/``, ``~``, dots or a drive; a URL; a relative path of a file that
    exists here; and such a part of a sentence. Names of components and of the Hugging Face Hub are
    not paths.
    """
    places: dict[str, None] = {}
    return _shortened(data, "", places), [*places]


def shorten(text: str) -> str:
    """A text with each path in it shortened to its last part."""
    if _BEGINS.match(text) or _is_there(text):
        last: str = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
        return last
    return _INSIDE.sub(r"\1", text)


def _is_there(text: str) -> bool:
    """Whether a text is a relative path of a file or folder, with more than one part."""
    if "/" not in text or "\n" in text or len(text) > 1000:
        return False
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # such as for a null character
        return False


def _shortened(data: Any, place: str, places: dict[str, None]) -> Any:
    """The data with its paths shortened; the places of these are added."""
    if isinstance(data, Mapping):
        return {
            key: _shortened(each, f"{place}.{key}".lstrip("."), places)
            for key, each in data.items()
        }
    if isinstance(data, list | tuple):
        return [_shortened(each, place, places) for each in data]
    if not isinstance(data, str):
        return data
    short = shorten(data)
    if short != data:
        places[place] = None
    return short
