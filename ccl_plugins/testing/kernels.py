"""The laws of kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ccl_plugins.protocols import SupportsFeatures, SupportsOneHot, SupportsRank
from ccl_plugins.testing.assertions import require, require_equal
from ccl_plugins.testing.inputs import normal
from ccl_plugins.testing.subject import Subject


def takes_indices(kernel: Any) -> bool:
    """Whether its arguments are sample indices and not condition values, as for a stored matrix."""
    try:
        kernel(normal(2, 3), normal(2, 3))
    except TypeError:
        return True
    return False


def values(kernel: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """Arguments a (n, ...) and b (m, ...) of every form that it takes."""
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


def observe(subject: Subject, kernel: Any) -> Any:
    """Its matrices."""
    return {name: kernel(*pair) for name, pair in values(kernel).items()}


def check_gives_one_number_per_pair(subject: Subject) -> None:
    """``k(a, b)`` has the right shape and dtype, and no NaN."""
    kernel = subject.build()
    for name, (a, b) in values(kernel).items():
        gram, given = kernel(a, b), f"for {name} {tuple(a.shape)} and {tuple(b.shape)}"
        require(
            "k(a, b) must be (n, m) for n and m values",
            tuple(gram.shape) == (len(a), len(b)),
            f"{given} it is {tuple(gram.shape)}",
        )
        require("k(a, b) must be finite", bool(gram.isfinite().all()), f"{given} it is {gram}")
        dtype = a.dtype if a.is_floating_point() else gram.dtype
        require(
            "k(a, b) must have the dtype of floating-point values, and any floating-point dtype for"
            " other values",
            gram.dtype == dtype and gram.is_floating_point(),
            f"{given} of {a.dtype} it is {gram.dtype}",
        )


def check_is_symmetric(subject: Subject) -> None:
    """Swapping the two values changes nothing."""
    kernel = subject.build()
    for name, (a, b) in values(kernel).items():
        law = f"a kernel must be symmetric, k(a, b) = k(b, a) transposed; for {name} it is not"
        require_equal(law, kernel(a, b), kernel(b, a).T)


def check_is_of_values_alone(subject: Subject) -> None:
    """``k(a, b)`` depends on the values alone, not on whether ``b is a``."""
    kernel = subject.build()
    for name, (a, _) in values(kernel).items():
        law = f"k(a, a) must equal k(a, a.clone()) ({name}): keep the diagonal"
        require_equal(law, kernel(a, a), kernel(a, a.clone()))


def check_is_positive_definite_if_it_says_so(subject: Subject) -> None:
    """With ``positive_definite = True``, no eigenvalue of ``k(z, z)`` is below 0."""
    kernel = subject.build()
    if not kernel.positive_definite:
        return
    for name, (a, b) in values(kernel).items():
        both = torch.cat([a, b])
        gram = kernel(both, both).double()
        least = float(torch.linalg.eigvalsh(gram)[0] / gram.diagonal().abs().max().clamp_min(1e-30))
        tolerance = 1e-9 if both.dtype == torch.float64 else 1e-5
        require(
            "positive_definite = True says that no eigenvalue of k(z, z) is below 0; with False, CCL-K"
            " refuses the kernel",
            least >= -tolerance,
            f"for {len(both)} {name} the smallest eigenvalue is {least:.3g} of the diagonal",
        )


def check_features_have_the_kernel_as_inner_products(subject: Subject) -> None:
    """Inner products of ``features``, if it has them, are the kernel, and ``rank`` is their number."""
    kernel = subject.build()
    has_features = isinstance(kernel, SupportsFeatures)
    if not has_features:
        return
    for name, (a, b) in values(kernel).items():
        if not (a.is_floating_point() and a.ndim == 2):
            continue
        phi = kernel.features(a)
        law = f"features(a) @ features(b).T must be k(a, b) for {name}"
        require_equal(law, phi @ kernel.features(b).T, kernel(a, b))
        rank = kernel.rank(a) if isinstance(kernel, SupportsRank) else phi.shape[1]
        require(
            "features(a) must be (n, rank(a))",
            tuple(phi.shape) == (len(a), rank),
            f"rank(a) is {rank}, features(a) is {tuple(phi.shape)}",
        )


def check_class_ids_are_one_hot_if_it_says_so(subject: Subject) -> None:
    """With ``one_hot = True``, class ids give the values of their one-hot vectors."""
    kernel = subject.build()
    one_hot_ids = isinstance(kernel, SupportsOneHot) and kernel.one_hot
    if not one_hot_ids:
        return
    a, b = torch.arange(5) % 3, torch.arange(7) % 3
    require_equal(
        "one_hot = True says that class ids give the values of their one-hot vectors",
        kernel(a, b).double(),
        kernel(one_hot(a, 3).double(), one_hot(b, 3).double()).double(),
        rtol=1e-5,
        atol=1e-6,
    )
