"""The samplers.  Seeds are fixed; statistical tests have an error rate of 1e-4."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from scipy import stats
from support import oracle
from support.sampled import ERROR_RATE

import ccl_plugins as ccl
from ccl_plugins.kernels import RBF
from ccl_plugins.samplers import ConditionalPair, Imbalanced, MPerClass, SameCondition, Uniform
from ccl_plugins.samplers.imbalanced import kept_counts
from ccl_plugins.training.sampling import Batches, Consumed

CLASSES = torch.arange(96) % 8 // 3  # 36, 36 and 24 samples
COLORS = torch.rand(96, 3, generator=torch.Generator().manual_seed(0))

SPLIT = SimpleNamespace(metadata={"label": CLASSES})

MAKE = {
    "uniform": lambda **given: Uniform(**given),
    "same_condition": lambda **given: SameCondition(condition=CLASSES, **given),
    "imbalanced": lambda **given: Imbalanced(condition=CLASSES, **given),
    "m_per_class": lambda **given: MPerClass(split=SPLIT, **given),
    "conditional_pair": lambda **given: ConditionalPair(condition=CLASSES, **given),
    "by_kernel": lambda **given: ConditionalPair(kernel=RBF(0.1), condition=COLORS, **given),
    "nearest": lambda **given: ConditionalPair(nearest=5, condition=COLORS, **given),
}


def epoch(sampler, number, start=0):
    return list(sampler.batches(number, start))


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_two_ranks_see_the_slices_of_one_processs_batches(make):
    def keys(rank, world):
        batches = Batches(lambda: make(size=96, batch_size=8, seed=0), Consumed(), 8, rank, world)
        return list(batches)

    first, second = keys(0, 2), keys(1, 2)
    assert [a + b for a, b in zip(first, second, strict=True)] == keys(0, 1)
    assert {len(batch) for batch in first} == {4}


@pytest.mark.parametrize("name", ["uniform", "imbalanced"])
def test_every_sample_comes_once_per_epoch(name):
    sampler = MAKE[name](drop_last=False, size=96, batch_size=7, seed=0)
    expected = sorted(sampler.kept.tolist()) if name == "imbalanced" else list(range(96))
    assert sorted(torch.cat(epoch(sampler, 0)).tolist()) == expected
    assert len(epoch(sampler, 0)) == len(sampler) == -(-len(expected) // 7)


# same_condition


def test_a_pass_over_values_of_unequal_size_has_each_sample_once():
    ids = torch.tensor([0] * 4 + [1] * 12 + [2] * 12)
    sampler = SameCondition(condition=ids, size=28, batch_size=4, seed=0)
    for epoch in range(3):
        batches = [*sampler.batches(epoch)]
        assert sorted(torch.cat(batches).tolist()) == [*range(28)]
        assert all(len(set(ids[batch].tolist())) == 1 for batch in batches)


def test_every_batch_has_one_value_and_no_sample_twice():
    sampler = SameCondition(condition=CLASSES, size=96, batch_size=10, seed=0)
    for batch in epoch(sampler, 0) + epoch(sampler, 1):
        assert len(CLASSES[batch].unique()) == 1
        assert len(batch.unique()) == 10


def test_values_have_their_share_of_batches():
    """Each epoch within one batch, and on average: 6 batches for 11, 17 and 32 of 60 samples."""
    classes = torch.tensor([0] * 11 + [1] * 17 + [2] * 32)
    sampler = SameCondition(condition=classes, size=60, batch_size=10, seed=0)
    share = torch.tensor([1.1, 1.7, 3.2])
    counts = torch.stack(
        [classes[torch.stack(epoch(sampler, e))[:, 0]].bincount(minlength=3) for e in range(1000)]
    )
    assert bool(((counts - share).abs() < 1).all())
    deviation = (counts.float().mean(0) - share) / counts.float().std(0) * 1000**0.5
    assert float(deviation.abs().max()) < stats.norm.isf(ERROR_RATE / 6)


def test_all_samples_of_a_value_come_before_one_comes_again():
    sampler = SameCondition(condition=torch.zeros(20).long(), size=20, batch_size=5, seed=0)
    assert sorted(torch.cat(epoch(sampler, 0)).tolist()) == list(range(20))
    filled = SameCondition(condition=torch.zeros(23).long(), size=23, batch_size=5, seed=0)
    assert len(torch.cat(epoch(filled, 0)).unique()) == 20


def test_samples_of_a_value_come_equally_often():
    sampler = SameCondition(condition=torch.arange(30) // 13 % 2, size=30, batch_size=5, seed=0)
    seen = torch.cat([batch for e in range(3000) for batch in sampler.batches(e)]).bincount()
    # Less spread than independent draws have: each comes at most twice in an epoch.
    assert float((seen / 3000 - 1).abs().max()) < 0.1


SMALL = torch.tensor([0] * 20 + [1] * 3 + [2])


def test_small_values_may_be_repeated():
    sampler = SameCondition("repeat", condition=SMALL, size=24, batch_size=5, seed=0)
    batches = [batch.sort().values.tolist() for e in range(60) for batch in sampler.batches(e)]
    assert [23] * 5 in batches
    assert any(set(batch) == {20, 21, 22} for batch in batches)
    assert len(epoch(sampler, 0)) == 4


def test_small_values_are_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="2 of 3 values .* 4 of 24 samples"):
        sampler = SameCondition("leave_out", condition=SMALL, size=24, batch_size=5, seed=0)
    for e in range(20):  # a value that is not left out is not in every epoch
        assert sorted(torch.cat(epoch(sampler, e)).tolist()) == list(range(20))
    with pytest.raises(ValueError, match="no value is left"):
        SameCondition("leave_out", condition=torch.arange(24), size=24, batch_size=5, seed=0)


# imbalanced


@pytest.mark.parametrize("name", oracle.names("imbalance_*"))
def test_what_is_kept_is_what_the_released_code_keeps(name):
    case = oracle.case(name)
    rule, each, classes = case["params"]["rule"], case["inputs"]["n_per_class"], case["inputs"]["C"]
    assert kept_counts([each] * classes, rule) == case["extras"]["counts"]
    condition = torch.arange(each * classes) // each
    empties = rule == "exponential"
    with pytest.warns(UserWarning, match="without a sample") if empties else nullcontext():
        kept = Imbalanced(
            rule, condition=condition, size=len(condition), batch_size=64, seed=0
        ).kept
    assert len(kept) == case["expected_code"]
    assert kept[:5].tolist() == case["extras"]["first_selected_rows"]


def test_the_exponential_rule_takes_any_number_of_steps():
    assert kept_counts([100] * 1000, "exponential", steps=1000)[-3:] == [13, 36, 100]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"selection": 2**32}, "selection must be at most 4294967295, not 4294967296"),
        (
            {"batch_size": 90},
            r"batch_size must be 1 to \d+, the number of kept samples of 96, not 90",
        ),
    ],
)
def test_what_of_an_imbalance_does_not_fit_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Imbalanced(**{"batch_size": 8, **given}, condition=CLASSES, size=96, seed=0)
    kept = len(Imbalanced(selection=0, condition=CLASSES, size=96, batch_size=8, seed=0).kept)
    assert len(Imbalanced(condition=CLASSES, size=96, batch_size=kept, seed=0)) == 1


# in a pipeline


def compose(sampler, **conditions):
    return ccl.Pipeline(
        dataset="color_digits",
        backbone="lenet5",
        objective="infonce",
        conditions=conditions,
        sampler=sampler,
    )


COLOR = {"use": "column", "name": "color"}


@pytest.mark.parametrize(
    ("sampler", "conditions", "words"),
    [
        (
            {"use": "same_condition", "on": "color"},
            {"color": COLOR},
            r"'color', Column, is contin.*clus",
        ),
        ("same_condition", {"color": COLOR}, "give the sampler on='color'"),
        ("same_condition", {}, "reads the condition 'condition', and the pipeline has none"),
        (
            "same_condition",
            {"condition": "embedding"},
            "'condition', Embedding, which is computed from embed",
        ),
        ({"use": "conditional_pair"}, {"condition": COLOR}, "needs a categorical condition"),
        (
            {"use": "conditional_pair", "nearest": 3},
            {"condition": "label"},
            "multi_label or continuous",
        ),
    ],
)
def test_a_sampler_that_cannot_read_its_condition_is_refused_at_once(sampler, conditions, words):
    with pytest.raises(ValueError, match=words):
        compose(sampler, **conditions)


def test_a_sampler_reads_the_condition_it_names():
    pipeline = compose({"use": "same_condition", "on": "label"}, label="label")
    assert pipeline.build().sampler_on == "label"
    with pytest.warns(UserWarning, match="nothing in this pipeline reads the condition color"):
        compose({"use": "same_condition", "on": "label"}, label="label", color=COLOR)
