"""A check of how much weight a kernel gives to other samples, by their condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.protocols import Kernel, Table
from ccl_plugins.training.findings import Findings

SAMPLED_ROWS = 512
FAINT = 1e-3


def check_kernel(
    kernel: Any, table: Table, name: str, findings: Findings | None = None, step: int = 0
) -> dict[str, float]:
    """Measure a kernel on 512 sampled rows of a condition.

    Args:
        kernel: The kernel.
        table: The condition's table.
        name: The condition's name.
        findings: Those of the run; None: a new list.
        step: Optimizer steps taken.

    Returns:
        ``surviving_weight`` and ``effective_neighbors``, as `describe_kernel` defines them.

    Raises:
        ValueError: For a value of another shape, one that is not finite, one that changes with the order
            of the two samples, and for a negative eigenvalue of a kernel that says it has none.

    Warns:
        UserWarning: If the surviving weight is near 0, and with it any kernel-weighted loss; not for
            class ids, which few of many samples may share.
    """
    size = len(table.values)
    if size < 2:
        return {}
    rows = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:SAMPLED_ROWS]
    values = table.values[rows]
    with torch.no_grad():
        found = similarities(kernel, values, values)
        if len(wrong := (~found.isfinite()).nonzero()):
            i, j = wrong[0].tolist()
            raise ValueError(
                f"the kernel {type(kernel).__name__} must be finite, not {float(found[i, j])} for"
                f" {values[i].tolist()} and {values[j].tolist()} of condition {name!r}"
            )
        gap = (found - found.T).abs()
        if len(wrong := (gap > 1e-3 * found.abs().max()).nonzero()):
            i, j = wrong[0].tolist()
            raise ValueError(
                f"the kernel {type(kernel).__name__} must be symmetric, not {float(found[i, j])} and"
                f" {float(found[j, i])} for {values[i].tolist()} and {values[j].tolist()} of condition"
                f" {name!r}"
            )
        if getattr(kernel, "positive_definite", False):
            _refuse_negative(found.double(), type(kernel).__name__, name)
        surviving, neighbors = torch.stack(describe_kernel(found)).tolist()
    if surviving < FAINT and values.is_floating_point():
        say_faint(findings or Findings(), step, kernel, name, surviving)
    return {"surviving_weight": surviving, "effective_neighbors": neighbors}


def _refuse_negative(found: Tensor, kind: str, name: str) -> None:
    """Refuse a kernel matrix with a negative eigenvalue, but for rounding."""
    eigenvalues = torch.linalg.eigvalsh(found)
    if eigenvalues[0] < -1e-3 * eigenvalues.abs().max():
        raise ValueError(
            f"the kernel {kind} says that it is positive definite, and has the eigenvalue"
            f" {float(eigenvalues[0]):.3g} beside {float(eigenvalues[-1]):.3g} on {len(found)} samples of"
            f" condition {name!r}: declare positive_definite = False, or take another kernel"
        )


def say_faint(findings: Findings, step: int, kernel: Any, name: str, surviving: float) -> None:
    """Say that the weight a kernel gives to other samples is near 0."""
    scale = getattr(kernel, "scale", None)
    if scale is None:
        given, remedy = "", 'a kernel of distances, as rbf with scale = "median"'
    else:
        given, remedy = f" with scale {scale!r}", 'another objective.kernel.scale, as "median"'
    findings.say(
        "a-kernel-sees-almost-nothing",
        step,
        f"{type(kernel).__name__}{given} sees almost nothing on condition {name!r}: the mean weight"
        f" between two samples is {surviving:.2g} of a sample's with itself, so the objective hardly"
        f" compares them; take {remedy}",
        about=name,
        stacklevel=3,
    )


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


def kernels_on(objective: nn.Module, name: str) -> Iterator[Kernel]:
    """The kernels through which an objective, or objectives within it, read a condition."""
    for each in objective.modules():
        # No protocol: Python's check of one does not see a kernel that is an nn.Module.
        kernel: Any = getattr(each, "kernel", None)
        if kernel is None or name not in each.conditions:  # type: ignore[operator]
            continue
        if getattr(each, "on", name) == name:
            yield kernel
