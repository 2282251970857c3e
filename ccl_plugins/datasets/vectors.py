"""A split of vectors in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from torch import Tensor
from torch.utils import data


class Vectors(data.Dataset[tuple[Tensor, int]]):
    """Vectors in one tensor, with their metadata.

    Args:
        vectors: (N, f) float32.
        metadata: Columns with one row per vector, always with ``label``, class ids.
        vocabulary: For columns of words, the word of each id.

    Raises:
        ValueError: If a number of rows is wrong.
    """

    def __init__(
        self, vectors: Tensor, metadata: Mapping[str, Tensor], vocabulary: Mapping[str, list[str]]
    ) -> None:
        wrong = {name: len(c) for name, c in metadata.items() if len(c) != len(vectors)}
        if wrong:
            raise ValueError(f"there are {len(vectors)} vectors, but rows in {wrong}")
        self.vectors = vectors
        self.metadata = dict(metadata)
        self.vocabulary = dict(vocabulary)
        self.targets = self.metadata["label"]

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The vector (f,) and its target."""
        return self.vectors[index], int(self.targets[index])

    def select(self, rows: Tensor) -> Self:
        """The vectors of some rows."""
        columns = {name: column[rows] for name, column in self.metadata.items()}
        return type(self)(self.vectors[rows], columns, self.vocabulary)
