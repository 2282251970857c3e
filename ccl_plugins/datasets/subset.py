"""A part of another data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils import data

from ccl_plugins.arguments import checked, whole
from ccl_plugins.datasets.annotated import Annotated, OfOthers, annotations_of
from ccl_plugins.datasets.splitting import check_split
from ccl_plugins.files.tables import choose
from ccl_plugins.protocols import Dataset, ValueType, trait


@dataclass(eq=False, repr=False)
class Subset:
    """A random part of another data set, with equally many samples of each class.

    Use it to try a method quickly on a few thousand images of a large data set. A class with fewer
    samples than its share gives all its samples, and the other classes share the rest. Samples stay
    in the order of the data set. With the same seed, a smaller part is a subset of a larger one.

    Args:
        of: The data set.
        train: The number of training samples; None: all.
        test: The number of test samples; None: all.
        seed: Seed of the choice.
        column: The column of class ids that is balanced; a missing id (-1) counts as a class. None:
            a random part, which keeps the shares of the classes.
        keep: Whether to keep each sample in memory once it has been read, so that small images are
            decoded once and not in every epoch.

    Raises:
        ValueError: If a number or the seed is out of its range; on use, for more samples than there are,
            and for a column that is missing or holds no class ids.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"of": "color_digits", "train": 50, "test": 30}

    of: Dataset
    train: int | None = checked(whole, least=1, default=None)
    test: int | None = checked(whole, least=1, default=None)
    seed: int = checked(whole, least=0, default=0)
    column: str | None = "label"
    keep: bool = False

    def __call__(self, split: str) -> Annotated:
        """The part of the ``"train"`` or ``"test"`` split."""
        size = getattr(self, check_split(split))
        full = self.of(split)
        if size is not None and size > len(full):
            raise ValueError(
                f"{split} must be at most {len(full)}, the number of samples, not {size}"
            )
        rows = range(len(full)) if size is None else self._rows(full, size)
        samples: data.Dataset[Any] = data.Subset(full, rows)
        part = Annotated(Kept(samples) if self.keep else samples, *annotations_of(full, rows))
        part.skipped, part.reading = getattr(full, "skipped", []), getattr(full, "reading", {})
        return part

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the data set and what they hold."""
        return self.of.schema()

    def texts(self) -> Sequence[str]:
        """The columns of texts of the data set."""
        texts = trait(self.of, "texts")
        return texts() if texts else ()

    def _rows(self, full: Any, size: int) -> list[int]:
        if self.column is None:
            ids = torch.zeros(len(full), dtype=torch.long)
        else:
            ids = choose(full.metadata, [self.column], "the data set")[self.column]
            if self.schema()[self.column] != "categorical" or ids.ndim != 1:
                raise ValueError(f"column {self.column!r} holds no class ids: give column=None")
        return balanced(ids, size, self.seed)


class Kept(OfOthers):
    """Samples that are kept in memory once they have been read.

    Args:
        samples: Has a length and gives a sample for an index.
    """

    def __init__(self, samples: Any) -> None:
        super().__init__(samples)
        self.read: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.read:
            self.read[index] = self.samples[index]
        return self.read[index]

    def _read_together(self, indices: Sequence[int]) -> list[Any]:
        """Some samples; those not read before are read in one call if ``samples`` supports this."""
        if new := [index for index in dict.fromkeys(indices) if index not in self.read]:
            self.read.update(zip(new, self.samples.__getitems__(new), strict=True))
        return [self.read[index] for index in indices]


def balanced(ids: Tensor, size: int, seed: int) -> list[int]:
    """Rows, in order, of a random part with equally many samples of each class.

    The samples are shuffled, and the classes take turns: each gives its next sample.

    Args:
        ids: (N,) class ids.
        size: The number of rows, at most N.
        seed: Seed of the choice.
    """
    shuffled = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    by_class = ids[shuffled].argsort(stable=True)
    counts = ids.unique(return_counts=True)[1]
    starts = counts.cumsum(0) - counts
    turn = torch.empty_like(shuffled)
    turn[by_class] = torch.arange(len(ids)) - starts.repeat_interleave(counts)
    return sorted(shuffled[turn.argsort(stable=True)[:size]].tolist())
