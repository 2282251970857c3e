"""The conditions that objectives read through kernels, and kernels' weights of other samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.files import mapped
from ccl_plugins.numerics.condition_values import squared_distance
from ccl_plugins.numerics.joint import Joint
from ccl_plugins.numerics.kernel_functions import conditions_of_kernel, similarities
from ccl_plugins.protocols import Table, trait
from ccl_plugins.training.findings import Finding, Findings

SAMPLED_ROWS = 512
MOST_SHUFFLED = 1 << 24
"""The most samples that are shuffled to take the first."""

FAINT = 1e-3
"""The least mean weight of another sample, relative to a sample's own, that has an effect."""

NEARLY_EQUAL = 0.98
"""The weight, relative to a sample's own, above which samples of different values count as equal."""


@dataclass(frozen=True, eq=False)
class KernelReading:
    """A kernel, and the conditions that an objective reads through it.

    Args:
        kernel: The kernel: of one condition or, as a product or sum, of several by name.
        names: The names of the conditions.
        objective: The objective, or the part of a mixture; None: no particular one.
    """

    kernel: Any
    names: tuple[str, ...]
    objective: Any = None

    @property
    def name(self) -> str:
        """The name of the condition, or of all together."""
        return "&".join(self.names)

    @property
    def kernel_name(self) -> str:
        """The kernel with its scale, if it has one."""
        scale = getattr(self.kernel, "scale", None)
        return type(self.kernel).__name__ + ("" if scale is None else f", scale {scale}")

    def taken(self, values: Mapping[str, Any]) -> Any:
        """The kernel's argument: the values of its condition or, if it names several, of each by name."""
        if conditions_of_kernel(self.kernel):
            return {name: values[name] for name in self.names}
        return values[self.names[0]]

    def matrix(self, values: Mapping[str, Tensor]) -> Tensor:
        """(r, r) similarities of r samples, whose values are given by condition."""
        taken = self.taken(values)
        return similarities(self.kernel, taken, taken)

    def parts(self) -> Iterator[tuple[KernelReading, str]]:
        """The kernels of one condition in a sum or product of several, with their places."""
        yield from _parts(self.kernel, "objective.kernel")


def _parts(kernel: Any, place: str) -> Iterator[tuple[KernelReading, str]]:
    on = getattr(kernel, "on", None)
    if isinstance(on, Mapping):
        for name, inner in on.items():
            yield KernelReading(inner, (name,)), f"{place}.on.{name}"
    for inner in getattr(kernel, "kernels", None) or ():
        if conditions_of_kernel(inner):
            yield from _parts(inner, f"{place}.kernels")


def kernel_readings(objective: nn.Module) -> Iterator[KernelReading]:
    """The kernels of an objective and of nested ones, with their conditions.

    A kernel of one condition is read for each condition of its objective, or for the one named by
    ``on``.
    """
    for module in objective.modules():
        # No protocol: Python's check of one does not see a kernel that is an nn.Module.
        kernel: Any = getattr(module, "kernel", None)
        if isinstance(kernel, Joint):
            yield KernelReading(kernel.kernel, kernel.names, module)
        elif kernel is not None:
            on, read = getattr(module, "on", None), getattr(module, "conditions", None) or ()
            yield from (KernelReading(kernel, (n,), module) for n in read if on in (None, n))


def check_kernel(
    reading: KernelReading,
    tables: Mapping[str, Table],
    findings: Findings | None = None,
    step: int = 0,
) -> dict[str, float]:
    """Measure a kernel on 512 sampled rows of the conditions that it reads.

    Args:
        reading: The kernel and its conditions.
        tables: The tables of the conditions, with the same samples in all.
        findings: The findings of the run; None: a new list.
        step: Optimizer steps taken.

    Returns:
        ``surviving_weight`` and ``effective_neighbors``, as `describe_kernel` defines them.

    Raises:
        ValueError: For a value of another shape, one that is not finite, one that changes with the
            order of the two samples, and for a negative eigenvalue of a kernel that declares it has
            none.

    Warns:
        UserWarning: If a quarter of the samples give almost no weight to others (except for class
            ids, which few samples may share), or if almost all samples of different values are
            nearly equal. With several conditions, the message names the kernel of one.
    """
    size = len(tables[reading.names[0]].values)
    if size < 2:
        return {}
    generator = torch.Generator().manual_seed(0)
    if size > MOST_SHUFFLED:
        rows = torch.randint(size, (SAMPLED_ROWS,), generator=generator).unique()
    else:
        rows = torch.randperm(size, generator=generator)[:SAMPLED_ROWS]
    values = {name: mapped.rows(tables[name].values, rows) for name in reading.names}
    kind, of = f"the kernel {type(reading.kernel).__name__}", f"of condition {reading.name!r}"
    with torch.no_grad():
        matrix = reading.matrix(values)
        gap = (matrix - matrix.T).abs()
        if len(wrong := (~matrix.isfinite()).nonzero()):
            first, second = (_values_at(reading, values, row) for row in wrong[0].tolist())
            value = float(matrix[tuple(wrong[0])])
            raise ValueError(f"{kind} must be finite, not {value} for {first} and {second} {of}")
        if len(wrong := (gap > 1e-3 * matrix.abs().max()).nonzero()):
            first, second = (_values_at(reading, values, row) for row in wrong[0].tolist())
            both = float(matrix[tuple(wrong[0])]), float(matrix.T[tuple(wrong[0])])
            raise ValueError(
                f"{kind} must be symmetric, not {both[0]} and {both[1]} for {first} and {second} {of}"
            )
        if getattr(reading.kernel, "positive_definite", False):
            _refuse_negative(matrix.double(), kind, of)
        surviving, neighbors = torch.stack(describe_kernel(matrix)).tolist()
        for finding in what_is_off(step, reading, values, matrix):
            (findings or Findings()).say(finding, stacklevel=3)
    return {"surviving_weight": surviving, "effective_neighbors": neighbors}


def _values_at(reading: KernelReading, values: Mapping[str, Tensor], row: int) -> Any:
    return reading.taken({name: z[row].tolist() for name, z in values.items()})


def what_is_off(
    step: int, reading: KernelReading, values: Mapping[str, Tensor], matrix: Tensor
) -> Iterator[Finding]:
    """A finding if a kernel sees almost nothing of numbers, or any two different values as nearly equal.

    Args:
        step: Optimizer steps taken.
        reading: The kernel and its conditions.
        values: (r, c) or (r,) values by condition.
        matrix: (r, r) the kernel of these values with themselves.
    """
    if not conditions_of_kernel(reading.kernel):
        yield from _off_on_one(step, reading, values, matrix)
        return
    parts: list[Finding] = []
    for part, place in reading.parts():
        parts += _off_on_one(step, part, values, part.matrix(values), place)
    yield from parts
    numbers = all(z.is_floating_point() for z in values.values())
    if not parts and numbers and (weight := _of_most(matrix)) < FAINT:
        yield _faint(step, reading, weight)


def _off_on_one(
    step: int,
    reading: KernelReading,
    values: Mapping[str, Tensor],
    matrix: Tensor,
    place: str = "objective.kernel",
) -> Iterator[Finding]:
    kernel, name = reading.kernel, reading.name
    z = values[name]
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
        yield _faint(step, reading, weight, place, candidates)
    elif (weight := _of_different(matrix, z)) > NEARLY_EQUAL:
        # A kernel that is 0 on its diagonal makes the weight as large as 1e+300.
        least = f"{weight:.4f}" if weight < 1e4 else f"{weight:.3g}"
        yield Finding(
            "a-kernel-sees-all-as-equal",
            step,
            f"{_with_scale(kernel)} sees all samples as equal on condition {name!r}: of samples with"
            f" different values, 95 % have at least {least} of a sample's weight with itself, so the"
            f" objective is hardly conditioned; take {_remedy(kernel, place, candidates)}",
            about=name,
        )


def _of_most(matrix: Tensor) -> float:
    """The mean weight of another sample, relative to the own, that three quarters of the samples exceed.

    A mean over all samples would hide such a quarter, if many samples share a value, such as a
    constant in place of missing ones.
    """
    others = matrix.double().abs().fill_diagonal_(0).sum(1) / (len(matrix) - 1)
    return float(others.quantile(0.25) / _own(matrix))


def _of_different(matrix: Tensor, z: Tensor) -> float:
    """The weight, relative to the own, that 95 % of pairs of different values exceed; 0 without pairs."""
    weights = matrix.double().abs()[squared_distance(z, z) > torch.finfo(torch.float32).tiny]
    return float(weights.quantile(0.05) / _own(matrix)) if len(weights) else 0.0


def _own(matrix: Tensor) -> Tensor:
    return matrix.diagonal().double().mean().clamp_min(1e-300)


def scales_of(kernel: Any, z: Tensor) -> str:
    """Quantiles of the numbers that the kernel's scale divides, without repeats, in words."""
    if not (quantiles := scale_quantiles(kernel, z)):
        return ""
    low, middle, high = quantiles
    return f"{low:.3g}, {middle:.3g} or {high:.3g} (10, 50 and 90 % of what it divides)"


def scale_quantiles(kernel: Any, z: Tensor) -> list[float]:
    """The 10, 50 and 90 % quantiles of the numbers that the scale divides, without repeats; or none."""
    distances = trait(kernel, "distances")
    if distances is None or not z.is_floating_point():
        return []
    off = distances(z, z).double().flatten()
    off = off[off > torch.finfo(torch.float32).tiny ** 0.5]
    if not len(off):
        return []
    quantiles: list[float] = off.quantile(torch.tensor([0.1, 0.5, 0.9]).to(off)).tolist()
    return quantiles


def _refuse_negative(matrix: Tensor, kind: str, of: str) -> None:
    """Refuse a kernel matrix with a negative eigenvalue beyond rounding."""
    eigenvalues = torch.linalg.eigvalsh(matrix)
    if eigenvalues[0] < -1e-3 * eigenvalues.abs().max():
        raise ValueError(
            f"{kind} says that it is positive definite, and has the eigenvalue {float(eigenvalues[0]):.3g}"
            f" beside {float(eigenvalues[-1]):.3g} on {len(matrix)} samples {of}: declare"
            " positive_definite = False, or take another kernel"
        )


def _faint(
    step: int,
    reading: KernelReading,
    weight: float,
    place: str = "objective.kernel",
    candidates: str = "",
) -> Finding:
    return Finding(
        "a-kernel-sees-almost-nothing",
        step,
        f"{_with_scale(reading.kernel)} sees almost nothing on condition {reading.name!r}: for a quarter of"
        f" the samples the mean weight of another one is at most {weight:.2g} of their own, so the"
        f" objective hardly compares them; take {_remedy(reading.kernel, place, candidates)}",
        about=reading.name,
    )


def _with_scale(kernel: Any) -> str:
    scale = getattr(kernel, "scale", None)
    return type(kernel).__name__ + ("" if scale is None else f" with scale {scale!r}")


def _remedy(kernel: Any, place: str, candidates: str) -> str:
    if getattr(kernel, "scale", None) is None:
        return 'a kernel of distances, as rbf with scale = "median"'
    return f'another {place}.scale, such as "median"{", " if candidates else ""}{candidates}'


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
