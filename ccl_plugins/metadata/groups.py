"""Groups: samples that belong together, such as the images of one patient, and the validation part.

Settings are chosen on the validation part of the training split, not on test samples.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, isin

from ccl_plugins.files.tables import choose
from ccl_plugins.metadata.variable import Variable

LIKELY = re.compile(
    r"(^|[-_. ])(patient|subject|person|participant|user|speaker|writer|session|scene|video|clip|slide"
    r"|family|specimen)s?([-_. ]?(id|no|nr|number|name))?$",
    re.IGNORECASE,
)
"""Names of columns whose equal values probably belong together."""

FEWEST = 20
"""The least number of values of such a column; a column with fewer is an attribute."""

EVERY = 10
"""One of this number of training samples, or of their groups, is for validation."""

FEWEST_HELD = 3
"""The least number of groups for validation, but at most half of all groups."""


def checked_group(
    metadata: Mapping[str, Any],
    name: str,
    place: Callable[[int], str] = "sample {} (from 0)".format,
) -> Tensor:
    """(N,) the groups of samples: class ids in a column.

    Args:
        metadata: The columns.
        name: The column.
        place: Returns a sample's name for errors.

    Raises:
        ValueError: For a column that is missing, does not hold class ids, or lacks one for a
            sample.
    """
    ids: Tensor = choose(metadata, [name], "the data set")[name]
    if not isinstance(ids, Tensor) or ids.ndim != 1 or ids.is_floating_point():
        raise ValueError(f"group={name!r} must be a column of words or class ids, one per sample")
    lacking = Variable(ids, "categorical").missing.nonzero()
    if len(lacking):
        raise ValueError(
            f"group={name!r}: {len(lacking)} samples have no value, such as {place(int(lacking[0]))}:"
            " give each a group, one of its own if it has no other"
        )
    return ids


def sample_groups(split: Any) -> Tensor | None:
    """(N,) the groups of a split's samples; None if its samples do not belong together."""
    name = getattr(split, "group", None)
    place = {"place": split.place} if hasattr(split, "place") else {}
    return None if name is None else checked_group(split.metadata, name, **place)


def check_apart(train: Any, test: Any) -> None:
    """Check that no group is in both splits.

    Raises:
        ValueError: If a group is in both.

    Warns:
        UserWarning: For a column whose name and values are those of groups, if the data set has no group.
    """
    if (name := getattr(train, "group", None)) is not None:
        if shared := _shared(train, test, name):
            raise ValueError(
                f"{shared} values of the group {name!r} are in both train and test, so the test "
                "split would contain groups that training has seen"
            )
        return
    for name, ids in train.metadata.items():
        if LIKELY.search(name) is None or name not in test.metadata:
            continue
        if not isinstance(ids, Tensor) or ids.ndim != 1 or ids.is_floating_point():
            continue
        count = len(ids.unique())
        if FEWEST <= count <= len(ids) / 2 and (shared := _shared(train, test, name)):
            warnings.warn(
                f"the column {name!r} looks like a group of samples that belong together, and {shared} of"
                f" its {count} values are in both train and test: numbers of the test split may be too"
                f' good. group = "{name}" of the data set keeps them apart',
                stacklevel=3,
            )


def _shared(train: Any, test: Any, name: str) -> int:
    """The number of values of a column that both splits have."""
    values = train.metadata[name].unique()
    return int((isin(values, test.metadata[name]) & ~Variable(values, "categorical").missing).sum())


def validation_rows(n: int, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Rows for training and for validation, in order: every tenth of the rows shuffled in a fixed way.

    The shuffle depends on n alone, so all evaluators and runs on a data set hold out the same samples.
    Without the shuffle, rows that repeat the classes in turn would hold out one class.

    Args:
        n: Samples of the training split, 2 or more.
        groups: (n,) ids of samples that belong together; every tenth of the groups is held out, and three
            or half of them if there are few.

    Raises:
        ValueError: For fewer samples, or groups.
    """
    what = "samples"
    if groups is not None:
        _, index = groups.unique(return_inverse=True)
        n, what = int(index.max()) + 1 if n else 0, "groups of samples"
    if n < 2:
        raise ValueError(f"a validation part needs two training {what} or more, but there are {n}")
    # The stream of RandomState is the same in every version of numpy.
    held = np.zeros(n, dtype=bool)
    order = np.random.RandomState(0).permutation(n)
    few = groups is not None and n <= EVERY * (FEWEST_HELD - 1)
    held[order[: min(FEWEST_HELD, n // 2)] if few else order[::EVERY]] = True
    mask = torch.from_numpy(held)
    mask = mask if groups is None else mask[index]
    return (~mask).nonzero().flatten(), mask.nonzero().flatten()
