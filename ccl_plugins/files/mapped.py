"""Tensors that stay in their file: the system reads the pages that are used, and may drop them again.

A file that changes under a run would change its data, so `Reading` refuses it; pages that were read count
as memory of the process until `release_pages`.
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
from typing import IO, Any, NamedTuple
from weakref import WeakKeyDictionary, finalize

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.written import note

LARGE = 1 << 28
"""Bytes above which tensors stay in their file, or are put into one."""

BLOCK = 1 << 25
"""Bytes of the blocks in which such tensors are read."""

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


class ChangedFile(OSError):
    """A file that tensors are read from was changed, moved or deleted since it was opened."""


class Opened(NamedTuple):
    """A file that tensors are mapped from: its path, what is known of it, its address and descriptor.

    A file of values that are needed for a while alone has no path: no checkpoint refers to it, and its name
    may be deleted.
    """

    path: Path | None
    status: os.stat_result
    address: int
    descriptor: int


_open: WeakKeyDictionary[mmap.mmap, Opened] = WeakKeyDictionary()

DEPTH = 6
"""How deep tensors may lie in an object, as in a part of a part of a data set."""


def map_safetensors(path: Path) -> dict[str, Tensor] | None:
    """The tensors of a safetensors file, which has been checked to be one; None if it cannot be mapped."""
    mapped, content = _map(path)
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8:start]))
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        dtype, first = DTYPES.get(entry["dtype"]), start + entry["data_offsets"][0]
        if dtype is None or first % dtype.itemsize:
            return None
        tensors[name] = _tensor(mapped, dtype, entry["shape"], first)
    return tensors


def map_npy(path: Path) -> Tensor | None:
    """The array of a ``.npy`` file, which has been checked to be one; None if it cannot be mapped.

    Types that torch lacks, the byte order of another machine and columns one after another cannot be.
    """
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        shape, by_column, dtype = read[version[0]](file)
        first = file.tell()
    try:
        known = torch.from_numpy(np.empty(0, dtype)).dtype
    except (TypeError, ValueError):
        return None
    if by_column or known not in NAMES or first % known.itemsize:
        return None
    return _tensor(_map(path)[0], known, shape, first)


def is_large(size: int) -> bool:
    """Whether so many bytes stay in a file."""
    return size > LARGE


@contextmanager
def writing(
    path: Path, shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]]
) -> Iterator[dict[str, Tensor]]:
    """Tensors of zeros that are written to a safetensors file, which appears when the block ends.

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
            mapped = mmap.mmap(file.fileno(), 0)
        _open[mapped] = Opened(temporary, os.stat(temporary), 0, -1)
        try:
            start = 8 + len(words)
            yield {
                name: _tensor(mapped, DTYPES[e["dtype"]], e["shape"], start + e["data_offsets"][0])
                for name, e in header.items()
            }
            mapped.flush()
        finally:
            del _open[mapped]


def rows(values: Tensor, index: Tensor) -> Tensor:
    """The rows (..., c) of values (N, c) at some places (...).

    Of values in a file they are read one by one: the pages around them, up to a MB for each, stay out of
    the memory of the process.

    Raises:
        ChangedFile: If the file is shorter than it was.
        IndexError: For a place that there is not.
    """
    mapped = _file_of(values) if _open else None
    if mapped is None or not values.is_contiguous():
        return values[index]
    for place in (index.min(), index.max()) if index.numel() else ():
        if not -len(values) <= place < len(values):
            raise IndexError(f"there are {len(values)} rows, and none at {int(place)}")
    path, _, address, descriptor = _open[mapped]
    copied = values.new_empty((*index.shape, *values.shape[1:]))
    size, first = values[:1].nbytes, values.data_ptr() - address
    buffer: Any = copied.reshape(-1).view(torch.uint8).numpy() if copied.numel() else b""
    into = memoryview(buffer)
    places = (index % len(values)).flatten().tolist()  # as tensors count from the end
    for number, place in enumerate(places):
        part = into[number * size : (number + 1) * size]
        if os.preadv(descriptor, [part], first + place * size) != size:
            raise ChangedFile(_changed(path, "it is shorter than it was"))
    return copied


class Filling:
    """Rows (N, ...) that are computed one after another: in memory or, if they are large, in a file.

    Args:
        size: N.
        folder: Where the file is, in the folder of a run; None: they stay in memory.
        name: Of the file, if other processes fill in the other rows; None: it has no name, and goes with
            the rows.
        part: The rows that come; None: all.  In memory there are only these.
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
        # Of the shape: a part of another process may be empty, and must be put where the others are.
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
            if not self.part.start:  # one process notes it for all
                note(self._folder.parent, path)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            self._file = os.fdopen(os.open(path, flags, 0o644), "r+b")
            self._file.truncate(size)
        os.posix_fallocate(self._file.fileno(), 0, size)
        self._file.seek(self.part.start * row)

    def done(self) -> tuple[Tensor, bool]:
        """All rows, mapped from the file, and True; or those of the part, in memory, and False.

        They stay when the file loses its name.

        Raises:
            ValueError: If not all of the part came.
        """
        if self._rows is None or self._done < len(self.part):
            raise ValueError(f"{self._done} of {len(self.part)} rows came")
        if self._file is None:
            return self._rows, False
        with self._file as file:
            file.flush()
            mapped, _ = _map_descriptor(os.dup(file.fileno()), None)
        return _tensor(mapped, self._rows.dtype, (self._size, *self._rows.shape[1:]), 0), True


class Rows:
    """The rows of a tensor in a file, as samples of a split.

    Args:
        values: (N, ...).
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def __len__(self) -> int:
        """N."""
        return len(self.values)

    def __getitem__(self, index: int) -> Tensor:
        """A row."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} rows, and none at {index}")
        return rows(self.values, torch.tensor(index))

    def __reduce__(self) -> Any:
        """Another process maps the file itself."""
        place = place_of(self.values)
        if place is None:
            return Rows, (self.values,)
        return _rows_at, (*place, self.values.dtype, tuple(self.values.shape))


def _rows_at(path: Path, first: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Rows:
    return Rows(map_at(path, first, dtype, shape))


class Reading:
    """The files of the tensors in some objects, while rows are read from them at random.

    Args:
        owners: Tensors, or objects with tensors among their attributes: a split, a table.
    """

    def __init__(self, *owners: Any) -> None:
        tensors = _tensors(owners) if _open else ()
        files = [mapped for tensor in tensors if (mapped := _file_of(tensor)) is not None]
        self._files = list(dict.fromkeys(files))

    def check(self) -> None:
        """Refuse files that changed since they were mapped.

        Raises:
            ChangedFile: Naming the first.
        """
        for path, before, *_ in (_open[mapped] for mapped in self._files):
            if path is None:
                continue
            try:
                now = os.stat(path)
            except OSError as error:
                raise ChangedFile(_changed(path, f"{error.strerror}")) from error
            if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                what = f"it had {before.st_size} bytes, and has {now.st_size}"
                raise ChangedFile(_changed(path, what))


def release_pages() -> None:
    """Drop the pages of all mapped files from this process; the system may still have them."""
    for mapped in list(_open):
        mapped.madvise(mmap.MADV_DONTNEED)


def place_of(tensor: Tensor) -> tuple[Path, int] | None:
    """The file that a tensor is mapped from, and its first byte there; None for one that may go."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        return None
    if (mapped := _file_of(tensor)) is None:
        return None
    path, _, address, _ = _open[mapped]
    return None if path is None else (path, tensor.data_ptr() - address)


def map_at(path: Path, first: int, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """The tensor at a place of a file, as `place_of` gives it.

    Raises:
        OSError: If there is no such file.
        ValueError: If it is too small.
    """
    mapped, _ = _map(path)
    if first + math.prod(shape) * dtype.itemsize > len(mapped):
        raise ValueError(f"it has {len(mapped)} bytes, too few")
    return _tensor(mapped, dtype, shape, first)


def blocks(values: Tensor | np.ndarray[Any, Any]) -> Iterator[slice]:
    """Slices of the rows of a tensor that together are all of them, one after another.

    A small tensor is one block.  Pages of files are released after each.
    """
    step = len(values) if not is_large(values.nbytes) else max(1, BLOCK // values[:1].nbytes)
    for first in range(0, max(1, len(values)), max(1, step)):
        yield slice(first, min(first + step, len(values)))
        if step < len(values):
            release_pages()


def _map(path: Path) -> tuple[mmap.mmap, memoryview]:
    path = path.resolve()
    return _map_descriptor(os.open(path, os.O_RDONLY), path)


def _map_descriptor(descriptor: int, path: Path | None) -> tuple[mmap.mmap, memoryview]:
    try:
        # Private: torch takes no memory that it may not write.
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    except BaseException:
        os.close(descriptor)
        raise
    finalize(mapped, os.close, descriptor)
    address = torch.frombuffer(mapped, dtype=torch.uint8).data_ptr()
    _open[mapped] = Opened(path, os.fstat(descriptor), address, descriptor)
    return mapped, memoryview(mapped)


def _tensor(mapped: mmap.mmap, dtype: torch.dtype, shape: Any, first: int) -> Tensor:
    count = math.prod(shape)
    if not count:
        return torch.empty(tuple(shape), dtype=dtype)
    return torch.frombuffer(mapped, dtype=dtype, count=count, offset=first).view(tuple(shape))


def _file_of(tensor: Tensor) -> mmap.mmap | None:
    place = tensor.untyped_storage().data_ptr() if tensor.device.type == "cpu" else 0
    for mapped, opened in list(_open.items()):
        if opened.address <= place < opened.address + len(mapped):
            return mapped
    return None


def _tensors(owners: Any) -> Iterator[Tensor]:
    """The strided tensors in some objects, at most `DEPTH` deep."""
    level, seen = [owners], set[int]()
    for _ in range(DEPTH):
        deeper: list[Any] = []
        for each in level:
            if id(each) in seen or isinstance(each, str | bytes | type | torch.nn.Module):
                continue
            seen.add(id(each))
            if isinstance(each, Tensor):
                yield from [each] if each.layout == torch.strided else []
            elif isinstance(each, tuple):
                deeper += each
            else:
                deeper += (
                    each if isinstance(each, Mapping) else getattr(each, "__dict__", {})
                ).values()
        level = deeper


def _changed(path: Path | None, what: str) -> str:
    return (
        f"{path} was changed while values are read from it ({what}): the values of this run would be a"
        " mixture; put back the file, and begin anew or resume"
    )
