"""Missing values of a condition: what they look like, and what is done about them."""

from __future__ import annotations

from typing import cast, get_args

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.protocols import Missing as Missing
from ccl_plugins.protocols import ValueType


def check_policy(missing: str, value_type: ValueType | None = None) -> Missing:
    """``missing`` if it is a policy that goes with the value type.

    Args:
        missing: The policy.
        value_type: Of the condition; None where it is not known yet.

    Raises:
        ValueError: For another word, and for ``"own"`` where there are no classes.
    """
    one_of("missing", missing, get_args(Missing))
    if missing == "own" and value_type not in (None, "categorical"):
        raise ValueError(
            f"missing='own' gives a sample a class of its own, but the condition is {value_type}:"
            " missing='drop' leaves such samples out"
        )
    return cast("Missing", missing)


def missing_entries(values: Tensor, value_type: ValueType) -> Tensor:
    """True where a value is missing: NaN, and -1 among class ids and 0/1 columns."""
    nan = values.isnan()
    return nan if value_type == "continuous" else nan | (values == -1)


def missing_rows(values: Tensor, value_type: ValueType) -> Tensor:
    """(N,) True at the samples that lack a value of (N,) or (N, c)."""
    entries = missing_entries(values, value_type)
    return entries if entries.ndim == 1 else entries.any(1)


def own_classes(ids: Tensor, missing: Tensor) -> Tensor:
    """Class ids in which each missing one is a class that nothing else has.

    Args:
        ids: (N,) or (N, L) long; columns are classes of different levels.
        missing: The same shape, bool.
    """
    numbers = missing.long().cumsum(0) - 1
    first = ids.masked_fill(missing, -1).amax(0) + 1
    return torch.where(missing, first + numbers, ids)
