"""Splits: samples with metadata, from any torch Dataset, list or tensor of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import data

from ccl_plugins.datasets.splitting import hold_out
from ccl_plugins.files.tables import row_of
from ccl_plugins.metadata.groups import sample_groups


class OfOthers(data.Dataset[Any]):
    """Samples that are made of other samples, in one call for several if those support this.

    Args:
        samples: The other samples; has a length and returns a sample for an index.
    """

    def __init__(self, samples: Any) -> None:
        self.samples = samples
        if reads_several(samples):  # torch asks whether there is such a member
            self.__getitems__ = self._read_together

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self._made(index, self.samples[index])

    def _read_together(self, indices: Sequence[int]) -> list[Any]:
        read = self.samples.__getitems__(list(indices))
        return [self._made(index, each) for index, each in zip(indices, read, strict=True)]

    def _made(self, index: int, sample: Any) -> Any:
        """The sample that is made of one of the others."""
        raise NotImplementedError


class Annotated(OfOthers):
    """Samples with a table of metadata.

    Args:
        samples: Has a length and returns, for an index, a sample, or a tuple or list that begins
            with a sample. If it has torch's ``__getitems__``, one call reads a batch.
        metadata: Columns with one row per sample, always with ``label``, class ids.
        vocabulary: For columns of words, the word of each id.
        texts: Columns of texts, such as captions, with one string per sample.
        group: The column of samples that belong together, such as the patient: samples of equal
            value are held out for validation together, and intervals are over groups.

    Attributes:
        skipped: Samples of the source that were left out because they could not be read.
        reading: How image files were read (see `ccl_plugins.files.images.reading`), so that further
            images can be read the same way. Empty: the samples are not files; None: in several
            ways.

    Raises:
        ValueError: If a number of rows is wrong, ``label`` is missing, a column is both metadata
            and texts, or a sample lacks a text (the message names the first) or a group.
    """

    def __init__(
        self,
        samples: Any,
        metadata: Mapping[str, Any],
        vocabulary: Mapping[str, list[str]] | None = None,
        texts: Mapping[str, Sequence[str]] | None = None,
        group: str | None = None,
    ) -> None:
        if "label" not in metadata:
            raise ValueError(f"metadata must have a column 'label', not only {sorted(metadata)}")
        columns = [*metadata.items(), *(texts or {}).items()]
        wrong = {name: len(c) for name, c in columns if len(c) != len(samples)}
        if wrong:
            raise ValueError(f"there are {len(samples)} samples, but rows in {wrong}")
        if twice := sorted(metadata.keys() & (texts or {}).keys()):
            raise ValueError(f"the column {twice[0]!r} is both metadata and texts: choose one")
        super().__init__(samples)
        self.metadata = dict(metadata)
        self.vocabulary = dict(vocabulary or {})
        self.texts = {name: as_texts(name, column) for name, column in (texts or {}).items()}
        self.targets: Tensor = self.metadata["label"]
        if self.targets.ndim != 1:
            raise ValueError(f"the label must be (N,), not of shape {tuple(self.targets.shape)}")
        self.skipped: list[Any] = []
        self.reading: Any = {}
        self.group = group
        sample_groups(self)

    def held_out(self, test_fraction: float, seed: int) -> dict[str, Tensor]:
        """The rows of ``"train"`` and ``"test"``; a part of each class is kept for testing.

        See `ccl_plugins.datasets.splitting.hold_out`.
        """
        words = self.vocabulary.get("label")
        return hold_out(self.targets, test_fraction, seed, sample_groups(self), words)

    def _made(self, index: int, sample: Any) -> tuple[Any, int]:
        """The sample and its target."""
        if isinstance(sample, Mapping):
            raise TypeError(dictionary(f"sample {index}", sample))
        image = sample[0] if isinstance(sample, tuple | list) else sample
        return image, self._target(index)

    def _target(self, index: int) -> int:
        """The class id of a sample, -1 if it has none; a label of numbers is cut to a whole one."""
        return int(self.targets[index].nan_to_num(-1, -1, -1))


def refuse_twice(texts: Sequence[str], *others: str | None) -> None:
    """Refuse a column of texts that is named as another column too."""
    if both := sorted({*texts} & {*others}):
        raise ValueError(
            f"the column {both[0]!r} is named in text and as another column: name it once"
        )


def as_texts(
    name: str, column: Sequence[Any], place: str = "texts", empty: bool = False, cure: str = ""
) -> list[str]:
    """A column of texts, checked: each text has a word.

    Args:
        name: The column.
        column: A text per row.
        place: Where the column is from, for errors.
        empty: Whether a text may be empty; it becomes "".
        cure: The remedy against empty texts, for errors.

    Raises:
        ValueError: For a value that is not a text, or an empty one; the message names its row.
    """
    texts = []
    for row, text in enumerate(column):
        # NaN alone differs from itself.
        if text is None or text != text or (isinstance(text, str) and not text.strip()):
            text = ""
        wrong = (
            f"{text!r} and not a text" if not isinstance(text, str) else "empty" if not text else ""
        )
        if wrong and not (empty and wrong == "empty"):
            raise ValueError(
                f"{place}, {row_of(place, row)}: {name!r} is {wrong}; every sample must have a text{cure}"
            )
        texts.append(text)
    return texts


def annotations_of(
    split: Any, rows: Sequence[int]
) -> tuple[dict[str, Any], Any, dict[str, Any], str | None]:
    """Metadata, vocabulary, texts and group of some rows of a split, as arguments of `Annotated`."""

    def take(columns: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: c[list(rows)] if isinstance(c, Tensor) else [c[row] for row in rows]
            for name, c in columns.items()
        }

    return (
        take(split.metadata),
        getattr(split, "vocabulary", None),
        take(getattr(split, "texts", {})),
        getattr(split, "group", None),
    )


class Keyed(OfOthers):
    """The images of samples that are dictionaries, such as those of Hugging Face's ``datasets``.

    Args:
        samples: Has a length and gives, for an index, a mapping.
        image: The key of the image.

    Raises:
        ValueError: On use, for a sample that is another thing, or has no such key.
    """

    def __init__(self, samples: Any, image: str) -> None:
        super().__init__(samples)
        self.image = image

    def _made(self, index: int, sample: Any) -> Any:
        """The image of a sample."""
        return self._held(index, self.image, sample)

    def column(self, key: str) -> list[Any]:
        """The values of another key; images are not read if the samples are stored by column."""
        if key in getattr(self.samples, "column_names", ()):
            return list(self.samples[key])
        return [self._held(index, key, self.samples[index]) for index in range(len(self))]

    def _held(self, index: int, key: str, sample: Any) -> Any:
        if not isinstance(sample, Mapping):
            raise ValueError(
                f"sample {index} is a {type(sample).__name__}, not a dictionary with {key!r}: "
                "leave image="
                " and label= out"
            )
        if key not in sample:
            raise ValueError(f"sample {index} has no {key!r}, but {', '.join(map(repr, sample))}")
        return sample[key]


def reads_several(samples: Any) -> bool:
    """Whether a torch Dataset reads several samples in one call, ``__getitems__``.

    torch's ``Subset`` does if its full data set does.
    """
    if isinstance(samples, data.Subset):
        return reads_several(samples.dataset)
    return hasattr(samples, "__getitems__")


def dictionary(place: str, sample: Mapping[str, Any]) -> str:
    """The message for a sample that is a dictionary instead of an image, with the remedy."""
    keys = [str(key) for key in sample]
    image = next((k for k in ("image", "img", "pixel_values") if k in keys), "IMAGE")
    label = next((k for k in ("label", "labels", "fine_label", "target") if k in keys), "LABEL")
    return (
        f"{place} is a dictionary with {', '.join(map(repr, keys))}, but a sample must be (image, label):"
        f' give ccl.create("dataset", "torch", train=train, test=test, image={image!r}, label={label!r})'
    )


class InMemory(Annotated):
    """Images in one tensor, with their targets and metadata.

    Args:
        images: (N, channels, height, width) uint8.
        targets: (N,) class ids, long.
        metadata: Columns with one row per image, (N,) or (N, c) tensors or lists of N strings; always
            with ``label``.
        vocabulary: For columns of words, the word of each id.
        texts: Columns of texts, with one string per image.
        group: The column of images that belong together, as `Annotated` takes it.

    Raises:
        TypeError: If images are not uint8, or targets not long.
        ValueError: If a shape is wrong, or a column is not one that `Annotated` takes.
    """

    def __init__(
        self,
        images: Tensor,
        targets: Tensor,
        metadata: Mapping[str, Tensor | list[str]],
        vocabulary: Mapping[str, list[str]] | None = None,
        texts: Mapping[str, Sequence[str]] | None = None,
        group: str | None = None,
    ) -> None:
        if images.dtype != torch.uint8 or targets.dtype != torch.long:
            raise TypeError(
                "images must be torch.uint8 and targets torch.int64, "
                f"not {images.dtype} and {targets.dtype}"
            )
        if images.ndim != 4 or targets.shape != images.shape[:1]:
            raise ValueError(
                "images must be (N, channels, height, width) and targets (N,), "
                f"not {tuple(images.shape)} and {tuple(targets.shape)}"
            )
        super().__init__(images, metadata, vocabulary, texts, group)
        self.images = images
        self.targets = targets


def find_labels(samples: Any) -> Any:
    """The labels of a Dataset, if it has them without reading images; else None.

    They are read where torchvision keeps them: ``targets`` or ``labels``, or the second of each pair in
    ``samples``; for a ``Subset``, those of its rows.
    """
    if isinstance(samples, data.Subset):
        labels = find_labels(samples.dataset)
        if isinstance(labels, list | tuple) and any(isinstance(label, str) for label in labels):
            return [labels[row] for row in samples.indices]
        return None if labels is None else torch.as_tensor(labels)[torch.as_tensor(samples.indices)]
    if isinstance(samples, Keyed):
        return find_labels(samples.samples)
    for name in ("targets", "labels", "_labels"):
        labels = getattr(samples, name, None)
        if labels is not None:
            return labels
    for name in ("samples", "_samples"):
        pairs = getattr(samples, name, None)
        if pairs is not None:
            return [label for _, label in pairs]
    return None
