"""Reading users' files: for any content, an error is one line that names the file and the fault."""

from __future__ import annotations

import csv
import errno
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError

from ccl_plugins.files.messages import printable

LONGEST = 400
"""The most characters of another library's message that are shown."""

RAISED = (
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    EOFError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TokenError,
    csv.Error,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""The errors of readers for odd bytes: numpy parses a header as Python, and accepts any shape."""


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Surround the reading of a file: errors of a reader become errors that name the file.

    Args:
        path: The file.
        what: The expected content, such as ``"array of numbers"``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is a folder, or has another content.
        OSError: If the system cannot read it.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not path.is_file():
        raise ValueError(f"{path} is no {what}: it is {'a folder' if path.is_dir() else 'no file'}")
    try:
        yield
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # damaged bytes, such as an offset before the first
            raise ValueError(_said(path, what, error)) from error
        if str(path) in str(error):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    except RAISED as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        raise ValueError(_said(path, what, error)) from error


@contextmanager
def naming_files(*files: str | Path | None) -> Iterator[None]:
    """Name the files of values in an error about them, unless it names one; None is ignored.

    Raises:
        ValueError: The error.
    """
    names = [*dict.fromkeys(str(file) for file in files if file is not None)]
    try:
        yield
    except ValueError as error:
        if not names or isinstance(error, OSError) or any(name in str(error) for name in names):
            raise
        raise ValueError(f"{', '.join(names)}: {error}") from error


def _said(path: Path, what: str, error: Exception) -> str:
    """The message of an error in reading a file, on one line."""
    words = error.args[0] if isinstance(error, TokenError | SyntaxError) else error
    text = printable(str(words))[:LONGEST]
    if not isinstance(error, ValueError | OSError | EOFError | MemoryError) or not text:
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return f"{path} is no {what}: {text}"
