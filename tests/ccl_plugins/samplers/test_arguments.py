"""What samplers take, what they say of what they cannot take, and counts at the edges."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from ccl_plugins.drawing.by_class import Groups
from ccl_plugins.drawing.nearest import Nearest, NearestOnLine, among_nearest
from ccl_plugins.kernels import RBF
from ccl_plugins.protocols import VALUE_TYPES
from ccl_plugins.samplers import ConditionalPair, Imbalanced, SameCondition, Uniform
from ccl_plugins.samplers.imbalanced import kept_counts

CLASSES = torch.arange(12) % 3
NUMBERS = torch.rand(12, 2, generator=torch.Generator().manual_seed(0))


def test_value_types_are_those_that_partners_can_be_drawn_from():
    assert SameCondition.value_types({}) == Imbalanced.value_types({}) == ("categorical",)
    types = ConditionalPair.value_types
    assert types({}) == types({"kernel": None, "nearest": None}) == ("categorical",)
    assert types({"nearest": 3}) == ("multi_label", "continuous")
    assert types({"kernel": RBF()}) == types({"kernel": RBF(), "nearest": None}) == VALUE_TYPES


def message(sampler, **given):
    with pytest.raises(ValueError, match=r"\w") as raised:
        sampler(**{"size": 12, "batch_size": 4, "seed": 0, **given})
    return str(raised.value)


def test_what_does_not_fit_is_said_in_full():
    assert message(ConditionalPair, condition=NUMBERS) == (
        "the condition holds numbers, (12, 2) torch.float32: conditional_pair draws partners among"
        " numbers by kernel= or nearest=, among class ids without nearest="
    )
    assert message(ConditionalPair, condition=CLASSES, nearest=2) == (
        "the condition holds class ids, (12,) torch.int64: conditional_pair draws partners among"
        " numbers by kernel= or nearest=, among class ids without nearest="
    )
    assert message(ConditionalPair, condition=NUMBERS, nearest=2, kernel=RBF()) == (
        "conditional_pair takes kernel= or nearest=, not both"
    )
    assert message(SameCondition, condition=NUMBERS) == (
        "same_condition needs a categorical condition, but this one holds numbers, (12, 2)"
        " torch.float32: make class ids of them with clusters(of=..., k=...)"
    )
    assert message(Imbalanced, condition=NUMBERS).startswith("imbalanced needs a categorical")
    assert message(Imbalanced, condition=CLASSES[:, None]) == (
        "imbalanced needs one class per sample, not (12, 1)"
    )
    for sampler in (SameCondition, Imbalanced, ConditionalPair):
        assert message(sampler, condition=CLASSES[:11]) == (
            "condition must have a row for each of 12 samples, not 11"
        )
    for size in (0, 13):
        assert message(Uniform, batch_size=size) == (
            f"batch_size must be 1 to 12, the number of samples, not {size}"
        )
    for k in (0, 13):
        assert message(ConditionalPair, condition=NUMBERS, nearest=k) == (
            f"nearest must be 1 to 12, the number of candidates, not {k}"
        )
    assert message(ConditionalPair, condition=NUMBERS, nearest=12, own_pair=False) == (
        "nearest must be 1 to 11, the number of candidates, not 12"
    )


@pytest.mark.parametrize(
    ("values", "sample"),
    [
        (torch.tensor([0, 1, -1] * 4), 2),
        (torch.tensor([[0, 0], [0, -1], [0, 0]] * 4), 1),
        (torch.where(torch.arange(12) % 3 == 2, torch.nan, NUMBERS[:, 0]), 2),
    ],
)
def test_samples_without_a_value_are_no_class_of_their_own(values, sample):
    kernel = RBF() if values.is_floating_point() else None
    found = (
        "4 of 12 samples have no value of the condition (NaN, or -1 among class ids), the first is"
    )
    assert f"{found} sample {sample}" in message(ConditionalPair, condition=values, kernel=kernel)
    if kernel is None:
        assert f"{found} sample {sample}" in message(SameCondition, condition=values)


@pytest.mark.parametrize("sampler", [SameCondition, Imbalanced, ConditionalPair])
def test_a_condition_is_a_tensor(sampler):
    with pytest.raises(TypeError, match="condition must be a tensor, not ndarray"):
        sampler(size=12, batch_size=4, seed=0, condition=CLASSES.numpy())


def test_the_least_and_the_most_are_accepted():
    for size in (1, 12):
        assert len(Uniform(size=12, batch_size=size, seed=0)) == 12 // size
    for own, most in ((True, 12), (False, 11)):
        for values in (NUMBERS, NUMBERS[:, 0]):
            for k in (1, most):
                partners = among_nearest(values, own, k)
                assert isinstance(partners, Nearest if values.ndim == 2 else NearestOnLine)
                drawn = partners.draw(torch.arange(12).repeat(300), np.random.default_rng(0))
                assert len(torch.unique(drawn.view(300, 12)[:, 0])) == k
    sampler = SameCondition(condition=CLASSES, size=12, batch_size=4, seed=0)
    assert sampler.small == "error"
    assert len(list(sampler.batches(0))) == 3


SMALL = torch.tensor([0] * 9 + [1] * 2 + [2])


def test_small_values_are_counted_in_full():
    found = (
        "2 of 3 values of the condition, 3 of 12 samples, have fewer samples than batch_size = 4"
    )
    assert message(SameCondition, condition=SMALL) == (
        f"{found} (the smallest 1): take batch_size = 1 at most, fewer values, small='repeat' or"
        " small='leave_out'"
    )
    assert message(SameCondition, condition=torch.arange(12), small="leave_out") == (
        "12 of 12 values of the condition, 12 of 12 samples, have fewer samples than batch_size = 4:"
        " with small='leave_out' no value is left; take a smaller batch_size"
    )
    with pytest.warns(UserWarning, match="have fewer") as warned:
        SameCondition("leave_out", condition=SMALL, size=12, batch_size=4, seed=0)
    assert [str(each.message) for each in warned] == [
        f"{found} and are left out of training by same_condition"
    ]
    assert warned[0].filename == __file__


def test_small_values_may_stay_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler = SameCondition("repeat", condition=SMALL, size=12, batch_size=4, seed=0)
        SameCondition("leave_out", condition=CLASSES, size=12, batch_size=4, seed=0)
        Imbalanced("geometric", condition=CLASSES, size=12, batch_size=4, seed=0)
    batches = [batch for e in range(40) for batch in sampler.batches(e)]
    assert {len(batch) for batch in batches} == {4}
    pairs = [batch.bincount(minlength=12)[9:11] for batch in batches if batch[0] in (9, 10)]
    assert pairs
    assert all(pair.tolist() == [2, 2] for pair in pairs)


def test_classes_without_a_sample_are_counted_in_full():
    condition = torch.arange(100).repeat_interleave(2)
    with pytest.warns(UserWarning, match="the exponential") as warned:
        Imbalanced("exponential", condition=condition + 7, size=200, batch_size=4, seed=0)
    (text,) = [str(each.message) for each in warned]
    assert text == (
        "the exponential rule leaves 90 of 100 classes without a sample, the first is 7;"
        " rule='geometric' leaves no class empty"
    )
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("counts", "given", "kept"),
    [
        ([100, 100], {"rule": "linear"}, [50, 100]),
        ([100] * 4, {"rule": "linear"}, [25, 50, 75, 100]),
        ([100] * 4, {"rule": "linear", "steps": 2}, [50, 50, 100, 100]),
        ([99] * 2, {"rule": "linear", "steps": 1}, [99, 99]),
        ([7], {"rule": "linear"}, [7]),
        ([100, 100], {"rule": "exponential"}, [int(100 / math.e), 100]),
        ([100] * 4, {"rule": "exponential", "steps": 2}, [36, 36, 100, 100]),
        ([7], {"rule": "exponential"}, [7]),
        ([100, 100], {"rule": "geometric", "ratio": 0.25}, [25, 100]),
        ([100] * 3, {"rule": "geometric", "ratio": 0.25}, [25, 50, 100]),
        ([1000] * 3, {"rule": "geometric"}, [10, 100, 1000]),
        ([9, 9], {"rule": "geometric"}, [1, 9]),
        ([200, 100, 400], {"rule": "geometric", "ratio": 0.25}, [50, 50, 400]),
        ([7], {"rule": "geometric"}, [7]),
        ([8, 8], {"rule": "geometric", "ratio": 1.0}, [8, 8]),
    ],
)
def test_what_is_kept_follows_the_rule_for_any_number_of_classes(counts, given, kept):
    assert kept_counts(counts, **given) == kept


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_groups_are_those_of_equal_rows_in_their_order(columns):
    values = torch.randint(-3, 2, (60, columns), generator=torch.Generator().manual_seed(1))
    values[:, 0] *= 1000
    groups = Groups(values if columns > 1 else values[:, 0])
    rows, ids, counts = np.unique(values.numpy(), axis=0, return_inverse=True, return_counts=True)
    assert len(groups) == len(rows)
    assert groups.ids.tolist() == ids.flatten().tolist()
    assert groups.count.tolist() == counts.tolist()
    assert groups.order.tolist() == np.argsort(ids.flatten(), kind="stable").tolist()
    assert groups.first.tolist() == [0, *counts.cumsum()[:-1]]
    assert groups.order[groups.place].tolist() == list(range(60))


def test_many_columns_of_a_hierarchy_do_not_overflow():
    values = torch.stack([torch.arange(40) % 2 * 10**9 for _ in range(12)], 1)
    values[:, -1] = torch.arange(40) % 4
    groups = Groups(values)
    assert [groups.members(i).tolist() for i in range(4)] == [
        list(range(i, 40, 4)) for i in (0, 2, 1, 3)
    ]


def test_epochs_of_one_seed_and_of_the_next_are_all_different():
    orders = [
        torch.cat(list(Uniform(size=30, batch_size=5, seed=seed).batches(epoch))).tolist()
        for seed in (0, 1, 2, 10**12)
        for epoch in range(8)
    ]
    assert len({str(order) for order in orders}) == 32
    assert all(sorted(order) == list(range(30)) for order in orders)


def test_the_last_batch_is_what_is_left():
    assert [len(batch) for batch in Uniform(size=10, batch_size=4, seed=0).batches(0)] == [4, 4]
    for size in (4, 5):
        sampler = Uniform(drop_last=False, size=10, batch_size=size, seed=0)
        lengths = [len(batch) for batch in sampler.batches(0)]
        assert lengths == [size] * (10 // size) + [10 % size] * (10 % size > 0)
        assert len(sampler) == len(lengths)
        assert [b.tolist() for b in sampler.batches(0, 1)] == [
            b.tolist() for b in [*sampler.batches(0)][1:]
        ]


def test_a_kernel_that_is_not_positive_definite_is_refused_with_another_way():
    class Odd:
        """Any kernel."""

        positive_definite = False

        def __call__(self, a, b):
            return a @ b.T

        def __repr__(self):
            return "odd()"

    assert message(ConditionalPair, condition=NUMBERS, kernel=Odd()) == (
        "conditional_pair needs a positive definite kernel, but odd() is not one: nearest=k draws"
        " from the k nearest samples"
    )
