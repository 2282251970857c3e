"""Tensors that stay in their file: the system reads the pages that are used, and may drop them again.

The storage of such a tensor, and of each view of it, refers to its `MappedFile`. A file that
changes during a run would change its data, so `rows` refuses it. Pages that were read count as
memory of the process until `release_pages`.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from weakref import WeakSet, finalize

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.run_folder import RunFolder
from ccl_registry.errors import Mistake

LARGE = 1 << 26
"""Larger tensors, in bytes, stay in their file or are written to one."""

BLOCK = 1 << 25
"""The bytes of the blocks in which such tensors are read."""

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""The types of tensors in safetensors files that are mapped."""

NAMES = {dtype: name for name, dtype in DTYPES.items()}


class ChangedFile(OSError, Mistake):
    """A file that tensors are read from was changed, moved or deleted since it was opened."""


class MappedFile:
    """A file whose bytes are those of tensors.

    Args:
        descriptor: The descriptor of the open file; it is closed with this object.
        path: The file; None: a temporary file. No checkpoint refers to such a file, and its name
            may be deleted.
        access: Private by default, because torch only takes writable memory.
    """

    def __init__(self, descriptor: int, path: Path | None, access: int = mmap.ACCESS_COPY) -> None:
        finalize(self, os.close, descriptor)
        self.path, self._descriptor = path, descriptor
        self._before = os.fstat(descriptor)
        self.content = mmap.mmap(descriptor, 0, access=access)
        self._address = torch.frombuffer(self.content, dtype=torch.uint8).data_ptr()
        _mapped.add(self)

    @classmethod
    def open(cls, path: Path) -> MappedFile:
        """Map a file to read it."""
        path = path.resolve()
        return cls(os.open(path, os.O_RDONLY), path)

    @classmethod
    def of(cls, tensor: Tensor) -> MappedFile | None:
        """The file that a tensor is in; None for one in memory or on a device."""
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            return None
        return getattr(tensor.untyped_storage(), "file", None)

    def tensor(self, dtype: torch.dtype, shape: Sequence[int], first: int) -> Tensor:
        """A tensor that begins at a byte of the file."""
        count = math.prod(shape)
        if not count:
            return torch.empty(tuple(shape), dtype=dtype)
        flat = torch.frombuffer(self.content, dtype=dtype, count=count, offset=first)
        flat.untyped_storage().file = self  # type: ignore[attr-defined]  # all views of it share it
        return flat.view(tuple(shape))

    def first_byte(self, tensor: Tensor) -> int:
        """The place of a tensor's first byte in the file."""
        return tensor.data_ptr() - self._address

    def read(self, first: int, into: memoryview) -> None:
        """Read bytes at a position until the buffer is full.

        Raises:
            ChangedFile: If the file is shorter than it was.
        """
        if os.preadv(self._descriptor, [into], first) != len(into):
            raise self._changed("it is shorter than it was")

    def check(self) -> None:
        """Refuse the file if it changed since it was mapped.

        Raises:
            ChangedFile: If it did.
        """
        if self.path is None:
            return
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise self._changed(f"{error.strerror}") from error
        before = self._before
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise self._changed(f"it had {before.st_size} bytes, and has {now.st_size}")

    def _changed(self, what: str) -> ChangedFile:
        return ChangedFile(
            f"{self.path} was changed while values were read from it ({what}): the run would mix old and"
            " new values; restore the file, and begin again or resume"
        )


_mapped: WeakSet[MappedFile] = WeakSet()


def map_safetensors(path: Path) -> dict[str, Tensor] | None:
    """The tensors of a safetensors file, which was checked before; None if it cannot be mapped."""
    file = MappedFile.open(path)
    start = 8 + int.from_bytes(file.content[:8], "little")
    header = json.loads(file.content[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        dtype, first = DTYPES.get(entry["dtype"]), start + entry["data_offsets"][0]
        if dtype is None or first % dtype.itemsize:
            return None
        tensors[name] = file.tensor(dtype, entry["shape"], first)
    return tensors


def map_npy(path: Path) -> Tensor | None:
    """The array of a ``.npy`` file, which was checked before; None if it cannot be mapped.

    Types that torch lacks, another byte order and column-major arrays cannot be mapped.
    """
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        shape, by_column, dtype = read[version[0]](file)
        first = file.tell()
    try:
        torch_type = torch.from_numpy(np.empty(0, dtype)).dtype
    except (TypeError, ValueError):
        return None
    if by_column or torch_type not in NAMES or first % torch_type.itemsize:
        return None
    return MappedFile.open(path).tensor(torch_type, shape, first)


def is_large(size: int) -> bool:
    """Whether a tensor of this many bytes stays in a file."""
    return size > LARGE


@contextmanager
def writing(
    path: Path, shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]]
) -> Iterator[dict[str, Tensor]]:
    """Tensors of zeros to fill in, in a safetensors file that appears when the block ends.

    Args:
        path: The file; its folder is created.
        shapes: Shape and type of each tensor.

    Raises:
        OSError: If the disk is full, before anything is written.
    """
    header: dict[str, Any] = {}
    size = 0
    for name, (shape, dtype) in shapes.items():
        length = math.prod(shape) * dtype.itemsize
        header[name] = {
            "dtype": NAMES[dtype],
            "shape": list(shape),
            "data_offsets": [size, size + length],
        }
        size += length
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 64)
    with atomic_write(path) as temporary:
        with temporary.open("w+b") as file:
            # A page for which there is no room would end the process when it is written.
            os.posix_fallocate(file.fileno(), 0, 8 + len(words) + size)
            file.write(len(words).to_bytes(8, "little") + words)
            file.flush()
            mapped = MappedFile(os.dup(file.fileno()), None, mmap.ACCESS_WRITE)
        start = 8 + len(words)
        yield {
            name: mapped.tensor(DTYPES[e["dtype"]], e["shape"], start + e["data_offsets"][0])
            for name, e in header.items()
        }
        mapped.content.flush()


def rows(values: Tensor, index: Tensor) -> Tensor:
    """The rows (..., c) of values (N, c) at some places (...).

    Values in a file are read row by row, so that the pages around them, up to a MB for each, do not
    enter the memory of the process.

    Raises:
        ChangedFile: If the file changed since it was mapped.
        IndexError: For a place out of range.
    """
    file = MappedFile.of(values)
    if file is None or not values.is_contiguous():
        return values[index]
    for place in (index.min(), index.max()) if index.numel() else ():
        if not -len(values) <= place < len(values):
            raise IndexError(f"there are {len(values)} rows, and none at {int(place)}")
    copied = values.new_empty((*index.shape, *values.shape[1:]))
    size, first = values[:1].nbytes, file.first_byte(values)
    buffer: Any = copied.reshape(-1).view(torch.uint8).numpy() if copied.numel() else b""
    into = memoryview(buffer)
    # Negative indices count from the end, as in tensors.
    places = (index % len(values)).flatten().tolist()
    for number, place in enumerate(places):
        file.read(first + place * size, into[number * size : (number + 1) * size])
    file.check()
    return copied


class Filling:
    """Rows (N, ...) that are computed in order, and kept in memory or, if they are large, in a file.

    Args:
        size: N.
        folder: The folder of the file, in a run's folder; None: rows stay in memory.
        name: The name of the file, if other processes fill in the other rows; None: the file is
            unnamed and disappears with the rows.
        part: The rows that this process adds; None: all. In memory there are only these.
    """

    def __init__(
        self, size: int, folder: Path | None, name: str | None = None, part: range | None = None
    ) -> None:
        self.part = range(size) if part is None else part
        self._size, self._folder, self._name = size, folder, name
        self._done = 0
        self._rows: Tensor | None = None
        self._file: IO[bytes] | None = None

    def add(self, rows: Tensor) -> None:
        """Take the next rows (n, ...), on the CPU.

        Raises:
            OSError: If the disk is full.
        """
        if self._rows is None:
            self._begin(rows)
        assert self._rows is not None
        if self._file is None:
            self._rows[self._done : self._done + len(rows)] = rows
        else:
            self._file.write(rows.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        self._done += len(rows)

    def _begin(self, like: Tensor) -> None:
        # The size follows from the shape: the part of another process may be empty, and has a place, too.
        row = math.prod(like.shape[1:]) * like.element_size()
        size = self._size * row
        if self._folder is None or not is_large(size):
            self._rows = like.new_empty(len(self.part), *like.shape[1:])
            return
        self._rows = like[:0]
        if self._name is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115  until `done`
        else:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / self._name
            if not self.part.start:  # one process notes the file for all
                RunFolder(self._folder.parent).note(path)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            self._file = os.fdopen(os.open(path, flags, 0o644), "r+b")
            self._file.truncate(size)
        os.posix_fallocate(self._file.fileno(), 0, size)
        self._file.seek(self.part.start * row)

    def done(self) -> tuple[Tensor, bool]:
        """All rows, mapped from the file, and True; or those of the part, in memory, and False.

        They stay if the file loses its name.

        Raises:
            ValueError: If rows of the part are missing.
        """
        if self._rows is None or self._done < len(self.part):
            raise ValueError(f"only {self._done} of {len(self.part)} rows were added")
        if self._file is None:
            return self._rows, False
        with self._file as file:
            file.flush()
            mapped = MappedFile(os.dup(file.fileno()), None)
        return mapped.tensor(self._rows.dtype, (self._size, *self._rows.shape[1:]), 0), True


class Rows:
    """The rows of a tensor in a file, as samples of a split.

    Args:
        values: (N, ...).
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Tensor:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} rows, and none at {index}")
        return rows(self.values, torch.tensor(index))

    def __getitems__(self, indices: Sequence[int]) -> list[Tensor]:
        return list(rows(self.values, torch.as_tensor(indices, dtype=torch.long)))

    def __reduce__(self) -> Any:
        """Another process maps the file itself."""
        place = place_of(self.values)
        if place is None:
            return Rows, (self.values,)
        return _rows_at, (*place, self.values.dtype, tuple(self.values.shape))


def _rows_at(path: Path, first: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Rows:
    return Rows(map_at(path, first, dtype, shape))


def by_row(values: Any) -> Any:
    """An object with the rows of values one by one: `Rows` for a tensor in a file, else the values."""
    return Rows(values) if isinstance(values, Tensor) and place_of(values) else values


def release_pages() -> None:
    """Drop the pages of all mapped files from this process; the system may still cache them."""
    for file in _mapped:
        file.content.madvise(mmap.MADV_DONTNEED)


def place_of(tensor: Tensor) -> tuple[Path, int] | None:
    """The file that a tensor is mapped from, and its first byte there; None for a temporary file."""
    file = MappedFile.of(tensor) if tensor.is_contiguous() else None
    return None if file is None or file.path is None else (file.path, file.first_byte(tensor))


def map_at(path: Path, first: int, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """The tensor at a place of a file, see `place_of`.

    Raises:
        OSError: If there is no such file.
        ValueError: If it is too small.
    """
    file = MappedFile.open(path)
    if first + math.prod(shape) * dtype.itemsize > len(file.content):
        raise ValueError(f"it has {len(file.content)} bytes, too few")
    return file.tensor(dtype, shape, first)


def blocks(values: Tensor | np.ndarray[Any, Any]) -> Iterator[slice]:
    """Slices of the rows of a tensor, in order, that together are all rows.

    A small tensor is one block. Pages of files are released after some slices.
    """
    step = max(1, BLOCK // max(1, values[:1].nbytes))
    for first in range(0, max(1, len(values)), step):
        yield slice(first, min(first + step, len(values)))
        if step < len(values):
            release_pages()
