"""Classes from the attributes of highest entropy."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ccl_plugins.information import crossing, information


def entropy_bits(column: Tensor) -> float:
    """The entropy of a column's values in bits, of those that are not NaN."""
    there = column[~column.isnan()]
    if not len(there):
        return 0.0
    counts = torch.unique(there, return_counts=True)[1].double()
    shares = counts / counts.sum()
    return float(-(shares * shares.log2()).sum())


def by_entropy(columns: Tensor) -> list[int]:
    """The places of (N, A) columns from the highest entropy to the lowest, ties in column order."""
    bits = [entropy_bits(column) for column in columns.T]
    return sorted(range(len(bits)), key=lambda i: -bits[i])


def equal_values(columns: Tensor) -> Iterator[Tensor]:
    """Class ids (N,) of equal values in the first column, the first two, and so on.

    Ids are numbered from 0; a sample that lacks one of the values has -1, then and after.
    """
    ids = torch.zeros(len(columns), dtype=torch.long)
    for column in columns.T:
        values = torch.unique(column.nan_to_num(), return_inverse=True)[1]
        joint = ids * (int(values.max()) + 1) + values
        there = (ids >= 0) & ~column.isnan()
        ids = torch.full_like(ids, -1)
        ids[there] = torch.unique(joint[there], return_inverse=True)[1]
        yield ids


def choose_k(columns: Tensor, target: Tensor) -> int:
    """How many of (N, A) columns, in this order, to cluster by: where I(Z;T) and -H(Z|T) cross.

    Args:
        columns: From the highest entropy to the lowest.
        target: (N,) T, class ids; -1 where missing, which is not counted.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 4.3.
    """
    found = []
    for ids in equal_values(columns):
        there = (ids >= 0) & (target >= 0)
        if not there.any():
            break  # no sample has all of these attributes, nor of more
        found.append(information(ids[there], target[there]))
    if not found:
        raise ValueError("k='auto' needs samples that have an attribute and a target")
    return crossing(found) + 1
