"""The laws of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ccl_plugins.testing.laws import agree, hold
from ccl_plugins.testing.material import random
from ccl_plugins.testing.subject import Subject


def takes_indices(kernel: Any) -> bool:
    """Whether it is looked up by the indices of samples, as a stored matrix is."""
    try:
        kernel(random(2, 3), random(2, 3))
    except TypeError:
        return True
    return False


def values(kernel: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """Pairs of condition values of every form that it takes, n and m of them."""
    if takes_indices(kernel):
        return {"indices": (torch.tensor([0, 1, 1]), torch.tensor([1, 0]))}
    vectors = random(5, 3, dtype=torch.float64), random(7, 3, seed=1, dtype=torch.float64)
    return {
        "vectors": vectors,
        "float32 vectors": (vectors[0].float(), vectors[1].float()),
        "scalars": (vectors[0][:, 0], vectors[1][:, 0]),
        "class ids": (torch.arange(5) % 3, torch.arange(7) % 3),
        "0/1 columns": (vectors[0] > 0, vectors[1] > 0),
    }


def observe(subject: Subject, kernel: Any) -> Any:
    """Its matrices."""
    return {name: kernel(*pair) for name, pair in values(kernel).items()}


def check_gives_one_number_per_pair(subject: Subject) -> None:
    """Shape, dtype, and no NaN."""
    kernel = subject.build()
    for name, (a, b) in values(kernel).items():
        gram, given = kernel(a, b), f"given {name} {tuple(a.shape)} and {tuple(b.shape)}"
        hold(
            "k(a, b) must be (n, m) for n and m values",
            tuple(gram.shape) == (len(a), len(b)),
            f"{given} it gave {tuple(gram.shape)}",
        )
        hold("k(a, b) must be finite", bool(gram.isfinite().all()), f"{given} it gave {gram}")
        wanted = a.dtype if a.is_floating_point() else gram.dtype
        hold(
            "k(a, b) must have the dtype of floating-point values, and a floating-point one of others",
            gram.dtype == wanted and gram.is_floating_point(),
            f"{given} of {a.dtype} it gave {gram.dtype}",
        )


def check_is_symmetric(subject: Subject) -> None:
    """The order of two values does not matter."""
    kernel = subject.build()
    for name, (a, b) in values(kernel).items():
        law = f"a kernel must be symmetric, k(a, b) = k(b, a) transposed; {name} are not"
        agree(law, kernel(a, b), kernel(b, a).T)


def check_is_of_values_alone(subject: Subject) -> None:
    """What is beside a pair of values does not matter, and neither does ``b is a``."""
    kernel = subject.build()
    for name, (a, _) in values(kernel).items():
        law = f"k must be the same where b is a and where b equals a ({name}): keep the diagonal"
        agree(law, kernel(a, a), kernel(a, a.clone()))


def check_is_positive_definite_if_it_says_so(subject: Subject) -> None:
    """No eigenvalue is below 0."""
    kernel = subject.build()
    if not kernel.positive_definite:
        return
    for name, (a, b) in values(kernel).items():
        both = torch.cat([a, b])
        gram = kernel(both, both).double()
        least = float(torch.linalg.eigvalsh(gram)[0] / gram.diagonal().abs().max().clamp_min(1e-30))
        tolerance = 1e-9 if both.dtype == torch.float64 else 1e-5
        hold(
            "positive_definite = True says that no eigenvalue of k(z, z) is below 0: say False, with"
            " which CCL-K refuses it",
            least >= -tolerance,
            f"of {len(both)} {name} the least eigenvalue is {least:.3g} of the diagonal",
        )


def check_features_have_the_kernel_as_inner_products(subject: Subject) -> None:
    """``features`` and ``rank``, where it has them."""
    kernel = subject.build()
    if not hasattr(kernel, "features"):
        return
    for name, (a, b) in values(kernel).items():
        if not (a.is_floating_point() and a.ndim == 2):
            continue
        phi = kernel.features(a)
        law = f"features(a) @ features(b).T must be k(a, b) of {name}"
        agree(law, phi @ kernel.features(b).T, kernel(a, b))
        rank = kernel.rank(a) if hasattr(kernel, "rank") else phi.shape[1]
        hold(
            "features(a) must be (n, rank(a))",
            tuple(phi.shape) == (len(a), rank),
            f"rank says {rank}, features are {tuple(phi.shape)}",
        )


def check_class_ids_are_one_hot_if_it_says_so(subject: Subject) -> None:
    """``one_hot``: class ids count as one-hot vectors."""
    kernel = subject.build()
    if not getattr(kernel, "one_hot", False):
        return
    a, b = torch.arange(5) % 3, torch.arange(7) % 3
    agree(
        "one_hot = True says that class ids count as one-hot vectors",
        kernel(a, b).double(),
        kernel(one_hot(a, 3).double(), one_hot(b, 3).double()).double(),
        rtol=1e-5,
        atol=1e-6,
    )


CHECKS: list[Callable[[Subject], None]] = [
    check_gives_one_number_per_pair,
    check_is_symmetric,
    check_is_of_values_alone,
    check_is_positive_definite_if_it_says_so,
    check_features_have_the_kernel_as_inner_products,
    check_class_ids_are_one_hot_if_it_says_so,
]
