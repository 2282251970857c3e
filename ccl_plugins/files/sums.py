"""Checksums of files in formats without one, in a file beside them that ``sha256sum --check`` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ccl_plugins.files.atomic import atomic_write

SUMS = "SHA256SUMS"


class WrongSum(ValueError):
    """A file that is not the one whose checksum was written."""


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the checksums of files in a folder to its ``SHA256SUMS``, atomically."""
    lines = [f"{_sum(folder / name)}  {name}\n" for name in names]
    with atomic_write(folder / SUMS) as temporary:
        temporary.write_text("".join(lines), "utf-8")


def check_sum(file: Path) -> None:
    """Compare a file with its checksum, if the ``SHA256SUMS`` beside it has one.

    Raises:
        WrongSum: If they differ, naming the file.
    """
    sums = file.parent / SUMS
    if not sums.is_file():
        return
    for line in sums.read_text("utf-8", errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        if name == file.name and digest != _sum(file):
            raise WrongSum(f"{file} is damaged: it does not have its checksum in {sums.name}")


def _sum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
