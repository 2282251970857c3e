"""Optuna's journal of a study, whose lines have checksums."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Generator
from typing import Any

from optuna.storages.journal import JournalFileBackend

SUM = "crc32"
"""The key of a line's checksum."""


class Journal(JournalFileBackend):
    """A file to which processes append what they do in a study, one line of JSON each."""

    def __init__(self, path: str, lock: Any) -> None:
        super().__init__(path, lock)
        self.path, self.lock = path, lock

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append lines, in place of one that a process did not finish which was killed or had no room."""
        self.lock.acquire()  # a process may hold it twice
        try:
            with open(self.path, "rb+") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - 1))
                if file.read() not in (b"", b"\n"):
                    file.seek(0)
                    file.truncate(file.read().rfind(b"\n") + 1)
            super().append_logs([{**each, SUM: _sum(each)} for each in logs])
        finally:
            self.lock.release()

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """The lines from a number on.

        Raises:
            ValueError: For a line that is damaged.
        """
        read = log_number_from
        try:
            for line in super().read_logs(log_number_from):
                if line.pop(SUM, None) != _sum(line):
                    raise ValueError("it does not have its checksum")
                read += 1
                yield line
        except (ValueError, AttributeError) as error:
            raise ValueError(
                f"{self.path} is damaged near line {read + 1} ({error}): the cells' runs beside it are"
                " whole; begin the sweep in another folder, or bring a copy of the file back"
            ) from error


def _sum(line: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(line, separators=(",", ":")).encode())
