"""A kernel given as a matrix or a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.files.arrays import from_numpy, read_npy, read_npz
from ccl_plugins.files.reading import naming_files, reading


class Precomputed:
    """A given matrix of similarities, or a sparse graph, looked up by the samples' indices.

    ``k(i, j) = matrix[i, j]``. The kernel reads the condition ``instance``, the index of each
    sample.

    Equation:
        k(i, j) = M_{ij}

    Shape:
        (n,), (m,) indices of samples -> (n, m)

    Args:
        matrix: (N, N): a tensor, dense or sparse; rows of numbers; or a file, which is read at the
            first look-up: ``.npy``, ``.npz`` with one array, or a ``.npz`` of
            ``scipy.sparse.save_npz``.
        positive_definite: Whether the matrix is positive definite (a graph's adjacency rarely is).

    Raises:
        ValueError: For a matrix that is not square or a file of another type; on use, for a damaged
            file.
        FileNotFoundError: On use, if there is no such file.
        TypeError: In a call with anything but indices.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "matrix": [[1.0, 0.5], [0.5, 1.0]],
        "positive_definite": True,
    }

    def __init__(
        self, matrix: str | Sequence[Sequence[float]] | Tensor, *, positive_definite: bool = False
    ) -> None:
        self.matrix = matrix
        self.positive_definite = positive_definite
        self._loaded: Tensor | None = None
        if not isinstance(matrix, str):
            self._loaded = _prepare(_tensor(matrix))
        elif Path(matrix).suffix not in (".npy", ".npz"):
            raise ValueError(f"matrix must be a tensor, a .npy or a .npz file, not {matrix!r}")
        self._placed: dict[torch.device, Tensor | _Sparse] = {}

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) entries of the matrix."""
        for index in (a, b):
            if index.ndim != 1 or index.dtype.is_floating_point or index.dtype == torch.bool:
                raise TypeError(
                    f"precomputed needs indices of samples, (n,) whole numbers, not"
                    f' {tuple(index.shape)} {index.dtype}: give it the condition "instance"'
                )
        if self._loaded is None:
            file = Path(str(self.matrix)).expanduser()
            with naming_files(file):
                self._loaded = _prepare(_read(file))
        if a.device not in self._placed:
            matrix = self._loaded.to(a.device)
            self._placed[a.device] = _Sparse(matrix) if matrix.is_sparse else matrix
        return self._placed[a.device][a.long()[:, None], b.long()]

    def __repr__(self) -> str:
        what = repr(self.matrix) if isinstance(self.matrix, str) else "..."
        return f"Precomputed({what}, positive_definite={self.positive_definite})"


class _Sparse:
    """Entries found by bisection, without a tensor of size N² and without waiting for the device."""

    def __init__(self, matrix: Tensor) -> None:
        size = matrix.shape[0]
        rows, columns = matrix.indices()
        # One more place at the end: bisection returns it for places behind the last entry.
        self.places = functional.pad(rows * size + columns, (0, 1), value=size * size)
        self.values = functional.pad(matrix.values(), (0, 1))
        self.column = torch.arange(size, device=matrix.device)
        self.row = self.column * size

    def __getitem__(self, index: tuple[Tensor, Tensor]) -> Tensor:
        rows, columns = index
        wanted = self.row[rows] + self.column[columns]
        place = torch.searchsorted(self.places, wanted)
        return torch.where(self.places[place] == wanted, self.values[place], 0)


def _tensor(matrix: Any) -> Tensor:
    """A matrix in memory as a tensor."""
    try:
        return torch.as_tensor(matrix)
    except (TypeError, ValueError, RuntimeError) as error:  # torch's errors for what has no numbers
        raise ValueError(f"matrix must be (N, N) numbers, not {matrix!r:.80}") from error


def _prepare(matrix: Tensor) -> Tensor:
    """The matrix in floats; a sparse matrix gets its entries in order."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix must be square, (N, N), not {tuple(matrix.shape)}")
    if matrix.is_complex():
        raise ValueError("matrix has complex values, but must have real numbers")
    if matrix.layout != torch.strided:
        matrix = matrix.to_sparse_coo().coalesce()
    return matrix if matrix.dtype.is_floating_point else matrix.float()


def _read(file: Path) -> Tensor:
    """Read a stored matrix; pickled objects are refused."""
    if file.suffix == ".npy":
        return read_npy(file)
    arrays = read_npz(file)
    if "format" in arrays:
        from scipy import sparse  # type: ignore[import-untyped]  # it ships no types

        with reading(file, "sparse matrix"):
            matrix = sparse.load_npz(file)
            if hasattr(matrix, "check_format"):  # what follows trusts its indices
                matrix.check_format(full_check=True)
            entries = matrix.tocoo()
            indices = torch.from_numpy(np.stack([entries.row, entries.col]))
            values = from_numpy(entries.data)
            with torch.sparse.check_sparse_tensor_invariants():  # torch 2.11 warns without
                return torch.sparse_coo_tensor(indices, values, entries.shape)
    if len(arrays) != 1:
        raise ValueError(
            f"{file} holds {[*arrays]}: give a file with one array, or one of scipy.sparse.save_npz"
        )
    (matrix,) = arrays.values()
    with reading(file, "array of numbers"):
        return from_numpy(matrix)
