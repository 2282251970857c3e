"""Arrays of numbers, from files and from the user."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.mapped import blocks, is_large, map_npy
from ccl_plugins.files.reading import reading
from ccl_plugins.files.tensors import read_tensors

NUMBERS = "biuf"
"""The kinds of numpy types that hold numbers."""


def read_array(path: Path) -> Tensor:
    """The array of a ``.npy`` file; or a ``.safetensors`` file's ``values``, or its only tensor.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, holds no array of numbers, or holds several tensors.
    """
    if path.suffix == ".npy":
        return read_npy(path)
    tensors, _ = read_tensors(path)
    if "values" not in tensors and len(tensors) != 1:
        raise ValueError(f"{path} must hold one tensor, or one called 'values', not {[*tensors]}")
    return tensors.get("values", next(iter(tensors.values())))


def read_npy(path: str | Path) -> Tensor:
    """The array of a ``.npy`` file; whole numbers as long.

    An array of more than 64 MB stays in the file, with the type that it has there.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is truncated, too long or another kind of file, or holds words or Python objects.
    """
    path = Path(path).expanduser()
    if path.suffix != ".npy":
        raise ValueError(f"an array's file must end in .npy, not as {path.name!r}")
    with reading(path, "array of numbers"):
        size = path.stat().st_size
        if is_large(size):
            array: np.ndarray[Any, Any] = np.lib.format.open_memmap(path, mode="r")
            end = array.offset + array.nbytes  # type: ignore[attr-defined]  # of a memmap
        else:
            with path.open("rb") as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
                end = file.tell()
        if array.dtype.kind not in NUMBERS:
            raise ValueError(f"its values are of type {array.dtype}")
        if end != size:
            raise ValueError(f"{size - end} bytes follow its array {array.shape}")
        if is_large(size) and (mapped := map_npy(path)) is not None:
            return mapped
        return from_numpy(array, str(path))


def read_npz(path: str | Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a ``.npz`` file by name, after a check of the file's checksums.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged or another kind of file, or holds Python objects.
    """
    path = Path(path).expanduser()
    arrays = {}
    with reading(path, "file of arrays"), zipfile.ZipFile(path) as packed:
        for name in packed.namelist():
            with packed.open(name) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
                if file.read():  # to the end, where the checksum is compared
                    raise ValueError(f"more bytes follow the array {name}")
            arrays[name.removesuffix(".npy")] = array
    return arrays


def beyond(place: str, number: Any) -> str:
    """The message for a whole number that does not fit into long."""
    return (
        f"{place} holds {number}, and whole numbers must be below 2^63: number its different values from"
        " 0, as numpy.unique(..., return_inverse=True) does"
    )


UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""Types that most functions of torch do not take."""


def from_numpy(array: np.ndarray[Any, Any], place: str = "an array") -> Tensor:
    """A copy of an array of numbers; whole numbers as long, because torch lacks some types.

    Args:
        array: The array.
        place: The array's name, for errors.

    Raises:
        ValueError: For a whole number of 2^63 or more, which long does not hold.
    """
    if array.dtype == np.uint64 and (large := array >= 2**63).any():
        raise ValueError(beyond(place, array[large].flat[0]))
    kind, size = array.dtype.kind, array.dtype.itemsize
    # Numbers may have the byte order of another machine, or more bytes than torch has.
    dtype = {"i": "=i8", "u": "=i8", "f": f"=f{min(size, 8)}"}.get(kind, array.dtype)
    return torch.from_numpy(array.astype(dtype))


def real(values: Tensor, place: str) -> Tensor:
    """A tensor of unsigned whole numbers as long; other tensors unchanged.

    Raises:
        ValueError: For complex numbers and sparse tensors, and see `from_numpy`.
    """
    if values.is_complex():
        raise ValueError(f"{place} has complex values, but must have real numbers")
    if values.layout != torch.strided:
        raise ValueError(f"{place} is a sparse tensor: give its .to_dense()")
    return from_numpy(values.cpu().numpy(), place) if values.dtype in UNSIGNED else values


def as_numbers(values: Any, name: str) -> Tensor:
    """An array, list or tensor from the user as a tensor.

    Raises:
        ValueError: For words, masked values, sparse matrices, and rows of different lengths.
    """
    if hasattr(values, "toarray"):  # scipy's
        raise ValueError(f"{name} is a sparse matrix: give its .toarray()")
    if hasattr(values, "to_numpy"):  # a table of pandas
        values = values.to_numpy()
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} has masked values: give numbers for them, or leave out their rows"
        )
    try:
        if isinstance(values, np.ndarray) and not (
            values.dtype.isnative and values.flags.c_contiguous
        ):
            values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        numbers = torch.as_tensor(values).detach()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, not {values!r:.80}: {error}") from error
    return real(numbers, name)


COARSE = 1e-3
"""The part of a column's range that the rounding of its numbers to float32 may reach without a warning."""


def as_float32(values: Tensor, place: str, cure: str) -> Tensor:
    """Numbers (N,) or (N, c) as float32.

    Args:
        values: The numbers.
        place: The holder of the numbers, for the warning.
        cure: The remedy, for the warning.

    Warns:
        UserWarning: If float32 holds hardly any numbers between the least and the greatest of a column.
    """
    floats = values.float()
    if values.dtype.itemsize < 4 or values.dtype == torch.float32 or not values.numel():
        return floats
    error = torch.zeros(values[:1].numel(), dtype=torch.float64)
    low, high = torch.full_like(error, torch.inf), torch.full_like(error, -torch.inf)
    for rows in blocks(values):
        exact = values[rows].reshape(-1, len(error)).double()
        rounded = floats[rows].reshape(exact.shape).double()
        error = error.maximum((exact - rounded).abs().nan_to_num(0, 0).amax(0))
        low = low.fmin(exact.nan_to_num(torch.inf, torch.inf, -torch.inf).amin(0))
        high = high.fmax(exact.nan_to_num(-torch.inf, torch.inf, -torch.inf).amax(0))
    coarse = (error > COARSE * (high - low)) & (high > low)
    if coarse.any():
        column = int(coarse.nonzero()[0])
        ends = low[column].item(), high[column].item()
        apart = np.spacing(np.float32(max(map(abs, ends))))
        named = f"{place}, column {column} (from 0)," if values.ndim > 1 else place
        warnings.warn(
            f"{named} has numbers from {ends[0]!r} to {ends[1]!r}, where float32 holds only numbers"
            f" {apart:.3g} apart: {cure}",
            stacklevel=2,
        )
    return floats
