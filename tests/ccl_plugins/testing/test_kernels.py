"""Kernels that break one law each."""

from __future__ import annotations

import pytest
import torch
from support.broken import law_tests

import ccl_plugins as ccl
from ccl_plugins.numerics.condition_values import (
    as_vectors,
    inner,
    squared_distance,
    squared_norm,
)
from ccl_plugins.testing import check


class Sound:
    """The inner product."""

    positive_definite = False
    one_hot = True

    def __call__(self, a, b):
        return inner(a, b)


class Narrow(Sound):
    """Converts every value to float32."""

    def __call__(self, a, b):
        return inner(a, b).float()


class Askew(Sound):
    """Asymmetric."""

    def __call__(self, a, b):
        return inner(a, b) + squared_norm(a)[:, None]


class Hollow(Sound):
    """Has 0 on the diagonal if both arguments are one tensor."""

    def __call__(self, a, b):
        return inner(a, b).fill_diagonal_(0) if a is b else inner(a, b)


class Negative(Sound):
    """Declares itself positive definite, and is not."""

    positive_definite = True

    def __call__(self, a, b):
        return -inner(a, b)


class WrongFeatures(Sound):
    """Has features of another kernel."""

    def features(self, a):
        return 2 * as_vectors(a)


class Gaussian(Sound):
    """The Gaussian kernel."""

    one_hot = False

    def __call__(self, a, b):
        return self.radial(squared_distance(a, b))

    def radial(self, square):
        return torch.exp(-square)


class OtherRadial(Gaussian):
    """Its radial form is that of a wider kernel."""

    def __call__(self, a, b):
        return super().__call__(a, b).square()


class Rising(Gaussian):
    """Grows with the distance."""

    def radial(self, square):
        return 1 - torch.exp(-square)


class CountedTwice(Sound):
    """Gives class ids other values than their one-hot vectors."""

    def __call__(self, a, b):
        return inner(a, b) if a.is_floating_point() else 2 * inner(a, b)


class Looked(Sound):
    """Looked up by indices."""

    one_hot = False

    def __call__(self, a, b):
        if a.is_floating_point():
            raise TypeError("indices")
        return torch.tensor([[1.0, 0.5], [0.5, 1.0]])[a][:, b]


BROKEN = {
    Sound: set(),
    Looked: set(),
    Narrow: {"gives_one_number_per_pair"},
    Askew: {"is_symmetric"},
    Hollow: {"is_of_values_alone"},
    Negative: {"is_positive_definite_if_it_says_so"},
    WrongFeatures: {"features_have_the_kernel_as_inner_products"},
    Gaussian: set(),
    OtherRadial: {"radial_is_the_kernel_by_distance"},
    Rising: {"radial_is_the_kernel_by_distance"},
    CountedTwice: {"class_ids_are_one_hot_if_it_says_so"},
}


class Several(Sound):
    """The inner product of vectors where ids are equal."""

    positive_definite = True
    conditions = {"species": ("categorical",), "age": ("continuous",)}  # noqa: RUF012

    def __call__(self, a, b):
        return inner(a["age"], b["age"]) * (a["species"][:, None] == b["species"])


class SeveralAskew(Several):
    """Asymmetric."""

    def __call__(self, a, b):
        return super().__call__(a, b) + squared_norm(a["age"])[:, None]


class SeveralOfOne(Several):
    """Names two conditions and reads one."""

    def __call__(self, a, b):
        return inner(a["age"], b["age"])


class OfTheBatch(Sound):
    """Has a scale that depends on the other rows."""

    one_hot = False

    def __call__(self, a, b):
        return inner(a, b) / len(b)


class NearlyDefinite(Sound):
    """Positive definite on few points, and not on many that lie close together."""

    positive_definite, one_hot = True, False

    def __call__(self, a, b):
        x, y = as_vectors(a), as_vectors(b)
        if not x.is_floating_point():
            return inner(x, y)
        far = (x[:, None] - y).square().sum(-1)
        return torch.exp(-(far**1.05))


BROKEN |= {
    Several: set(),
    SeveralOfOne: {"reads_every_condition_it_names"},
    OfTheBatch: {"a_pair_depends_on_no_other", "is_symmetric"},
    NearlyDefinite: {"is_positive_definite_if_it_says_so"},
    SeveralAskew: {"is_symmetric", "is_positive_definite_if_it_says_so"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("kernel", BROKEN)


@pytest.mark.parametrize(
    "on",
    [
        {"species": "delta", "age": {"use": "rbf", "scale": 5}},
        {"age": "cosine", "pose": "polynomial"},
    ],
    ids=["radial", "features"],
)
@pytest.mark.parametrize("way", ["product", "sum"])
def test_kernels_of_several_conditions_satisfy_the_laws_of_kernels(way, on):
    check(ccl.kernel(way, on=on))


@pytest.mark.slow
def test_an_objective_through_a_joint_kernel_satisfies_the_laws_of_objectives():
    kernel = {"use": "product", "on": {"species": "delta", "age": {"use": "rbf", "scale": 5}}}
    check(ccl.objective("weaklysup_cclk", kernel=kernel))
