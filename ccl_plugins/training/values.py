"""The checks that a condition's values pass once, before training reads them."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.protocols import Measure


def check_values(name: str, values: Tensor, measure: Measure, size: int) -> Tensor:
    """A condition's values in the type its measure has: long, or float32.

    Args:
        name: The condition's, for errors.
        values: (N,) or (N, c).
        measure: ``"categorical"`` class ids, 0 or more; ``"multi_label"`` 0/1 columns;
            ``"continuous"`` finite numbers.
        size: N.

    Raises:
        TypeError: For values that are no tensor.
        ValueError: For another number of rows, missing or infinite values, naming the first rows,
            and values that are not of the measure.
    """
    if not isinstance(values, Tensor):
        raise TypeError(f"condition {name!r} must be a tensor, not {type(values).__name__}")
    if values.ndim not in (1, 2) or len(values) != size:
        raise ValueError(
            f"condition {name!r} has shape {tuple(values.shape)}, but the data set has {size} samples:"
            f" ({size},) or ({size}, c) is right"
        )
    if values.is_complex():
        raise ValueError(f"condition {name!r} has complex values; its measure is {measure}")
    _refuse(values.isnan(), name, "missing (NaN)", "drop these samples or fill them in")
    if measure == "continuous":
        _refuse(values.isinf(), name, "infinite", "continuous values must be finite")
        return values.detach().float()
    if measure == "multi_label":
        _refuse(
            (values != 0) & (values != 1), name, "neither 0 nor 1", "multi_label values are 0 or 1"
        )
        return values.detach().float()
    if measure != "categorical":
        raise ValueError(
            f"condition {name!r} has measure {measure!r};"
            " there are 'categorical', 'multi_label' and 'continuous'"
        )
    _refuse(values == -1, name, "missing (-1)", "drop these samples or give them a class")
    _refuse(values < 0, name, "negative", "class ids are 0 or more")
    if values.is_floating_point():
        _refuse(values != values.round(), name, "fractional", "class ids are whole numbers")
    return values.detach().long()


def _refuse(bad: Tensor, name: str, what: str, remedy: str) -> None:
    rows = bad.reshape(len(bad), -1).any(1).nonzero().flatten()
    if len(rows):
        first = ", ".join(str(i) for i in rows[:8].tolist())
        raise ValueError(
            f"condition {name!r} has {what} values in {len(rows)} of {len(bad)} rows"
            f" ({first}{', ...' if len(rows) > 8 else ''}): {remedy}"
        )


def describe_kernel(kernel: torch.Tensor) -> tuple[float, float]:
    """What a kernel matrix leaves of the other samples.

    Args:
        kernel: (r, r) kernel values of r samples with themselves.

    Returns:
        The surviving weight, mean off-diagonal ``|K_ij|`` over mean ``K_ii``; and the effective
        number of neighbours: the mean over rows of ``(sum w)^2 / sum w^2`` of the off-diagonal
        weights ``w = |K_ij|``, between 1 (or 0 where a row has none) and r - 1.
    """
    count = len(kernel)
    diagonal = kernel.diagonal().double()
    others = kernel.double().abs()
    others = others - torch.diag(others.diagonal())
    surviving = others.sum() / (count * (count - 1)) / diagonal.mean().clamp_min(1e-300)
    # Scaled by each row's largest weight, since squares of tiny weights underflow.
    scaled = others / others.amax(1, keepdim=True).clamp_min(1e-300)
    neighbours = scaled.sum(1).square() / scaled.square().sum(1).clamp_min(1e-300)
    return float(surviving), float(neighbours.mean())
