"""Folders whose files are listed by name or in reverse; a file system may list them in any order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def listed(reverse: bool) -> Iterator[list[str]]:
    """Inside, list folders by name or in reverse; yields the folders of several files that were listed."""
    names, scanned, folders = os.listdir, os.scandir, list[str]()

    def in_order(folder: Any, entries: Any, key: Callable[[Any], Any] | None = None) -> list[Any]:
        found = sorted(entries, key=key, reverse=reverse)
        # A folder that is being deleted is an int.
        if len(found) > 1 and not isinstance(folder, int):
            folders.append(os.fsdecode(folder))
        return found

    def scandir(folder: Any = ".") -> _Entries:
        with scanned(folder) as entries:
            return _Entries(in_order(folder, entries, lambda entry: entry.name))

    def listdir(folder: Any = ".") -> list[Any]:
        return in_order(folder, names(folder))

    # Other functions call one of these: glob, os.walk, and a Path's iterdir, glob and rglob.
    with mock.patch.multiple(os, listdir=listdir, scandir=scandir):
        yield folders


class _Entries:
    """The entries of a list, as ``os.scandir`` gives those of a folder."""

    def __init__(self, entries: list[Any]) -> None:
        self._left = iter(entries)

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> Any:
        return next(self._left)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: a list needs no closing."""
