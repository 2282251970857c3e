"""The checks that a condition's values pass once, before training reads them."""

from __future__ import annotations

from torch import Tensor

from ccl_plugins.metadata.missing import Missing, check_policy, missing_entries, own_classes
from ccl_plugins.protocols import ValueType


def check_values(
    name: str, values: Tensor, value_type: ValueType, size: int, missing: Missing = "error"
) -> Tensor:
    """A condition's values in the type its value type has: long, or float32.

    Args:
        name: The condition's, for errors.
        values: (N,) or (N, c).
        value_type: ``"categorical"`` class ids, 0 or more; ``"multi_label"`` 0/1 columns;
            ``"continuous"`` finite numbers.
        size: N.
        missing: What becomes of missing values: refused; under ``"own"`` new classes; under
            ``"drop"`` they stay -1 or NaN, since their samples are left out of training.

    Raises:
        TypeError: For values that are no tensor.
        ValueError: For another number of rows, missing or infinite values, naming the first rows,
            and values that are not of the value type.
    """
    if not isinstance(values, Tensor):
        raise TypeError(f"condition {name!r} must be a tensor, not {type(values).__name__}")
    if values.ndim not in (1, 2) or len(values) != size:
        raise ValueError(
            f"condition {name!r} has shape {tuple(values.shape)}, but the data set has {size} samples:"
            f" ({size},) or ({size}, c) is right"
        )
    if value_type not in ("categorical", "multi_label", "continuous"):
        raise ValueError(
            f"condition {name!r} has value_type {value_type!r};"
            " there are 'categorical', 'multi_label' and 'continuous'"
        )
    if values.is_complex():
        raise ValueError(f"condition {name!r} has complex values; its value type is {value_type}")
    check_policy(missing, value_type)
    values = values.detach()
    gone = missing_entries(values, value_type)
    if missing == "error":
        _refuse_missing(gone, values, name, value_type)
    elif len(values) and _rows(gone).all():
        raise ValueError(f"condition {name!r} is missing in all of its {size} rows")
    if value_type == "continuous":
        _refuse(values.isinf(), name, "infinite", "continuous values must be finite")
        return values.float()
    if value_type == "multi_label":
        odd = (values != 0) & (values != 1) & ~gone
        _refuse(odd, name, "neither 0 nor 1", "multi_label values are 0 or 1")
        return values.float().masked_fill(gone, float("nan"))
    _refuse((values < 0) & ~gone, name, "negative", "class ids are 0 or more")
    if values.is_floating_point():
        odd = (values != values.round()) & ~gone
        _refuse(odd, name, "fractional", "class ids are whole numbers")
    ids = values.masked_fill(gone, -1).long()
    return own_classes(ids, gone) if missing == "own" else ids


def _refuse_missing(gone: Tensor, values: Tensor, name: str, value_type: ValueType) -> None:
    ways = "'own' (positive with their own views only) or 'drop'"
    remedy = f"give these samples a value, or the condition missing={ways}"
    if value_type != "categorical":
        remedy = "fill these samples in, or give the condition missing='drop'"
    _refuse(gone & values.isnan(), name, "missing (NaN)", remedy)
    _refuse(gone, name, "missing (-1)", remedy)


def _rows(entries: Tensor) -> Tensor:
    return entries.reshape(len(entries), -1).any(1)


def _refuse(bad: Tensor, name: str, what: str, remedy: str) -> None:
    rows = _rows(bad).nonzero().flatten() if bad.numel() else bad.new_zeros(0)
    if len(rows):
        first = ", ".join(str(i) for i in rows[:8].tolist())
        raise ValueError(
            f"condition {name!r} has {what} values in {len(rows)} of {len(bad)} rows"
            f" ({first}{', ...' if len(rows) > 8 else ''}): {remedy}"
        )
