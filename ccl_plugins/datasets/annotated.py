"""A split made of any torch Dataset and a table of metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import data


class Annotated(data.Dataset[tuple[Any, int]]):
    """The images of any Dataset, with metadata beside them.

    Args:
        samples: Has ``len`` and gives, for an index, an image, or a tuple or list that begins with one.
        metadata: Columns with one row per sample, always with ``label``, class ids.
        vocabulary: For columns of words, the word of each id.

    Raises:
        ValueError: If a number of rows is wrong, or ``label`` is missing.
    """

    def __init__(
        self, samples: Any, metadata: Mapping[str, Tensor], vocabulary: Mapping[str, list[str]]
    ) -> None:
        if "label" not in metadata:
            raise ValueError(f"metadata must have a column 'label', not only {sorted(metadata)}")
        wrong = {name: len(c) for name, c in metadata.items() if len(c) != len(samples)}
        if wrong:
            raise ValueError(f"there are {len(samples)} samples, but rows in {wrong}")
        self.samples = samples
        self.metadata = dict(metadata)
        self.vocabulary = dict(vocabulary)
        self.targets = self.metadata["label"]

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """The image and its target, which is its label in the metadata."""
        sample = self.samples[index]
        image = sample[0] if isinstance(sample, tuple | list) else sample
        return image, int(self.targets[index])


def find_labels(samples: Any) -> Any:
    """The labels of a Dataset, where it keeps them without reading images; else None.

    They are looked for where torchvision's data sets have them: ``targets``, ``labels`` or the second
    of each pair in ``samples``; in a ``Subset``, those of its rows.
    """
    if isinstance(samples, data.Subset):
        found = find_labels(samples.dataset)
        return None if found is None else torch.as_tensor(found)[torch.as_tensor(samples.indices)]
    for name in ("targets", "labels", "_labels"):
        found = getattr(samples, name, None)
        if found is not None:
            return found
    for name in ("samples", "_samples"):
        pairs = getattr(samples, name, None)
        if pairs is not None:
            return [label for _, label in pairs]
    return None
