"""Checksums of files in formats without one, in a file beside them that ``sha256sum --check`` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ccl_plugins.files.atomic import atomic_write

SUMS = "SHA256SUMS"


class WrongSum(ValueError):
    """A file that is not the one whose checksum was written."""


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the checksums of files in a folder to its ``SHA256SUMS``, atomically."""
    _write_lines(folder / SUMS, [f"{_sum(folder / name)}  {name}" for name in names])


@contextmanager
def summed(file: Path) -> Iterator[None]:
    """Surround the writing of a file, and keep its checksum in the ``SHA256SUMS`` beside it.

    The old checksum is deleted first, so that a process which is killed leaves no wrong one.
    """
    sums = file.parent / SUMS
    lines = _lines(sums)
    others = [line for line in lines if line.partition("  ")[2] != file.name]
    if others != lines:
        _write_lines(sums, others)
    yield
    _write_lines(sums, [*others, f"{_sum(file)}  {file.name}"])


def check_sum(file: Path) -> None:
    """Compare a file with its checksum, if the ``SHA256SUMS`` beside it has one.

    Raises:
        WrongSum: If they differ, naming the file.
    """
    sums = file.parent / SUMS
    for line in _lines(sums):
        digest, _, name = line.partition("  ")
        if name == file.name and digest != _sum(file):
            raise WrongSum(f"{file} is damaged: it does not have its checksum in {sums.name}")


def _lines(sums: Path) -> list[str]:
    return sums.read_text("utf-8", errors="replace").splitlines() if sums.is_file() else []


def _write_lines(sums: Path, lines: Iterable[str]) -> None:
    with atomic_write(sums) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _sum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
