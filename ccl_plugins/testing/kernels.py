"""The laws of kernels."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ccl_plugins.numerics.condition_values import as_vectors
from ccl_plugins.numerics.joint import Joint, of_one_tensor
from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import require, require_equal
from ccl_plugins.testing.inputs import conditions, example_rows, normal
from ccl_plugins.testing.subject import Subject


def takes_indices(kernel: Any) -> bool:
    """Whether its arguments are sample indices and not condition values, as for a stored matrix."""
    try:
        kernel(normal(2, 3), normal(2, 3))
    except TypeError:
        return True
    return False


def values(kernel: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """Arguments a (n, ...) and b (m, ...) of every form that it takes.

    Those of a class attribute ``EXAMPLE_CONDITION``, if there is one, in place of all.  For a kernel that
    names several conditions, the values of these side by side, as `_build` makes it take them.
    """
    if isinstance(kernel, Joint):
        packed = kernel.pack(conditions(kernel.kernel, 12))
        return {"several conditions": (packed[:5], packed[5:])}
    if (given := getattr(kernel, "EXAMPLE_CONDITION", None)) is not None:
        rows = example_rows(given, 12)
        return {"values": (rows[:5], rows[5:])}
    if takes_indices(kernel):
        return {"indices": (torch.tensor([0, 1, 1]), torch.tensor([1, 0]))}
    a, b = normal(5, 3, dtype=torch.float64), normal(7, 3, seed=1, dtype=torch.float64)
    return {
        "vectors": (a, b),
        "float32 vectors": (a.float(), b.float()),
        "scalars": (a[:, 0], b[:, 0]),
        "class ids": (torch.arange(5) % 3, torch.arange(7) % 3),
        "0/1 columns": (a > 0, b > 0),
    }


def _build(subject: Subject) -> Any:
    """The kernel, of one tensor even if it names several conditions."""
    return of_one_tensor(subject.build())


def observe(subject: Subject, kernel: Any) -> Any:
    """Its matrices."""
    kernel = of_one_tensor(kernel)
    return {name: kernel(*pair) for name, pair in values(kernel).items()}


def check_gives_one_number_per_pair(subject: Subject) -> None:
    """``k(a, b)`` must be (n, m) finite numbers, of the dtype of the values if that is floating-point."""
    kernel = _build(subject)
    for name, (a, b) in values(kernel).items():
        gram = kernel(a, b)
        dtype = a.dtype if a.is_floating_point() else gram.dtype
        right = tuple(gram.shape) == (len(a), len(b)) and bool(gram.isfinite().all())
        require(
            right and gram.dtype == dtype and gram.is_floating_point(),
            f"for {name} {tuple(a.shape)} and {tuple(b.shape)} of {a.dtype} it is"
            f" {tuple(gram.shape)} of {gram.dtype}: {gram}",
        )


def check_is_symmetric(subject: Subject) -> None:
    """A kernel must be symmetric: ``k(a, b)`` must equal ``k(b, a)`` transposed."""
    kernel = _build(subject)
    for name, (a, b) in values(kernel).items():
        require_equal(kernel(a, b), kernel(b, a).T, f"for {name}")


def check_a_pair_depends_on_no_other(subject: Subject) -> None:
    """The value of a pair must not depend on the other rows: a kernel compares two samples.

    A kernel whose scale is a median over the batch breaks this on purpose.
    """
    kernel = _build(subject)
    for name, (a, b) in values(kernel).items():
        part = kernel(a[:3], b[:2])
        require_equal(
            part, kernel(a, b)[: len(part), : part.shape[1]], f"for {name}, of fewer rows"
        )


def check_reads_every_condition_it_names(subject: Subject) -> None:
    """Of a kernel that names several conditions, another order of one's values must change the matrix."""
    kernel = _build(subject)
    if not isinstance(kernel, Joint):
        return
    some = torch.arange(12) % 5  # values that some rows share
    given = {name: z[some] for name, z in conditions(kernel.kernel, 5).items()}
    before = kernel(*2 * (kernel.pack(given),))
    for name, z in given.items():
        moved = kernel.pack({**given, name: z[_other_order(len(z))]})
        require(
            not torch.equal(kernel(moved, moved), before), f"the condition {name!r} is not read"
        )


def _other_order(n: int) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(7))


def check_is_of_values_alone(subject: Subject) -> None:
    """``k(a, a)`` must equal ``k(a, a.clone())``: keep the diagonal even if ``b is a``."""
    kernel = _build(subject)
    for name, (a, _) in values(kernel).items():
        require_equal(kernel(a, a), kernel(a, a.clone()), f"for {name}")


def check_is_positive_definite_if_it_says_so(subject: Subject) -> None:
    """With ``positive_definite = True``, no eigenvalue of ``k(z, z)`` may be below 0.

    CCL-K refuses a kernel with ``positive_definite = False``.
    """
    kernel = _build(subject)
    if not kernel.positive_definite:
        return
    given = {name: torch.cat(pair) for name, pair in values(kernel).items()}
    if "vectors" in given:  # so near to each other that small eigenvalues show
        for width in (1, 2):
            given[f"points of {width} numbers"] = normal(256, width, seed=2, dtype=torch.float64)
    for name, both in given.items():
        gram = kernel(both, both).double()
        least = float(torch.linalg.eigvalsh(gram)[0] / gram.diagonal().abs().max().clamp_min(1e-30))
        require(
            least >= -(1e-9 if both.dtype == torch.float64 else 1e-5),
            f"for {len(both)} {name} the smallest eigenvalue is {least:.3g} of the diagonal",
        )


def check_features_have_the_kernel_as_inner_products(subject: Subject) -> None:
    """Optional ``features(a) @ features(b).T`` must be ``k(a, b)``, over ``rank(a)`` columns."""
    kernel = _build(subject)
    if trait(kernel, "features") is None:
        return
    for name, (a, b) in values(kernel).items():
        if not (a.is_floating_point() and a.ndim == 2):
            continue
        if isinstance(kernel, Joint) and kernel.rank(a) is None:
            raise SkipTest("some of its conditions are class ids")
        phi = kernel.features(a)
        require_equal(phi @ kernel.features(b).T, kernel(a, b), f"for {name}")
        rank = rank_of(a) if (rank_of := trait(kernel, "rank")) else phi.shape[1]
        report = f"rank(a) is {rank}, features(a) is {tuple(phi.shape)}"
        require(tuple(phi.shape) == (len(a), rank), report)


def check_radial_is_the_kernel_by_distance(subject: Subject) -> None:
    """Optional ``radial(|a - b|^2)`` must be ``k(a, b)``, and must not increase with the distance."""
    kernel = _build(subject)
    if (radial := trait(kernel, "radial")) is None:
        return
    for name, (a, b) in values(kernel).items():
        if a.is_floating_point():
            square = (as_vectors(a)[:, None] - as_vectors(b)).square().sum(-1)
            require_equal(radial(square), kernel(a, b), f"for {name}", rtol=1e-5, atol=1e-6)
    by_distance = radial(torch.linspace(0, 100, 1001, dtype=torch.float64))
    rises = bool((by_distance.diff() > 1e-9 * by_distance[:1].abs()).any())
    require(not rises, "it rises between 0 and 100")


def check_class_ids_are_one_hot_if_it_says_so(subject: Subject) -> None:
    """With ``one_hot = True``, class ids must give the values of their one-hot vectors."""
    kernel = _build(subject)
    if not trait(kernel, "one_hot"):
        return
    if hasattr(kernel, "EXAMPLE_CONDITION"):
        raise SkipTest("it takes the values of its EXAMPLE_CONDITION alone")
    a, b = torch.arange(5) % 3, torch.arange(7) % 3
    vectors = kernel(one_hot(a, 3).double(), one_hot(b, 3).double())
    require_equal(kernel(a, b).double(), vectors.double(), rtol=1e-5, atol=1e-6)
