"""Several data sets in one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils import data

from ccl_plugins.datasets.annotated import Annotated, reads_several
from ccl_plugins.datasets.splitting import SPLITS, check_split
from ccl_plugins.metadata.columns import factorize
from ccl_plugins.protocols import Dataset, ValueType, trait


@dataclass(eq=False, repr=False)
class Mixed:
    """Several data sets one after another; the column ``source`` names the data set of each sample.

    Each data set's share of the batches is its share of the samples; the sampler ``weighted`` on
    the source sets other shares. If a data set lacks a column, the column's values are missing in
    its samples, and a condition on it needs a policy for missing values. Class ids with equal words
    are one class. Columns of texts are kept if all data sets have them.

    Args:
        of: The data sets, by the name of the source.
        apart: Columns of class ids with a different meaning in each data set, such as its own
            labels: their classes are ``"<source>/<class>"``. In other columns without words, equal
            ids are one class.
        column: The name of the column of sources.

    Raises:
        ValueError: For fewer than two data sets; on use, for columns that do not fit together, such as
            numbers in one data set and class ids in another, and for groups in only some of the
            data sets.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "of": {
            "digits": "color_digits",
            "shapes": {"use": "sprites", "train": 20, "test": 10},
        }
    }

    of: Mapping[str, Dataset]
    apart: Sequence[str] = ("label",)
    column: str = "source"

    def __post_init__(self) -> None:
        if len(self.of) < 2:
            raise ValueError(f"of must have two data sets or more, not {len(self.of)}")

    def __call__(self, split: str) -> Annotated:
        """The ``"train"`` or ``"test"`` split."""
        number = SPLITS.index(check_split(split))
        parts = {name: both[number] for name, both in self._splits.items()}
        sizes = [len(part) for part in parts.values()]
        source = torch.arange(len(parts)).repeat_interleave(torch.tensor(sizes))
        columns = {name: self._column(name, parts) for name in self.schema() if name != self.column}
        texts = {name: [t for p in parts.values() for t in p.texts[name]] for name in self.texts()}
        words = {self.column: [*parts], **{k: v for k, v in self._words.items() if v is not None}}
        made = Annotated(
            Joined(parts.values()),
            {**columns, self.column: source},
            words,
            texts,
            self._group(parts),
        )
        made.skipped = [each for part in parts.values() for each in getattr(part, "skipped", ())]
        ways = [way for part in parts.values() if (way := getattr(part, "reading", {})) != {}]
        made.reading = (ways or [{}])[0] if all(way == ways[0] for way in ways) else None
        return made

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of all data sets and what they hold, and the source."""
        types: dict[str, ValueType] = {}
        first: dict[str, str] = {}
        for source, dataset in self.of.items():
            for name, value_type in dataset.schema().items():
                if name == self.column:
                    raise ValueError(
                        f"{source} already has a column {name!r}: give column=, another name for "
                        "the column of sources"
                    )
                if types.setdefault(name, value_type) != value_type:
                    raise ValueError(
                        f"column {name!r} is {types[name]} in {first[name]} and {value_type} in {source}"
                    )
                first.setdefault(name, source)
        if wrong := [name for name in self.apart if types.get(name) != "categorical"]:
            raise ValueError(f"apart names {wrong[0]!r}, which is not a column of class ids")
        return {**types, self.column: "categorical"}

    def texts(self) -> Sequence[str]:
        """The columns of texts that all data sets have."""
        declared = [trait(dataset, "texts") for dataset in self.of.values()]
        several = [[*texts()] if texts else [] for texts in declared]
        return [name for name in several[0] if all(name in texts for texts in several)]

    @cached_property
    def _splits(self) -> dict[str, list[Any]]:
        return {name: [dataset(s) for s in SPLITS] for name, dataset in self.of.items()}

    @cached_property
    def _words(self) -> dict[str, list[str] | None]:
        """The words of each column of class ids, in the order of ids; None: a column without words."""
        schemas = {source: dataset.schema() for source, dataset in self.of.items()}
        by_column: dict[str, list[str] | None] = {}
        for name, value_type in self.schema().items():
            if value_type != "categorical" or name == self.column:
                continue
            given = {s: self._given(s, name) for s, schema in schemas.items() if name in schema}
            with_words = [source for source, words in given.items() if words is not None]
            if name in self.apart:
                names = {s: words or self._ids(s, name) for s, words in given.items()}
                by_column[name] = [f"{s}/{word}" for s, words in names.items() for word in words]
            elif len(with_words) == len(given):
                by_column[name] = sorted({word for words in given.values() for word in words or ()})
            elif with_words:
                without = next(source for source in given if source not in with_words)
                raise ValueError(
                    f"column {name!r} has words in {with_words[0]} but only ids in {without}, "
                    f"which cannot be matched: name it in apart={[*self.apart, name]}"
                )
            else:
                by_column[name] = None
        return by_column

    def _given(self, source: str, name: str) -> list[str] | None:
        words: list[str] | None = getattr(self._splits[source][0], "vocabulary", {}).get(name)
        return words

    def _ids(self, source: str, name: str) -> list[str]:
        """The class ids of a column without words, as words."""
        most = max(int(torch.as_tensor(s.metadata[name]).max()) for s in self._splits[source])
        return [str(number) for number in range(most + 1)]

    def _column(self, name: str, parts: Mapping[str, Any]) -> Tensor:
        """A column of all samples, missing where a data set lacks it."""
        held = {
            s: torch.as_tensor(p.metadata[name]) for s, p in parts.items() if name in p.metadata
        }
        like = next(iter(held.values()))
        shapes = {source: tuple(column.shape[1:]) for source, column in held.items()}
        if len(set(shapes.values())) > 1:
            raise ValueError(f"column {name!r} has rows of different shapes: {shapes}")
        words = self._words.get(name)
        classes = name in self._words
        columns = []
        for source, part in parts.items():
            if source not in held:
                empty = torch.full((len(part), *like.shape[1:]), -1 if classes else torch.nan)
                columns.append(empty.long() if classes else empty)
            elif words is None:
                columns.append(held[source] if classes else held[source].float())
            else:
                mine = self._given(source, name) or self._ids(source, name)
                apart = f"{source}/" if name in self.apart else ""
                places = factorize([f"{apart}{word}" for word in mine], words)
                ids = held[source].long()
                present = ids >= 0
                columns.append(ids.masked_scatter(present, places[ids[present]]))
        return torch.cat(columns)

    def _group(self, parts: Mapping[str, Any]) -> str | None:
        """The column of groups, if all data sets have one of one name."""
        groups = {source: getattr(part, "group", None) for source, part in parts.items()}
        if len(set(groups.values())) > 1:
            raise ValueError(
                f"the groups of samples that belong together are the columns {groups}: all data sets must"
                " have one of the same name, or none"
            )
        return next(iter(groups.values()))


class Joined(data.ConcatDataset[Any]):
    """Data sets one after another; one call reads several samples if the data sets support this."""

    def __init__(self, parts: Iterable[Any]) -> None:
        super().__init__(parts)
        if any(reads_several(part) for part in self.datasets):
            self.__getitems__ = self._read_together

    def _read_together(self, indices: Sequence[int]) -> list[Any]:
        """Some samples: one call for each data set."""
        samples: dict[int, Any] = {}
        start, parts = 0, list[Any](self.datasets)
        for part, end in zip(parts, self.cumulative_sizes, strict=True):
            its = [index for index in indices if start <= index < end]
            rows = [index - start for index in its]
            several = reads_several(part) and rows
            read = part.__getitems__(rows) if several else [part[row] for row in rows]
            samples |= zip(its, read, strict=True)
            start = end
        return [samples[index] for index in indices]
