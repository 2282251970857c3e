"""Groups: samples that belong together, as the images of one patient."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, isin

from ccl_plugins.files.tables import choose
from ccl_plugins.metadata.values import missing_rows

LIKELY = re.compile(
    r"(^|_)(patient|subject|person|participant|user|speaker|writer|session|scene|video|clip|slide|family"
    r"|specimen)s?(_?(id|no|nr|number|name))?$",
    re.IGNORECASE,
)
"""Names of columns whose equal values probably belong together."""

FEWEST = 20
"""The values that such a column has at least; one with fewer is an attribute."""


def checked_group(
    metadata: Mapping[str, Any],
    name: str,
    place: Callable[[int], str] = "sample {} (from 0)".format,
) -> Tensor:
    """(N,) the groups of samples: class ids in a column.

    Args:
        metadata: The columns.
        name: The column.
        place: What an error calls a sample.

    Raises:
        ValueError: For a column that is missing, holds no class ids, or lacks one for some sample.
    """
    ids: Tensor = choose(metadata, [name], "the data set")[name]
    if not isinstance(ids, Tensor) or ids.ndim != 1 or ids.is_floating_point():
        raise ValueError(f"group={name!r} must be a column of words or class ids, one per sample")
    lacking = missing_rows(ids, "categorical").nonzero()
    if len(lacking):
        raise ValueError(
            f"group={name!r}: {len(lacking)} samples have no value, as {place(int(lacking[0]))}:"
            " give each a group, one of its own if it has no other"
        )
    return ids


def groups_of(split: Any) -> Tensor | None:
    """(N,) the groups of a split's samples; None if its samples do not belong together."""
    name = getattr(split, "group", None)
    place = {"place": split.place} if hasattr(split, "place") else {}
    return None if name is None else checked_group(split.metadata, name, **place)


def check_apart(train: Any, test: Any) -> None:
    """Check that no group is in both splits.

    Raises:
        ValueError: If one is.

    Warns:
        UserWarning: For a column whose name and values are those of groups, if the data set has no group.
    """
    if (name := getattr(train, "group", None)) is not None:
        if shared := _shared(train, test, name):
            raise ValueError(
                f"{shared} values of the group {name!r} are in both train and test: what is measured on"
                " the test split would be of samples that training has seen the like of"
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
    """How many values of a column both splits have."""
    values = train.metadata[name].unique()
    return int((isin(values, test.metadata[name]) & ~missing_rows(values, "categorical")).sum())
