"""Findings about the images of both splits before training, one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import data

from ccl_plugins.datasets.annotated import dictionary
from ccl_plugins.files.images import OF_THE_SYSTEM, read_image
from ccl_plugins.files.looks import Look, Looks, look
from ccl_plugins.numerics.generators import mix, seed_cpu, undisturbed
from ccl_plugins.training.loader import read_batch

MOST = 10_000
"""The number of images, evenly spaced, that are checked in a split without image files."""

NAMED = 5
"""The most unreadable images that a line names."""


def looks_at(split: Any, workers: int | None) -> Looks:
    """The looks of a split's images: of all, if they are files of the split, else of `MOST`.

    Args:
        split: The split.
        workers: See `FitSettings`.
    """
    if hasattr(split, "examined"):
        examined: Looks = split.examined()
        return examined
    looks = Looks()
    rows = np.linspace(0, len(split) - 1, min(MOST, len(split))).round().astype(int).tolist()
    seen = read_batch(_Samples(split), rows, list, workers) if rows else []
    for row, each in zip(rows, seen, strict=True):
        if isinstance(each, Look):
            looks.add(row, each)
        elif each is not None:
            looks.unreadable[row] = each
    return looks


class _Samples(data.Dataset[Look | str | None]):
    """The look of each image, or the reason why it cannot be read; None for other samples."""

    def __init__(self, split: Any) -> None:
        self.split = split

    def __getitem__(self, index: int) -> Look | str | None:
        with undisturbed():
            seed_cpu(mix(0, index))  # a transform of the data set draws the same numbers each time
            try:
                sample = self.split[index]
                if isinstance(sample, Mapping):
                    raise TypeError(dictionary(f"sample {index}", sample))
                return look(read_image(sample[0]))
            except (OSError, SyntaxError) as error:  # Pillow's, of a broken PNG
                if isinstance(error, OSError) and error.errno in OF_THE_SYSTEM:
                    raise
                return " ".join(str(error).split())


def unreadable(name: str, split: Any, looks: Looks) -> Iterator[str]:
    """A line if images of a split cannot be read."""
    if not looks.unreadable:
        return
    reasons = [f"{_place(split, row)}: {why}" for row, why in looks.unreadable.items()]
    more = f"; and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
    skip = '; on_error = "skip" of the data set leaves them out'
    yield (
        f"{len(reasons)} of {len(split)} images of {name} cannot be read:"
        f" {'; '.join(reasons[:NAMED])}{more}{skip if hasattr(split, 'examined') else ''}"
    )


def image_findings(splits: Mapping[str, Any], looks: Mapping[str, Looks]) -> Iterator[str]:
    """A line for each finding in the images of the splits."""
    for name, seen in looks.items():
        yield from _of_kinds(name, splits[name], seen)
    for name, seen in looks.items():
        split = splits[name]
        for flaw, places in seen.flaws.items():
            rows = [seen.rows[place] for place in places[:2]]
            half = ": half of their numbers or more are 255" if flaw == "saturated" else ""
            yield (
                f"{len(places)} of {len(seen)} images of {name} are {flaw}{half}, such as"
                f" {' and '.join(_place(split, row) for row in rows)}"
            )
        yield from _repeated(
            f"of {len(seen)} images of {name} repeat another one", "", seen.repeated(), split, split
        )
    if {"train", "test"} <= looks.keys():
        yield from _repeated(
            f"of {len(looks['test'])} images of test are in train too",
            ": numbers of the test split are too good",
            looks["test"].repeated(looks["train"]),
            splits["test"],
            splits["train"],
        )


def _of_kinds(name: str, split: Any, seen: Looks) -> Iterator[str]:
    """Differences between images, and images with flaws."""
    count = len(seen) + len(seen.unreadable)
    if count < len(split):
        yield f"{count} of {len(split)} images of {name} were checked, evenly spaced"
    kinds = seen.kinds
    if len(kinds) > 1 or any("pages" in kind or not kind.startswith("uint8") for kind in kinds):
        each = "; ".join(f"{count} of {kind}" for kind, count in kinds.most_common())
        yield f"images of {name}: {each}"
    channels: Counter[int] = Counter()
    for (number, _, _), (count, _) in seen.shapes.items():
        channels[number] += count
    if len(channels) > 1:
        first = {s[0]: place for s, (_, place) in reversed(seen.shapes.items())}
        each = ", ".join(
            f"{count} have {number}, such as {_place(split, seen.rows[first[number]])}"
            for number, count in channels.most_common()
        )
        yield f"images of {name} are read with several numbers of channels: {each}"
    sizes = sorted(
        {shape[1:]: p for shape, (_, p) in reversed(seen.shapes.items())}.items(), key=_area
    )
    if len(sizes) > 1:
        ends = (f"{w}x{h} ({_place(split, seen.rows[p])})" for (h, w), p in (sizes[0], sizes[-1]))
        yield f"images of {name} have {len(sizes)} sizes, from {' to '.join(ends)}"


def _area(size: tuple[tuple[int, int], int]) -> int:
    return size[0][0] * size[0][1]


def _repeated(
    what: str, so: str, pairs: Iterable[tuple[int, int]], split: Any, among: Any
) -> Iterator[str]:
    """A line for duplicate images with the same label, and one for duplicates with different labels."""
    labels, others = (torch.as_tensor(each.metadata["label"]) for each in (split, among))
    by_label: dict[bool, list[tuple[int, int]]] = {}
    for row, first in pairs:
        by_label.setdefault(torch.equal(labels[row], others[first]), []).append((row, first))
    for same, found_so in sorted(by_label.items(), reverse=True):
        row, first = found_so[0]
        yield (
            f"{len(found_so)} {what}, with {'the same' if same else 'another'} label, such as"
            f" {_place(split, row)}, which equals {_place(among, first)}{so}"
        )


def _place(split: Any, row: int) -> str:
    """The file of a sample, or its number."""
    paths = getattr(split, "paths", None)
    return f"sample {row}" if paths is None else str(paths[row])
