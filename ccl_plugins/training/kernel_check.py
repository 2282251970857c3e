"""A check of how much weight a kernel gives to other samples, by their condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.files import mapped
from ccl_plugins.numerics.condition_values import squared_distance
from ccl_plugins.numerics.joint import Joint
from ccl_plugins.numerics.kernel_functions import conditions_of_kernel, count_of, similarities
from ccl_plugins.protocols import Table, trait
from ccl_plugins.training.findings import Finding, Findings

SAMPLED_ROWS = 512
MOST_SHUFFLED = 1 << 24
"""The most samples that are shuffled to take the first."""

FAINT = 1e-3
"""The least mean weight of another sample, of a sample's own, that is seen."""

ALIKE = 0.98
"""The weight, of a sample's own, above which samples of different values count as equal."""


def check_kernel(
    kernel: Any,
    table: Table | Mapping[str, Table],
    name: str,
    findings: Findings | None = None,
    step: int = 0,
) -> dict[str, float]:
    """Measure a kernel on 512 sampled rows of a condition, or of several.

    Args:
        kernel: The kernel.
        table: The condition's table; or, by name, those of all conditions that the kernel reads, a row for
            each sample in all of them.
        name: The condition's name, or that of all of them together.
        findings: Those of the run; None: a new list.
        step: Optimizer steps taken.

    Returns:
        ``surviving_weight`` and ``effective_neighbors``, as `describe_kernel` defines them.

    Raises:
        ValueError: For a value of another shape, one that is not finite, one that changes with the order
            of the two samples, and for a negative eigenvalue of a kernel that says it has none.

    Warns:
        UserWarning: If a quarter of the samples see almost no other; not for class ids, which few of many
            samples may share.  If samples of different values are all seen as nearly equal.  Of several
            conditions, the message names the kernel of one.
    """
    values: Any = (
        table.values if isinstance(table, Table) else {k: t.values for k, t in table.items()}
    )
    size = count_of(values)
    if size < 2:
        return {}
    generator = torch.Generator().manual_seed(0)
    if size > MOST_SHUFFLED:
        rows = torch.randint(size, (SAMPLED_ROWS,), generator=generator).unique()
    else:
        rows = torch.randperm(size, generator=generator)[:SAMPLED_ROWS]
    values = take(values, rows)
    with torch.no_grad():
        matrix = similarities(kernel, values, values)
        if len(wrong := (~matrix.isfinite()).nonzero()):
            i, j = wrong[0].tolist()
            raise ValueError(
                f"the kernel {type(kernel).__name__} must be finite, not {float(matrix[i, j])} for"
                f" {_shown(values, i)} and {_shown(values, j)} of condition {name!r}"
            )
        gap = (matrix - matrix.T).abs()
        if len(wrong := (gap > 1e-3 * matrix.abs().max()).nonzero()):
            i, j = wrong[0].tolist()
            raise ValueError(
                f"the kernel {type(kernel).__name__} must be symmetric, not {float(matrix[i, j])} and"
                f" {float(matrix[j, i])} for {_shown(values, i)} and {_shown(values, j)} of condition"
                f" {name!r}"
            )
        if getattr(kernel, "positive_definite", False):
            _refuse_negative(matrix.double(), type(kernel).__name__, name)
        surviving, neighbors = torch.stack(describe_kernel(matrix)).tolist()
        for finding in what_is_off(step, kernel, values, name, matrix):
            (findings or Findings()).say(finding, stacklevel=3)
    return {"surviving_weight": surviving, "effective_neighbors": neighbors}


def take(values: Any, rows: Any) -> Any:
    """Rows of condition values, or of several conditions' values by name."""
    if isinstance(values, Tensor):
        return mapped.rows(values, rows)
    return {k: mapped.rows(z, rows) for k, z in values.items()}


def _shown(values: Any, row: int) -> Any:
    if isinstance(values, Tensor):
        return values[row].tolist()
    return {name: z[row].tolist() for name, z in values.items()}


def what_is_off(
    step: int, kernel: Any, values: Any, name: str, matrix: Tensor
) -> Iterator[Finding]:
    """A finding if a kernel sees almost nothing of numbers, or any two different values as nearly equal.

    Args:
        step: Optimizer steps taken.
        kernel: The kernel.
        values: (r, c) or (r,) values of its condition, or of its conditions by name.
        name: The condition's name, or that of all of them together.
        matrix: (r, r) the kernel of these values with themselves.
    """
    if isinstance(values, Tensor):
        yield from _off(step, kernel, values, name, matrix)
        return
    parts: list[Finding] = []
    for on, inner, place in kernels_within(kernel):
        z = values[on]
        parts += _off(step, inner, z, on, similarities(inner, z, z), place)
    yield from parts
    numbers = all(z.is_floating_point() for z in values.values())
    if not parts and numbers and (weight := _of_most(matrix)) < FAINT:
        yield _faint(step, kernel, name, weight)


def _off(
    step: int,
    kernel: Any,
    z: Tensor,
    name: str,
    matrix: Tensor,
    place: str = "objective.kernel",
) -> Iterator[Finding]:
    candidates = scales_of(kernel, z)
    if trait(kernel, "distances") and not z.is_floating_point() and z.ndim == 1 and z.max() > 1:
        yield Finding(
            "a-kernel-of-numbers-reads-class-ids",
            step,
            f"{type(kernel).__name__} reads class ids of condition {name!r}, of which any two different"
            ' ones are equally far: value_type = "continuous" of the condition makes numbers of whole'
            f' numbers, and {place} = "delta" says that ids are equal or not',
            about=name,
            explains=False,
        )
    # Few of many samples may share a class id.
    if z.is_floating_point() and (weight := _of_most(matrix)) < FAINT:
        yield _faint(step, kernel, name, weight, place, candidates)
    elif (weight := _of_different(matrix, z)) > ALIKE:
        yield Finding(
            "a-kernel-sees-all-as-equal",
            step,
            f"{_with_scale(kernel)} sees all samples as equal on condition {name!r}: of samples with"
            f" different values, 95 % have at least {weight:.4f} of a sample's weight with itself, so the"
            f" objective is hardly conditioned; take {_remedy(kernel, place, candidates)}",
            about=name,
        )


def _of_most(matrix: Tensor) -> float:
    """The mean weight of another sample, of a sample's own, that three quarters of the samples exceed.

    The mean over all would hide it behind values that many share, as a constant in place of missing ones.
    """
    others = matrix.double().abs().fill_diagonal_(0).sum(1) / (len(matrix) - 1)
    return float(others.quantile(0.25) / _own(matrix))


def _of_different(matrix: Tensor, z: Tensor) -> float:
    """The weight, of a sample's own, that 95 % of the pairs of different values exceed; 0 without any."""
    weights = matrix.double().abs()[squared_distance(z, z) > torch.finfo(torch.float32).tiny]
    return float(weights.quantile(0.05) / _own(matrix)) if len(weights) else 0.0


def _own(matrix: Tensor) -> Tensor:
    return matrix.diagonal().double().mean().clamp_min(1e-300)


def scales_of(kernel: Any, z: Tensor) -> str:
    """Quantiles of what the kernel's scale divides, over different numbers, in words."""
    if not (quantiles := scale_quantiles(kernel, z)):
        return ""
    low, middle, high = quantiles
    return f"{low:.3g}, {middle:.3g} or {high:.3g} (10, 50 and 90 % of what it divides)"


def scale_quantiles(kernel: Any, z: Tensor) -> list[float]:
    """The 10, 50 and 90 % quantiles of what the kernel's scale divides, over different numbers; or none."""
    distances = trait(kernel, "distances")
    if distances is None or not z.is_floating_point():
        return []
    off = distances(z, z).double().flatten()
    off = off[off > torch.finfo(torch.float32).tiny ** 0.5]
    if not len(off):
        return []
    quantiles: list[float] = off.quantile(torch.tensor([0.1, 0.5, 0.9]).to(off)).tolist()
    return quantiles


def kernels_within(kernel: Any, place: str = "objective.kernel") -> Iterator[tuple[str, Any, str]]:
    """The kernels of one condition in a sum or product of several, with the name of it and their place."""
    on = getattr(kernel, "on", None)
    if isinstance(on, Mapping):
        yield from ((name, inner, f"{place}.on.{name}") for name, inner in on.items())
    for inner in getattr(kernel, "kernels", None) or ():
        if conditions_of_kernel(inner):
            yield from kernels_within(inner, f"{place}.kernels")


def _refuse_negative(matrix: Tensor, kind: str, name: str) -> None:
    """Refuse a kernel matrix with a negative eigenvalue, but for rounding."""
    eigenvalues = torch.linalg.eigvalsh(matrix)
    if eigenvalues[0] < -1e-3 * eigenvalues.abs().max():
        raise ValueError(
            f"the kernel {kind} says that it is positive definite, and has the eigenvalue"
            f" {float(eigenvalues[0]):.3g} beside {float(eigenvalues[-1]):.3g} on {len(matrix)} samples of"
            f" condition {name!r}: declare positive_definite = False, or take another kernel"
        )


def _faint(
    step: int,
    kernel: Any,
    name: str,
    weight: float,
    place: str = "objective.kernel",
    candidates: str = "",
) -> Finding:
    return Finding(
        "a-kernel-sees-almost-nothing",
        step,
        f"{_with_scale(kernel)} sees almost nothing on condition {name!r}: for a quarter of the samples the"
        f" mean weight of another one is at most {weight:.2g} of their own, so the objective hardly"
        f" compares them; take {_remedy(kernel, place, candidates)}",
        about=name,
    )


def _with_scale(kernel: Any) -> str:
    scale = getattr(kernel, "scale", None)
    return (
        type(kernel).__name__ if scale is None else f"{type(kernel).__name__} with scale {scale!r}"
    )


def _remedy(kernel: Any, place: str, candidates: str) -> str:
    if getattr(kernel, "scale", None) is None:
        return 'a kernel of distances, as rbf with scale = "median"'
    return f'another {place}.scale, as "median"{", " if candidates else ""}{candidates}'


def describe_kernel(kernel: Tensor) -> tuple[Tensor, Tensor]:
    """How much weight a kernel matrix gives to other samples.

    Args:
        kernel: (r, r) kernel values of r samples with themselves.

    Returns:
        The surviving weight, mean off-diagonal ``|K_ij|`` over mean ``K_ii``; and the effective
        number of neighbors: the mean over rows of ``(sum w)^2 / sum w^2`` of the off-diagonal
        weights ``w = |K_ij|``, between 1 (or 0 for a row without any) and r - 1.
    """
    count = len(kernel)
    others = kernel.double().abs().fill_diagonal_(0)
    mean = kernel.diagonal().double().mean().clamp_min(1e-300)
    surviving = others.sum() / (count * (count - 1)) / mean
    # Divided by each row's largest weight, since squares of tiny weights underflow.
    scaled = others / others.amax(1, keepdim=True).clamp_min(1e-300)
    neighbors = scaled.sum(1).square() / scaled.square().sum(1).clamp_min(1e-300)
    return surviving, neighbors.mean()


def kernels_read(objective: nn.Module) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The kernels of an objective and of objectives within it, and the names of what each reads."""
    for each in objective.modules():
        yield from kernel_of(each)


def kernel_of(objective: Any) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The kernel of an objective, for each condition, or for all at once, that it reads through it."""
    # No protocol: Python's check of one does not see a kernel that is an nn.Module.
    kernel: Any = getattr(objective, "kernel", None)
    if isinstance(kernel, Joint):
        yield kernel.kernel, kernel.names
    elif kernel is not None:
        on, read = getattr(objective, "on", None), getattr(objective, "conditions", None) or ()
        yield from ((kernel, (name,)) for name in read if on in (None, name))


def together(names: tuple[str, ...]) -> str:
    """The name of several conditions that are read as one."""
    return "&".join(names)


def values_read(values: Mapping[str, Tensor], names: tuple[str, ...]) -> Any:
    """What a kernel takes: the values of one condition, or those of several by name."""
    return values[names[0]] if len(names) == 1 else {name: values[name] for name in names}
