"""The sampler ``m_per_class``: each batch against what its page says, counted sample by sample."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.samplers import MPerClass

LABEL = torch.tensor([0] * 20 + [1] * 9 + [2] * 7 + [3] * 4)
PLATE = torch.arange(40) % 2


def split(**columns):
    return SimpleNamespace(metadata={"label": LABEL, "plate": PLATE, **columns})


def made(of=None, **given):
    of = of or split()
    sizes = {"size": 40, "batch_size": 8, "seed": 0, **given}
    return MPerClass(**sizes, split=of)


@pytest.mark.parametrize("columns", ["label", ["label", "plate"]])
@pytest.mark.parametrize("m", [1, 2, 4])
def test_batches_have_m_samples_of_each_of_k_classes(columns, m):
    if columns != "label" and m == 4:
        columns = ["plate", "half"]
    of = split(half=(torch.arange(40) > 19).long())
    names = [columns] if columns == "label" else columns
    class_of = [tuple(int(of.metadata[name][i]) for name in names) for i in range(40)]
    k = 8 // m
    if k > len({*class_of}):
        with pytest.raises(ValueError, match=f"a batch of 8 has {k} classes with m = {m}"):
            made(of, m=m, columns=columns)
        return
    sampler, came = made(of, m=m, columns=columns), Counter()
    for epoch in range(3):
        batches = list(sampler.batches(epoch))
        assert len(batches) == len(sampler) == 5
        for batch in batches:
            rows = batch.tolist()
            assert len({*rows}) == 8
            blocks = [rows[i : i + m] for i in range(0, 8, m)]
            classes = [{class_of[row] for row in block} for block in blocks]
            assert all(len(each) == 1 for each in classes)
            assert len(set.union(*classes)) == k
            came.update(set.union(*classes))
    assert max(came.values()) - min(came.values()) <= 3  # as many epochs


def test_a_sample_comes_again_after_all_of_its_class():
    for epoch in range(5):
        drawn = torch.cat(list(made(m=4, batch_size=16, size=40).batches(epoch)))
        of_three = drawn[LABEL[drawn] == 3]
        assert sorted(of_three.tolist()) == sorted([36, 37, 38, 39] * (len(of_three) // 4))
        of_two = drawn[LABEL[drawn] == 2]  # 7 samples, of which 8 come
        assert {*Counter(of_two.tolist()).values()} == {1, 2}


def test_an_epoch_goes_on_where_it_was_left():
    sampler = made(m=2)
    assert torch.equal(
        torch.stack(list(sampler.batches(3)))[2:], torch.stack(list(sampler.batches(3, 2)))
    )
    assert not torch.equal(next(sampler.batches(0)), next(sampler.batches(1)))


def test_small_classes_are_named_repeated_or_left_out():
    few = split(label=LABEL.clone().index_fill(0, torch.tensor([37, 38, 39]), 0))
    with pytest.raises(ValueError, match="1 of 4 values of 'label', 1 of 40 samples, have fewer"):
        made(few)
    repeated = torch.cat([b for e in range(20) for b in made(few, small="repeat").batches(e)])
    assert (repeated == 36).sum() % 4 == 0
    assert (repeated == 36).any()
    with pytest.warns(UserWarning, match="left out of training by m_per_class") as warned:
        without = made(few, small="leave_out")
    assert warned[0].filename == __file__
    assert not any((b == 36).any() for e in range(20) for b in without.batches(e))


def test_samples_without_a_value_are_not_drawn():
    of = split(plate=PLATE.clone().index_fill(0, torch.arange(5), -1))
    with pytest.warns(UserWarning, match="5 of 40 samples lack a value of 'label' and 'plate'"):
        sampler = made(of, m=2, columns=["label", "plate"])
    drawn = torch.cat([b for e in range(20) for b in sampler.batches(e)])
    assert drawn.unique().tolist() == list(range(5, 40))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"m": 3}, "m must divide the batch_size of 8 \\(1, 2, 4, 8\\), not 3"),
        ({"m": 1}, "'label' has 4: take an m of at least 2, or a batch_size of at most 4"),
        ({"columns": "height"}, "the column 'height' holds torch.float32"),
        ({"columns": []}, "columns must name a metadata column"),
        ({"columns": "other"}, "'other'"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        made(split(height=torch.rand(40)), **given)


@pytest.mark.filterwarnings("ignore:condition 'condition' is missing in 30 of 60 samples")
def test_a_run_trains_on_it_and_reads_the_samples_that_are_left(tmp_path):
    seen = []

    class Seen(MPerClass):
        def __init__(self, m: int = 4, *, size: int, batch_size: int, seed: int, split) -> None:
            seen.append((size, len(split), split.metadata["label"].tolist()))
            super().__init__(
                m, small="repeat", size=size, batch_size=batch_size, seed=seed, split=split
            )

    class Half:
        refresh, value_type, missing = "never", "categorical", "drop"

        def fit(self, split, embed, previous):
            rows = torch.arange(len(split))
            return torch.where(rows % 2 == 0, rows % 3, -1)

    run = ccl.Pipeline(
        dataset={"use": "subset", "of": "color_digits", "train": 60, "test": 20},
        backbone="lenet5",
        transform={"use": "simclr", "size": 32},
        method={"use": "simclr", "hidden": 8, "dim": 4},
        objective={"use": "cl_infonce", "on": "condition"},
        condition=ccl.local("condition", Half),
        sampler=ccl.local("sampler", Seen, m=2),
        evaluate=[],
        monitor="off",
        fit={"max_steps": 2, "batch_size": 8, "workers": 0},
    ).fit(out=tmp_path, progress=False)
    labels = run.splits[0].metadata["label"]
    assert seen[-1] == (30, 30, labels[::2].tolist())
