"""The laws of kernels."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin
from unittest import SkipTest

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

import ccl_registry as engine
from ccl_plugins.kinds import registry
from ccl_plugins.numerics.condition_values import as_vectors
from ccl_plugins.numerics.joint import Joint, of_one_tensor
from ccl_plugins.numerics.kernel_functions import conditions_of_kernel
from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import (
    require,
    require_equal,
    require_no_seeding,
    require_unchanged,
    what_it_opens,
)
from ccl_plugins.testing.inputs import (
    condition_values,
    conditions,
    example_rows,
    normal,
    seeded,
    supplied_for,
)
from ccl_plugins.testing.subject import Subject

OTHER_VALUES = "it takes indices, class ids of several conditions or its EXAMPLE_CONDITION alone"


def takes_indices(kernel: Any) -> bool:
    """Whether its arguments are sample indices and not condition values, as for a stored matrix."""
    if conditions_of_kernel(kernel):
        return False
    try:
        kernel(normal(2, 3), normal(2, 3))
    except TypeError:
        return True
    return False


def values(kernel: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """Arguments a (n, ...) and b (m, ...) of every form that the kernel takes.

    A class attribute ``EXAMPLE_CONDITION`` replaces them all.  A kernel that names several conditions gets
    their values side by side in one tensor, as `_build` makes it take them.
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
    """The kernel; if it names several conditions, it takes them in one tensor."""
    return of_one_tensor(subject.build())


def observe(subject: Subject, kernel: Any) -> Any:
    """The kernel's matrices."""
    kernel = of_one_tensor(kernel)
    return {name: kernel(*pair) for name, pair in values(kernel).items()}


def check_constructor_reads_nothing(subject: Subject) -> None:
    """The constructor must open no file and ask for no split of the data set: read at the first call."""

    def dataset(split: str) -> None:
        raise AssertionError(f"it asked for the split {split!r}: read it at the first call")

    subject.build(dataset=dataset)
    opened = what_it_opens(subject.build)
    require(not opened, f"the constructor caused {opened}: read at the first call")


def check_gives_one_number_per_pair(subject: Subject) -> None:
    """``k(a, b)`` must be (n, m) finite numbers, of the dtype of the values if that is floating-point."""
    kernel = _build(subject)
    for name, (first, second) in values(kernel).items():
        for a, b in ((first, second), (first[:1], second), (first, second[:1])):
            gram = kernel(a, b)
            dtype = a.dtype if a.is_floating_point() else gram.dtype
            right = tuple(gram.shape) == (len(a), len(b)) and bool(gram.isfinite().all())
            require(
                right and gram.dtype == dtype and gram.is_floating_point(),
                f"for {name} {tuple(a.shape)} and {tuple(b.shape)} of {a.dtype} it is"
                f" {tuple(gram.shape)} of {gram.dtype}: {gram}",
            )


def check_is_a_function_of_its_values(subject: Subject) -> None:
    """The value of a pair must be the same in every call, whatever was computed or drawn before.

    A kernel must not change its arguments, and must keep neither its arguments nor its results.
    """
    for name, (a, b) in values(_build(subject)).items():
        not_called = _not_called(subject)
        kernel, later, last = (copy.deepcopy(not_called) for _ in range(3))
        with seeded(0):
            with require_unchanged(functools.partial(tuple, (a, b)), f"for {name}, its arguments"):
                first = kernel(a, b)
            expected = first.clone()
        with seeded(1):
            later(b, a[:2])
            require_equal(later(a, b), expected, f"for {name}, if it is called on others before")
            kernel(a.flip(0), b.flip(0))
            require_equal(first, expected, f"for {name}, an earlier result after calls on others")
            require_equal(kernel(a, b), expected, f"for {name}, after calls on others")
            x, y = a.clone(), b.clone()
            kernel(x, y)
            x.copy_(a.flip(0))
            y.copy_(b.flip(0))
            moved = last(x.clone(), y.clone())
            where = f"for {name}, after arguments of an earlier call were changed in place"
            require_equal(kernel(x, y), moved, where)


def _not_called(subject: Subject) -> Any:
    """A kernel that was not called yet; `values` calls the kernel that it gets."""
    kernel = _build(subject)
    if isinstance(kernel, Joint):
        kernel.pack(conditions(kernel.kernel, 12))
    return kernel


def check_takes_numbers_as_vectors_of_one(subject: Subject) -> None:
    """Single numbers, (n,), must have the similarity of vectors of one number, (n, 1)."""
    kernel = _build(subject)
    pair = values(kernel).get("scalars")
    if pair is None:
        raise SkipTest(OTHER_VALUES)
    a, b = pair
    require_equal(kernel(a, b), kernel(a[:, None], b[:, None]), "of (5,) and (7,) numbers")


ROWS = 32
"""Rows to compare: for more than 25, ``torch.cdist`` multiplies matrices."""
FAR = 4096.0
"""A number near which the numbers of float32 are 2^-11 apart."""


def check_large_numbers_lose_no_digits(subject: Subject) -> None:
    """A kernel of differences must be right in float32 for numbers far from 0, as dates are.

    A kernel is one of differences if a number that is added to all values changes nothing. Subtract before
    you square, or no digit is right. For more than 25 rows, ``torch.cdist`` subtracts first only with
    ``compute_mode="donot_use_mm_for_euclid_dist"``.
    """
    kernel, looked = _build(subject), False
    for width, most in itertools.product((1, 3), (4.0, 0.25)):
        given = _numbers(kernel, width, most)
        exact = _matrix(kernel, given)
        spread = exact.max() - exact.min()
        moved = (_matrix(kernel, given, FAR / 64) - exact).abs().mean()
        # With a smaller spread, differences of similarities are rounding.
        if spread <= 1e-3 * exact.abs().max() or moved > 0.01 * spread:
            continue
        looked = True
        off = (_matrix(kernel, given, FAR, torch.float32) - exact).abs().mean()
        # The mean, since rounding moves a few pairs over a step of a kernel that has steps. Right kernels
        # are off by 5e-4 of the spread at most, and squares of large numbers by 0.1 or more.
        require(
            bool(off <= 0.02 * spread),
            f"for {ROWS} rows of {width} numbers from {FAR:g} to {FAR + most:g} it is off by"
            f" {float(off):.2g}, of values from {float(exact.min()):.2g} to {float(exact.max()):.2g}",
        )
    if not looked:
        raise SkipTest("it is no kernel of differences, or the same for all numbers from 0 to 4")


def _numbers(kernel: Any, width: int, most: float) -> dict[str, Tensor]:
    """Values by condition, or by "": numbers that float32 holds exactly, also after `FAR` is added."""
    of_all = conditions(kernel.kernel, ROWS) if isinstance(kernel, Joint) else {"": normal(ROWS, 1)}
    reader = kernel.kernel if isinstance(kernel, Joint) else kernel
    floats = [name for name, z in of_all.items() if z.is_floating_point()]
    if not floats or hasattr(reader, "EXAMPLE_CONDITION") or takes_indices(reader):
        raise SkipTest(OTHER_VALUES)
    for seed, name in enumerate(floats):
        generator = torch.Generator().manual_seed(seed)
        steps = torch.randint(0, int(most * 2048), (ROWS, width), generator=generator)
        of_all[name] = steps.double() / 2048
    return of_all


def _matrix(
    kernel: Any,
    given: Mapping[str, Tensor],
    offset: float = 0.0,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Similarities in float64, computed in another type, of values to which a number is added."""
    moved = {
        name: (z + offset).to(dtype) if z.is_floating_point() else z for name, z in given.items()
    }
    z = kernel.pack(moved) if isinstance(kernel, Joint) else moved[""]
    gram: Tensor = kernel(z, z.clone())
    return gram.double()


def check_works_on_any_device(subject: Subject) -> None:
    """Values on any device must be compared there, and no value may be read on the host.

    This runs on the device ``meta``, where a constant on the CPU is an error, and so is reading a value.
    """
    kernel = _build(subject)
    for name, (a, b) in values(kernel).items():
        built = kernel.kernel if isinstance(kernel, Joint) else kernel
        if isinstance(built, nn.Module):  # as it is moved with its objective
            built.to("meta")
        gram = kernel(a.to("meta"), b.to("meta"))
        require(gram.device.type == "meta", f"for {name} it is on the device {gram.device}")


def check_seeds_no_global_generator(subject: Subject) -> None:
    """It must not seed Python's, numpy's or torch's global generator, from which other code draws next."""
    given = values(_build(subject)).values()

    def compute() -> None:
        kernel = of_one_tensor(subject.choice.build(supplied_for(subject.choice)))
        if isinstance(kernel, Joint):
            kernel.pack(conditions(kernel.kernel, 12))
        for a, b in given:
            kernel(a, b)

    require_no_seeding(compute)


def check_reads_its_parameters(subject: Subject) -> None:
    """Each number, switch or word among its parameters must have an effect: on similarities or on traits.

    Some other value must have one, perhaps beside another value of one other parameter. If one is for speed
    or memory alone, such as a block size, declare the exception.
    """
    given = subject.choice.params
    others = {
        each.name: [v for v in _values_of(each.hint) if repr(v) != repr(given[each.name])]
        for each in registry().schema(subject.spec).parameters
        if each.name in given
    }
    singles = [{}, *({name: v} for name, values in others.items() for v in values)]
    seen = functools.cache(functools.partial(_similarities, subject))

    def changes(name: str, value: Any, beside: Mapping[str, Any]) -> bool | None:
        before, after = (seen(tuple(each.items())) for each in (beside, {**beside, name: value}))
        return None if before is None or after is None else before != after

    for name, values in others.items():
        settings = [each for each in singles if name not in each]
        outcomes = (changes(name, v, each) for each in settings for v in values)
        known = [outcome for outcome in _until_true(outcomes) if outcome is not None]
        tried = ", ".join(map(repr, values))
        report = f"{name}={given[name]!r} gives the same as any of {tried}"
        require(not known or any(known), report)


def _until_true(outcomes: Iterable[bool | None]) -> Iterator[bool | None]:
    for outcome in outcomes:
        yield outcome
        if outcome:
            return


def _values_of(hint: Any) -> list[Any]:
    """Values of a parameter by its type: small and large numbers, both switches, all words."""
    if get_origin(hint) is Literal:
        return [*get_args(hint)]
    if get_origin(hint) in (Union, UnionType):
        return [value for each in get_args(hint) for value in _values_of(each)]
    numbers: dict[Any, list[Any]] = {
        bool: [False, True],
        int: [1, 2, 3, 7, 100],
        float: [0.01, 0.3, 1.0, 3.0, 100.0],
    }
    return numbers.get(hint, [])


def _similarities(subject: Subject, changes: tuple[tuple[str, Any], ...]) -> Any:
    """What a kernel with other parameters computes and declares; None if it refuses them."""
    params = {**subject.choice.params, **dict(changes)}
    try:
        choice = registry().choose(subject.kind, subject.spec.id, **params)
        kernel = _build(subject.chosen_as(choice))
        pairs = values(kernel)
    except Exception:  # it refuses them, in whatever way
        return None
    matrices = []
    for name, (a, b) in pairs.items():
        try:
            matrices.append((name, kernel(a, b).tolist()))
        except Exception as error:
            matrices.append((name, repr(error)))
    # Another law says that a kernel lacks it.
    traits = [getattr(kernel, "positive_definite", None)]
    traits += [trait(kernel, name) for name in ("one_hot", "separates")]
    return matrices, traits


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
        turned = kernel(b, b.flip(0)).flip(1)
        require_equal(turned, kernel(b, b.clone()), f"for {name}, of as many rows in another order")


def check_reads_every_condition_it_names(subject: Subject) -> None:
    """With several conditions, another order of the values of one of them must change the matrix.

    Values of every type that it accepts for a condition are given.
    """
    kernel = _joint(subject)
    some = torch.arange(12) % 5  # values that some rows share
    given = {name: z[some] for name, z in conditions(kernel.kernel, 5).items()}
    for number, (name, types) in enumerate(kernel.kernel.conditions.items()):
        for each in ["given"] if hasattr(kernel.kernel, "EXAMPLE_CONDITION") else types:
            z = given[name] if each == "given" else condition_values([each], 5, number)[some]
            before = kernel(*2 * (kernel.pack({**given, name: z}),))
            moved = kernel.pack({**given, name: z[_other_order(len(z))]})
            report = f"{each} values of the condition {name!r} are not read"
            require(not torch.equal(kernel(moved, moved), before), report)


def check_takes_its_conditions_by_name(subject: Subject) -> None:
    """With several conditions, the order of names in the mapping must not matter."""
    kernel = _joint(subject).kernel
    given = conditions(kernel, 5)
    turned = dict(reversed(given.items()))
    report = f"for values in the order {', '.join(turned)}"
    require_equal(kernel(turned, given), kernel(given, given), report)


def check_separates_if_it_says_so(subject: Subject) -> None:
    """With ``separates = True``, similarities must be one value where all ids are equal, else 0."""
    kernel = _joint(subject).kernel
    if not trait(kernel, "separates"):
        raise SkipTest("separates = False")
    if not all("categorical" in types for types in kernel.conditions.values()):
        raise SkipTest("some of its conditions are no class ids")
    number = torch.arange(2 ** len(kernel.conditions)).repeat(2)
    given = {name: number >> i & 1 for i, name in enumerate(kernel.conditions)}
    gram = kernel(given, given)
    same = number[:, None] == number
    right = bool((gram[~same] == 0).all()) and torch.allclose(gram[same], gram[0, 0])
    report = (
        f"equal ids have {gram[same].unique().tolist()}, others {gram[~same].unique().tolist()}"
    )
    require(right, report)


def _joint(subject: Subject) -> Joint:
    """A kernel of several conditions."""
    kernel = _build(subject)
    if not isinstance(kernel, Joint):
        raise SkipTest("it names no conditions")
    return kernel


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
        raise SkipTest("positive_definite = False")
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
        raise SkipTest("it has no features")
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
        raise SkipTest("it has no radial")
    for name, (a, b) in values(kernel).items():
        if a.is_floating_point():
            square = (as_vectors(a)[:, None] - as_vectors(b)).square().sum(-1)
            with require_unchanged(square.clone, "its argument"):
                by_square = radial(square)
            require_equal(by_square, kernel(a, b), f"for {name}", rtol=1e-5, atol=1e-6)
            require_equal(radial(square[0]), by_square[0], f"for one row of {name}")
    by_distance = radial(torch.linspace(0, 100, 1001, dtype=torch.float64))
    rises = bool((by_distance.diff() > 1e-9 * by_distance[:1].abs()).any())
    require(not rises, "it rises between 0 and 100")


def check_distances_are_what_its_scale_divides(subject: Subject) -> None:
    """Optional ``distances(a, b)`` must be 0 for equal values, never below 0, and be divided by ``scale``.

    So with all distances and the scale twice as large, the similarities must be the same.
    """
    kernel = _build(subject)
    if (distances := trait(kernel, "distances")) is None:
        raise SkipTest("it has no distances")
    for name, (a, b) in values(kernel).items():
        apart, alone = distances(a, b), distances(a, a.clone())
        legal = apart.shape == (len(a), len(b)) and bool((apart >= 0).all())
        require(legal, f"for {name} {tuple(a.shape)} and {tuple(b.shape)} they are {apart}")
        of_equal = float(alone.diagonal().abs().max())
        report = f"for {name} one of two equal values is {of_equal:.3g}"
        require(of_equal <= 1e-3 * float(alone.max()), report)
    pair, scale = values(kernel).get("vectors"), getattr(kernel, "scale", None)
    if pair is None or isinstance(scale, bool) or not isinstance(scale, int | float):
        raise SkipTest("it takes no vectors, or its scale is no number")
    a, b = pair
    times = distances(2 * a, 2 * b) / distances(a, b)
    if not torch.allclose(times, times[0, 0]):
        raise SkipTest("its distances of twice the values are no multiple of those of the values")
    factor = float(times[0, 0])
    params = {**subject.choice.params, "scale": factor * scale}
    try:
        choice = registry().choose(subject.kind, subject.spec.id, **params)
    except engine.InvalidParameter as error:
        raise SkipTest(f"its scale is no parameter that takes any number: {error}") from error
    wider = of_one_tensor(subject.chosen_as(choice).build())
    where = f"with values twice as large, distances {factor:g} times, and a scale {factor:g} times"
    require_equal(wider(2 * a, 2 * b), kernel(a, b), where, rtol=1e-5, atol=1e-6)


def check_class_ids_are_one_hot_if_it_says_so(subject: Subject) -> None:
    """With ``one_hot = True``, class ids must give the values of their one-hot vectors."""
    kernel = _build(subject)
    if not trait(kernel, "one_hot"):
        raise SkipTest("one_hot = False")
    if hasattr(kernel, "EXAMPLE_CONDITION"):
        raise SkipTest("it takes the values of its EXAMPLE_CONDITION alone")
    a, b = torch.arange(5) % 3, torch.arange(7) % 3
    vectors = kernel(one_hot(a, 3).double(), one_hot(b, 3).double())
    require_equal(kernel(a, b).double(), vectors.double(), rtol=1e-5, atol=1e-6)
