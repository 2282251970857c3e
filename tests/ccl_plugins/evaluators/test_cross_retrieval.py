"""Ranks of captions and images equal a loop over queries that sorts all candidates."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
import torch
from support.measured import values
from torch.nn.functional import normalize

from ccl_plugins.datasets import ColorDigits
from ccl_plugins.evaluators import CrossRetrieval
from ccl_plugins.evaluators import cross_retrieval as module
from ccl_plugins.evaluators.cross_retrieval import median
from ccl_plugins.evaluators.intervals import over_groups
from ccl_plugins.protocols import Frozen, Towers, UndefinedMetric

WAYS = ("image_to_text", "text_to_image")


def vectors(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(n, 5, generator=generator), dim=1)


def frozen(n=60, texts=37):
    """Images with captions, of which some are equal, and projections near each other."""
    captions = [f"caption {i * i % texts}" for i in range(n)]
    table = {text: vector for text, vector in zip(sorted({*captions}), vectors(n, 1), strict=False)}

    def project(given):
        return torch.stack([table[text] for text in given])

    images = normalize(project(captions) + vectors(n, 2), dim=1)
    return Frozen(torch.zeros(n, 1), {}, towers=Towers(images, project, {"caption": captions}))


def slow(test):
    """The rank of the first right candidate of each query, by sorting."""
    towers, captions = test.towers, test.towers.captions["caption"]
    texts = sorted({*captions})
    projected = towers.texts(texts)

    def rank(query, candidates, right):
        order = sorted(range(len(candidates)), key=lambda j: -float(query.double() @ candidates[j]))
        return 1 + next(place for place, j in enumerate(order) if right(j))

    return {
        "image_to_text": [
            rank(image, projected.double(), lambda j, i=i: texts[j] == captions[i])
            for i, image in enumerate(towers.images)
        ],
        "text_to_image": [
            rank(text, towers.images.double(), lambda j, i=i: captions[j] == texts[i])
            for i, text in enumerate(projected)
        ],
    }


def test_the_metrics_are_those_of_a_slow_loop():
    test = frozen()
    assert len({*test.towers.captions["caption"]}) < 40
    expected = {}
    for way, ranks in slow(test).items():
        for k in (1, 5, 10):
            hits = [rank <= k for rank in ranks]
            expected[f"cross_retrieval/{way}_recall_at_{k}"] = sum(hits) / len(hits)
        expected[f"cross_retrieval/{way}_median_rank"] = statistics.median(ranks)
    measured = CrossRetrieval()(test, test)
    found = values(measured)
    assert found == pytest.approx(expected)
    assert all(each.interval[0] <= each.value <= each.interval[1] for each in measured)
    assert 0 < found["cross_retrieval/text_to_image_recall_at_1"] < 1


def test_blocks_change_nothing(monkeypatch):
    test = frozen()
    whole = values(CrossRetrieval()(test, test))
    monkeypatch.setattr(module, "BLOCK", 100)
    assert values(CrossRetrieval()(test, test)) == whole


def test_equal_projections_count_against_the_method():
    test = frozen()
    towers = Towers(
        torch.ones(60, 1), lambda texts: torch.ones(len(texts), 1), test.towers.captions
    )
    found = values(CrossRetrieval([1])(test, Frozen(test.features, {}, towers=towers)))
    assert found["cross_retrieval/image_to_text_recall_at_1"] == 0
    texts = len({*test.towers.captions["caption"]})
    assert found["cross_retrieval/image_to_text_median_rank"] == texts


def test_images_with_equal_captions_are_all_right():
    images = torch.eye(3)[[0, 0, 1]]
    captions = {"caption": ["a", "a", "b"]}

    def project(texts):
        return torch.eye(3)[["ab".index(text) for text in texts]]

    test = Frozen(torch.zeros(3, 1), {}, towers=Towers(images, project, captions))
    found = values(CrossRetrieval([1, 2])(test, test))
    assert all(value == 1 for value in found.values())


def test_the_interval_of_texts_is_over_the_groups_of_their_samples():
    n, wrong = 60, torch.arange(60) // 6 % 2 == 1  # in whole groups of six
    images = vectors(n, 1)
    captions = [f"caption {i * 7 % n:02d}" for i in range(n)]  # all different, in no order
    texts = torch.where(wrong[:, None], -images, images)
    table = dict(zip(captions, texts, strict=True))
    towers = Towers(
        images, lambda given: torch.stack([table[t] for t in given]), {"caption": captions}
    )
    with over_groups(torch.arange(n) // 6):
        found = CrossRetrieval(k=[1])(*[Frozen(torch.zeros(n, 1), {}, towers=towers)] * 2)
    of_images, of_texts = (each for each in found if each.name.endswith("recall_at_1"))
    assert of_images.interval == of_texts.interval


def test_texts_of_several_images_have_the_interval_over_their_groups():
    n, patient = 60, torch.arange(60) // 5
    images, texts = vectors(n, 1), vectors(20, 2)

    def measured(of_image):
        captions = {"caption": [f"{int(place)}" for place in of_image]}
        towers = Towers(images, lambda given: texts[[*map(int, given)]], captions)
        found = CrossRetrieval(k=[3])(*[Frozen(torch.zeros(n, 1), {}, towers=towers)] * 2)
        return [each.interval for each in found if "text_to_image" in each.name]

    alone = measured(patient)
    with over_groups(patient):  # a text for each
        assert measured(patient) == alone
        assert measured(torch.arange(n) // 3) == [None, None]  # some texts are of two patients


def test_another_column_and_split_have_their_own_names():
    test = frozen()
    towers = Towers(
        test.towers.images, test.towers.texts, {"title": test.towers.captions["caption"]}
    )
    other = Frozen(test.features, {}, towers=towers)
    found = values(CrossRetrieval(column="title", split="train")(other, test))
    assert [*found] == [
        f"cross_retrieval-title/{way}_{what}"
        for way in WAYS
        for what in ("recall_at_1", "recall_at_5", "recall_at_10", "median_rank")
    ]
    assert [*found.values()] == [*values(CrossRetrieval()(test, test)).values()]


def test_large_splits_are_measured_on_a_fixed_part():
    test = frozen(200, 150)
    part = values(CrossRetrieval(samples=50)(test, test))
    assert part == values(CrossRetrieval(samples=50)(test, test))
    assert part != values(CrossRetrieval()(test, test))


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_a_median_and_its_interval_are_those_of_a_loop_over_draws(n):
    ranks = torch.arange(n).flip(0) ** 2 % 11 + 1
    found = median(ranks)
    value = found["value"]
    assert value == statistics.median(ranks.tolist())
    drawn = torch.randint(n, (1000, n), generator=torch.Generator().manual_seed(0))
    medians = [statistics.median(row) for row in ranks[drawn].tolist()]
    low, high = np.quantile(medians, [0.025, 0.975])
    assert found["interval"] == pytest.approx((min(low, value), max(high, value)))


def test_what_cannot_be_retrieved_is_named():
    test = frozen()
    with pytest.raises(ValueError, match='no text tower: give the pipeline method = "dual"'):
        CrossRetrieval()(test, Frozen(test.features, {}))
    with pytest.raises(
        ValueError, match="the data set's texts has no column 'title'; it has caption"
    ):
        CrossRetrieval(column="title")(test, test)
    with pytest.raises(ValueError, match=r"k=99 needs more different texts than \d+"):
        CrossRetrieval([99])(test, test)
    same = Towers(test.towers.images, test.towers.texts, {"caption": ["a cat"] * 60})
    with pytest.raises(
        UndefinedMetric, match="60 measured samples have the same 'caption', 'a cat'"
    ):
        CrossRetrieval()(test, Frozen(test.features, {}, towers=same))
    short = Towers(test.towers.images[:5], test.towers.texts, test.towers.captions)
    with pytest.raises(ValueError, match="features of 60 images, and projections of shape"):
        CrossRetrieval()(test, Frozen(test.features, {}, towers=short))


def test_the_column_is_checked_against_the_data_set():
    with pytest.raises(ValueError, match="columns of texts are 'caption'"):
        CrossRetrieval(column="title", dataset=ColorDigits(captions=True))
    with pytest.raises(ValueError, match="columns of texts are none"):
        CrossRetrieval(dataset=ColorDigits())
    assert CrossRetrieval(dataset=ColorDigits(captions=True)).column == "caption"
