"""Kernels that break one law each."""

from __future__ import annotations

from typing import Literal

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
        return torch.tensor([[1.0, 0.5], [0.5, 1.0]], device=a.device)[a][:, b]


class Remembers(Gaussian):
    """Looks at the memory of its arguments, and not at what is there now."""

    def __init__(self):
        self.known = {}

    def __call__(self, a, b):
        key = a.data_ptr(), b.data_ptr(), a.shape, b.shape
        if a.device.type == "meta" or key not in self.known:
            self.known[key] = b, super().__call__(a, b)
        return self.known[key][1]


class FirstIsTheUnit(Sound):
    """Divides by the spread of the values that it saw first."""

    one_hot, unit = False, None

    def __call__(self, a, b):
        if not a.is_floating_point():
            return inner(a, b)
        self.unit = b.std() if self.unit is None else self.unit.to(b)
        return inner(a / self.unit, b / self.unit)


class OneBuffer(Gaussian):
    """Writes every result of a shape into one buffer."""

    def __init__(self):
        self.buffers = {}

    def __call__(self, a, b):
        gram = super().__call__(a, b)
        key = gram.shape, gram.dtype, gram.device
        return self.buffers.setdefault(key, torch.empty_like(gram)).copy_(gram)


class InPlace(Sound):
    """Clamps its arguments."""

    one_hot = False

    def __call__(self, a, b):
        if a.is_floating_point():
            a, b = a.clamp_(-1, 1), b.clamp_(-1, 1)
        return inner(a, b)


class Squeezed(Sound):
    """Has (m,) for one row."""

    def __call__(self, a, b):
        return inner(a, b).squeeze(0)


class SignOfScalars(Sound):
    """Compares the signs of single numbers."""

    def __call__(self, a, b):
        return inner(a.sign(), b.sign()) if a.is_floating_point() and a.ndim == 1 else inner(a, b)


class Distance(Gaussian):
    """A Laplacian, of a distance of which no digit is lost."""

    mode = "donot_use_mm_for_euclid_dist"

    def __call__(self, a, b):
        x, y = as_vectors(a), as_vectors(b)
        if not x.is_floating_point():
            return inner(x, y)
        return torch.exp(-torch.cdist(x, y, compute_mode=self.mode))

    radial = None


class OfLargeSquares(Distance):
    """A Laplacian, of a distance of which all digits are lost where values are large."""

    mode = "use_mm_for_euclid_dist_if_necessary"


class OfLargeSquaresWide(Gaussian):
    """A wide Gaussian of the same."""

    radial = None

    def __call__(self, a, b):
        square = squared_norm(a)[:, None] + squared_norm(b) - 2 * inner(a, b)
        return torch.exp(-square / 100)


class InNumpy(Sound):
    """Computes on the host."""

    one_hot = False

    def __call__(self, a, b):
        return torch.from_numpy(inner(a, b).numpy())


class OnTheHost(Sound):
    """Weighs columns by a constant on the CPU."""

    one_hot = False

    def __call__(self, a, b):
        if a.is_floating_point() and a.ndim == 2:
            a = a * torch.ones(a.shape[1], dtype=a.dtype)
        return inner(a, b)


class Seeds(Sound):
    """Seeds the generator of all for its features."""

    one_hot = False

    def __init__(self):
        torch.manual_seed(3)
        self.signs = torch.randint(2, (3,)) * 2 - 1

    def __call__(self, a, b):
        return inner(a, b)


class WithDistances(Sound):
    """A Laplacian with what its scale divides."""

    one_hot = False

    def __init__(self, scale: float = 2.0) -> None:
        self.scale = scale

    def __call__(self, a, b):
        return torch.exp(-squared_distance(a, b).sqrt() / self.scale)

    def distances(self, a, b):
        return squared_distance(a, b).sqrt()


class SquaredDistances(WithDistances):
    """Gives the squares of what its scale divides."""

    def distances(self, a, b):
        return squared_distance(a, b)


class Similarities(WithDistances):
    """Gives similarities for distances."""

    def distances(self, a, b):
        return self(a, b)


class RadialInPlace(Gaussian):
    """Changes the distances that it is given."""

    def radial(self, square):
        return square.neg_().exp_()


class RadialOfMatrices(Gaussian):
    """Takes matrices of distances alone."""

    def radial(self, square):
        _, _ = square.shape
        return torch.exp(-square)


PURE, FAR = "is_a_function_of_its_values", "large_numbers_lose_no_digits"
DEVICE, DISTANCES = "works_on_any_device", "distances_are_what_its_scale_divides"

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
    Remembers: {PURE},
    FirstIsTheUnit: {PURE},
    OneBuffer: {PURE},
    InPlace: {PURE},
    Squeezed: {"gives_one_number_per_pair"},
    SignOfScalars: {"takes_numbers_as_vectors_of_one"},
    Distance: set(),
    OfLargeSquares: {FAR},
    OfLargeSquaresWide: {FAR},
    InNumpy: {DEVICE},
    OnTheHost: {DEVICE},
    Seeds: {"seeds_no_global_generator"},
    WithDistances: set(),
    SquaredDistances: {DISTANCES},
    Similarities: {DISTANCES},
    RadialInPlace: {"radial_is_the_kernel_by_distance"},
    RadialOfMatrices: {"radial_is_the_kernel_by_distance"},
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


class SeveralByPlace(Several):
    """Takes the first of the mapping for the ids."""

    def __call__(self, a, b):
        (species, age), (other, older) = a.values(), b.values()
        return inner(age, older) * (species[:, None] == other)


class Separating(Sound):
    """1 where all ids are equal, else 0."""

    conditions = {"species": ("categorical",), "site": ("categorical",)}  # noqa: RUF012
    separates = True

    def __call__(self, a, b):
        return self.same(a, b, "species") * self.same(a, b, "site")

    def same(self, a, b, name):
        return (a[name][:, None] == b[name]).float()


class SharesHalf(Separating):
    """Has a similarity where some ids are equal."""

    def __call__(self, a, b):
        return (self.same(a, b, "species") + self.same(a, b, "site")) / 2


class OfTheBatch(Sound):
    """Has a scale that depends on the other rows."""

    one_hot = False

    def __call__(self, a, b):
        return inner(a, b) / len(b)


class ByPlace(Sound):
    """Takes row i of both arguments for one sample, if there are as many."""

    one_hot = False

    def __call__(self, a, b):
        itself = torch.eye(len(a)) if len(a) == len(b) else torch.zeros(len(a), len(b))
        k = inner(a, b)
        return k + itself.to(k)


class SeveralOfEveryType(Several):
    """Takes numbers for ids, and reads none."""

    conditions = {"species": ("categorical", "continuous"), "age": ("continuous",)}  # noqa: RUF012

    def __call__(self, a, b):
        numbers = a["species"].is_floating_point()
        return inner(a["age"], b["age"]) if numbers else super().__call__(a, b)


class OfWords(Sound):
    """Whether words begin with the same letter."""

    EXAMPLE_CONDITION = torch.tensor([0, 1, 2])
    one_hot = False

    def __init__(self, *, dataset) -> None:
        self.dataset = dataset

    def words(self):
        return self.dataset("train").vocabulary["word"]

    def __call__(self, a, b):
        words = self.words()
        table = torch.tensor([[float(v[0] == w[0]) for w in words] for v in words])
        return table.to(a.device)[a[:, None], b]


class OfWordsAtOnce(OfWords):
    """Reads the words in its constructor."""

    def __init__(self, *, dataset) -> None:
        super().__init__(dataset=dataset)
        self.read = super().words()

    def words(self):
        return self.read


class Scaled(Sound):
    """The inner product, with parameters."""

    one_hot = False

    def __init__(
        self,
        scale: float = 1.0,
        rings: float = 0.0,
        period: float | None = None,
        way: Literal["sum", "mean"] = "sum",
        definite: bool = False,
    ) -> None:
        self.scale, self.rings, self.period, self.way = scale, rings, period or 1.0, way
        self.positive_definite = definite
        if not 0 < scale < 50:
            raise ValueError(f"scale must be above 0 and below 50, not {scale}")
        for name, each in {"rings": rings, "period": self.period}.items():
            if not 0 <= each < 1e6:
                raise ValueError(f"{name} must be from 0 to 1e6, not {each}")

    def __call__(self, a, b):
        gram = inner(a, b) / self.scale
        if self.rings:  # without them, their period has no effect
            gram = gram + self.rings * torch.cos(gram / (self.period + 1))
        return gram / (as_vectors(a).shape[1] if self.way == "mean" else 1)


class Deaf(Scaled):
    """Takes the period, and does not read it."""

    def __init__(self, scale: float = 1.0, rings: float = 0.0, period: float = 1.0) -> None:
        super().__init__(scale, rings)


class OneWay(Scaled):
    """Takes the way, and does not read it."""

    def __init__(self, scale: float = 1.0, way: Literal["sum", "mean"] = "sum") -> None:
        super().__init__(scale)


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
    SeveralByPlace: {"takes_its_conditions_by_name"},
    Separating: set(),
    SharesHalf: {"separates_if_it_says_so"},
    ByPlace: {"a_pair_depends_on_no_other"},
    SeveralOfEveryType: {"reads_every_condition_it_names"},
    OfWords: set(),
    OfWordsAtOnce: {"constructor_reads_nothing"},
    OfTheBatch: {"a_pair_depends_on_no_other", "is_symmetric"},
    Scaled: set(),
    Deaf: {"reads_its_parameters"},
    OneWay: {"reads_its_parameters"},
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
    # On class ids, cosine is delta; delta of numbers, of which no two are equal, breaks two of the laws.
    kernel = {"use": "product", "on": {"species": "cosine", "age": {"use": "rbf", "scale": 5}}}
    check(ccl.objective("weaklysup_cclk", kernel=kernel))
