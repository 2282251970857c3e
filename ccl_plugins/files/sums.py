"""Checksums of files in formats without one, in a file beside them that ``sha256sum --check`` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ccl_plugins.files.atomic import atomic_write
from ccl_registry.errors import Mistake

SUMS = "SHA256SUMS"


class DamagedFile(Mistake):
    """A file that differs from what was written: truncated, changed, or of another type."""


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write checksums of files to their folder's ``SHA256SUMS``, atomically; lines of other files stay."""
    names = [*names]
    lines = [f"{_sum(folder / name)}  {name}" for name in names]
    _write_lines(folder / SUMS, [*_but(folder, names), *lines])


def forget_sums(folder: Path, names: Iterable[str]) -> None:
    """Delete the checksums of files that are about to change."""
    if (others := _but(folder, names)) != _lines(folder / SUMS):
        _write_lines(folder / SUMS, others)


@contextmanager
def checksummed(file: Path) -> Iterator[None]:
    """Surround the writing of a file, and keep its checksum in the ``SHA256SUMS`` beside it.

    The old checksum is deleted first, so that a killed process leaves no wrong one.
    """
    forget_sums(file.parent, [file.name])
    yield
    write_sums(file.parent, [file.name])


def check_sum(file: Path) -> bool:
    """Compare a file with its checksum; False if the ``SHA256SUMS`` beside it has none.

    Raises:
        DamagedFile: If they differ; the message names the file.
    """
    while (digest := _known(file)) is not None:
        if digest == _sum(file):
            return True
        # Before another process writes the file, it deletes this checksum.
        if digest == _known(file):
            raise DamagedFile(f"{file} is damaged: it does not have its checksum in {SUMS}")
    return False


def has_sum(file: Path) -> bool:
    """Whether the ``SHA256SUMS`` beside a file has a checksum of it, right or wrong."""
    return _known(file) is not None


def _known(file: Path) -> str | None:
    """The checksum of a file that the ``SHA256SUMS`` beside it has."""
    for line in _lines(file.parent / SUMS):
        digest, _, name = line.partition("  ")
        if name == file.name:
            return digest
    return None


def _but(folder: Path, names: Iterable[str]) -> list[str]:
    """The lines of other files than these."""
    names = {*names}
    return [each for each in _lines(folder / SUMS) if each.partition("  ")[2] not in names]


def _lines(sums: Path) -> list[str]:
    return sums.read_text("utf-8", errors="replace").splitlines() if sums.is_file() else []


def _write_lines(sums: Path, lines: Iterable[str]) -> None:
    if not (lines := [*lines]):  # ``sha256sum --check`` takes an empty file for a failure
        sums.unlink(missing_ok=True)
        return
    with atomic_write(sums) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _sum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
