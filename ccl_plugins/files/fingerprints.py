"""Fingerprints: short strings that differ if weights, images or metadata differ."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.mapped import Rows, blocks, release_pages

SAMPLED = 256
"""The number of images that are read from a split without images in memory."""

MOST_IN_MEMORY = 1 << 32
"""The most bytes of images in memory that are read, at about a GiB per second; above this, evenly
spaced parts are read."""

PART = 1 << 20
"""The bytes of each of these parts."""

RELEASED = 64
"""The number of parts after which pages of a file are released."""

MOST_IN_FILES = 1 << 28
"""The most bytes of all image files with which every file is read; above this, `SAMPLED` files."""

MOST_IN_FILE = 1 << 20
"""The most bytes that are read of each sampled file."""


def of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        _add(digest, name, tensors[name])
    return digest.hexdigest()


def of_parts(values: Tensor) -> str:
    """The SHA-256 of type, shape and values of (N, ...); above 4 GiB, of evenly spaced parts."""
    digest: Any = hashlib.sha256(f"{values.dtype}\0{tuple(values.shape)}\0".encode())
    parts: Iterable[slice] = blocks(values)
    if values.nbytes > MOST_IN_MEMORY:
        rows = max(1, min(PART, MOST_IN_MEMORY // 2) // values[:1].nbytes)
        most = max(1, MOST_IN_MEMORY // values[:rows].nbytes)
        starts = _evenly_spaced(len(values) - rows + 1, most)
        parts = [slice(start, start + rows) for start in starts]
    for number, rows_of in enumerate(parts):
        digest.update(values[rows_of].contiguous().reshape(-1).view(torch.uint8).numpy())
        if number % RELEASED == 0:
            release_pages()
    return digest.hexdigest()


def of_split(split: Any) -> str:
    """The SHA-256 that identifies the images of a split, in their order.

    If the split has a method ``fingerprint``, it is the result of this. For a split in memory
    (``images``) it covers every pixel. For a split in files (``paths``, or ``samples`` as in
    torchvision) it covers path, size, time of writing and time of change of every file (no program
    can set the last), and ``reading``, how they are read, if the split has it. For any other split
    it covers 256 evenly spaced images.
    """
    if hasattr(split, "fingerprint"):
        return str(split.fingerprint())
    images = getattr(split, "images", None)
    if isinstance(images, Tensor) and len(images) == len(split):
        return of_tensors({"images": images})
    digest = hashlib.sha256(str(len(split)).encode())
    paths = paths_of(split)
    if paths is not None:
        digest.update(str(getattr(split, "reading", "")).encode())
        for path in paths:
            status = os.stat(path)
            times = f"{status.st_mtime_ns}\0{status.st_ctime_ns}"
            digest.update(f"{path}\0{status.st_size}\0{times}\0".encode(errors="surrogateescape"))
        return digest.hexdigest()
    for i in _evenly_spaced(len(split), SAMPLED):
        digest.update(f"{i}\0{of_image(split[i][0])}\0".encode())
    return digest.hexdigest()


def of_data(split: Any, read: Callable[[list[int]], list[str]]) -> dict[str, Any]:
    """The identity of a split's data, independent of its place, as plain data for `differences`.

    It covers the number of samples, the types and values of all columns and texts, how files are
    read, and the images. Images in memory count in full (above 4 GiB, evenly spaced parts). Of
    files, all bytes count; above 256 MiB, all sizes and times of writing, and the bytes of 256
    evenly spaced files. Of any other split, 256 evenly spaced images count. Images that differ each
    time they are read are left out.

    Args:
        split: A torch Dataset with ``metadata``.
        read: Returns the `of_image` of samples, by index.
    """
    words = getattr(split, "vocabulary", {})
    columns = {
        str(name): _of_column(column, words.get(name)) for name, column in split.metadata.items()
    }
    columns |= {
        name: ["texts", _of_texts(each)] for name, each in getattr(split, "texts", {}).items()
    }
    identity: dict[str, Any] = {"samples": len(split), "columns": columns}
    way = getattr(split, "reading", {})
    if way is None or (isinstance(way, Mapping) and way):
        identity["reading"] = way
    paths = None if hasattr(split, "fingerprint") else paths_of(split)
    if paths is None or not os.path.isfile(paths[0]) or _in_memory(split) is not None:
        return identity | {"images": _of_images(split, read)}
    sizes, written, changed = zip(*map(_stat, paths), strict=True)
    few = sum(sizes) <= MOST_IN_FILES
    if not few:
        times = hashlib.sha256(repr([written, changed]).encode()).hexdigest()
        identity["written"] = [min(written), max(written), times]
    return identity | {"images": _of_files(paths, sizes, whole=few)}


def of_image(image: Any) -> str:
    """The SHA-256 of an image's type, shape and pixels; empty for an object without any."""
    pixels = _as_array(image)
    return _of_array(pixels) if pixels.dtype.kind in "biufU" else ""


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences of data from an earlier `of_data`, in words; empty if they are the same.

    Files of equal sizes but newer times count as changed if only some are newer, because a copy
    makes all newer.
    """
    columns, others = now["columns"], before["columns"]
    changes = [f"there is no column {name!r}" for name in others if name not in columns]
    changes += [f"column {name!r} is new" for name in columns if name not in others]
    if now["samples"] != before["samples"]:
        return [f"{now['samples']} samples, not {before['samples']}", *changes]
    for name, (kind, values) in columns.items():
        kind_before, values_before = others.get(name, (kind, values))
        if kind != kind_before:
            changes.append(f"column {name!r} holds {kind}, not {kind_before}")
        elif values != values_before:
            changes.append(f"column {name!r} has other values")
    if now.get("reading") != before.get("reading"):
        changes.append(f"images are read as {now.get('reading')}, not {before.get('reading')}")
    # Images without a fingerprint are not compared.
    if now["images"] != before["images"] and now["images"] and before["images"]:
        return [*changes, "images differ"]
    if "written" in now and "written" in before:
        first, last, _ = now["written"]
        if first <= before["written"][1] < last:
            changes.append("some image files were written since, and others were not")
    return changes


def doubt(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The part of data without `differences` that could not be compared, in words; empty if all was."""
    if "written" not in now or before.get("written") == now["written"]:
        return ""
    return (
        f"the times of image files have changed, such as in a copy: all {now['samples']} sizes and"
        f" {min(SAMPLED, now['samples'])} contents are the same, and the other contents were not compared"
    )


def other_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The `differences` of the splits that both have, by name."""
    return [
        f"{split} split: {each}"
        for split in now
        if split in before
        for each in differences(before[split], now[split])
    ]


def doubts(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The `doubt` of the splits that both have, by name."""
    by_split = {split: doubt(before[split], now[split]) for split in now if split in before}
    return [f"{split} split: {each}" for split, each in by_split.items() if each]


def _of_files(paths: Sequence[str], sizes: Sequence[int], whole: bool) -> str:
    """The SHA-256 of the files' sizes and bytes; if not whole, of the first bytes of some files."""
    digest = hashlib.sha256(",".join(map(str, sizes)).encode())
    for i in range(len(paths)) if whole else _evenly_spaced(len(paths), SAMPLED):
        digest.update(_bytes(paths[i], -1 if whole else MOST_IN_FILE))
    return digest.hexdigest()


def _of_images(split: Any, read: Callable[[list[int]], list[str]]) -> str:
    if hasattr(split, "fingerprint"):
        return str(split.fingerprint())
    if (held := _in_memory(split)) is not None:
        return of_tensors({"images": held}) if held.nbytes <= MOST_IN_MEMORY else of_parts(held)
    digest = hashlib.sha256()
    sampled = _evenly_spaced(len(split), SAMPLED)
    twice = sampled[:2]
    prints = read([*twice, *sampled])
    if prints[: len(twice)] != prints[len(twice) : 2 * len(twice)] or "" in prints:
        return ""
    digest.update(",".join(prints).encode())
    return digest.hexdigest()


def _in_memory(split: Any) -> Tensor | None:
    """(N, ...) all images of a split, or of the Dataset in it, if it holds them as one array."""
    inner = getattr(split, "samples", None)
    for owner, name in ((split, "images"), (split, "vectors"), (split, "samples"), (inner, "data")):
        held = getattr(owner, name, None)
        held = held.values if isinstance(held, Rows) else held
        if isinstance(held, np.ndarray) and held.dtype.kind in "biuf":
            held = torch.from_numpy(np.ascontiguousarray(held))
        if isinstance(held, Tensor) and held.ndim > 1 and len(held) == len(split):
            return held
    return None


def _of_column(column: Any, words: Any) -> list[str]:
    """A column's type, and the SHA-256 of its values and of the words of its ids.

    For numbers of more than `MOST_IN_MEMORY`, of evenly spaced parts.
    """
    if isinstance(column, Tensor) and column.nbytes > MOST_IN_MEMORY:
        return [str(column.dtype), of_parts(column)]
    try:
        values = _as_array(column)
    except ValueError:  # rows of different lengths
        values = np.asarray(list(map(repr, column)))
    if values.dtype.kind not in "biufU":
        values = np.asarray(list(map(repr, values.tolist())))
    kind = "words" if values.dtype.kind == "U" else str(values.dtype.newbyteorder("="))
    return [kind, _of_array(values, repr(words))]


def _of_texts(texts: Iterable[str]) -> str:
    """The SHA-256 of texts, one by one, because an array would give each the longest one's length."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(repr(text).encode())
    return digest.hexdigest()


def _as_array(values: Any) -> np.ndarray[Any, Any]:
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    try:
        return values.numpy()
    except TypeError:  # a type that numpy lacks, such as bfloat16
        return values.double().numpy()


def _of_array(values: np.ndarray[Any, Any], words: str = "") -> str:
    native = values.dtype.newbyteorder("=")
    digest: Any = hashlib.sha256(f"{words}\0{native}\0{values.shape}\0".encode())
    parts = blocks(values) if values.ndim else [...]
    for rows in parts:
        digest.update(np.ascontiguousarray(values[rows], native).reshape(-1).view(np.uint8))
    return digest.hexdigest()


def _evenly_spaced(size: int, most: int) -> list[int]:
    return torch.linspace(0, size - 1, min(most, size), dtype=torch.float64).long().tolist()


def _stat(path: str) -> tuple[int, int, int]:
    """A file's size, time of writing (which a copy may keep) and time of change (which no copy keeps).

    They are 0 if the file is missing; the data set reports this when it reads the file.
    """
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _bytes(path: str, most: int) -> bytes:
    """The first bytes of a file, all for -1; empty if it is missing."""
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return b""


def _add(digest: Any, name: str, tensor: Tensor) -> None:
    digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
    for rows in blocks(tensor) if tensor.ndim else [...]:
        part = tensor[rows].detach().cpu().contiguous()
        digest.update(part.reshape(-1).view(torch.uint8).numpy())


def paths_of(split: Any) -> list[str] | None:
    """The files of a split's images, or None if it does not name them."""
    paths = getattr(split, "paths", None)
    pairs = getattr(split, "samples", None)
    if paths is None and isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs):
        paths = [pair[0] for pair in pairs]
    if paths is None or len(paths) != len(split) or not len(paths):
        return None
    return list(paths) if all(isinstance(path, str | os.PathLike) for path in paths) else None
