"""Rankings of samples equal scikit-learn's and torchmetrics' per query."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import average_precision_score
from support.measured import by_name, values
from torch.nn.functional import normalize, one_hot
from torchmetrics.functional.retrieval import retrieval_average_precision, retrieval_hit_rate

from ccl_plugins.evaluators import Retrieval
from ccl_plugins.protocols import Frozen, UndefinedMetric


def blobs(n=80, seed=0):
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(n) ** 2 % 7
    return Frozen(torch.randn(n, 8, generator=generator) + one_hot(label, 8), {"label": label})


def per_query(frozen):
    """For each query the similarity of the others, and whether they are of its class."""
    x, y = normalize(frozen.features.double(), dim=1), frozen.metadata["label"]
    for i in range(len(x)):
        rest = torch.arange(len(x)) != i
        if (y[rest] == y[i]).any():
            yield x[rest] @ x[i], y[rest] == y[i]


def test_the_metrics_are_those_of_scikit_learn_and_torchmetrics():
    test = blobs()
    measured = by_name(Retrieval()(test, test))
    found = values(measured.values())
    queries = list(per_query(test))
    precision = [average_precision_score(right, score) for score, right in queries]
    assert found["retrieval/map"] == pytest.approx(sum(precision) / len(queries), rel=1e-12)
    # torchmetrics takes samples with a score of 0 or less for not retrieved.
    others = [retrieval_average_precision(score + 2, right).item() for score, right in queries]
    assert found["retrieval/map"] == pytest.approx(sum(others) / len(queries), rel=1e-5)
    for k in (1, 5, 10):
        hits = [retrieval_hit_rate(score + 2, right, top_k=k).item() for score, right in queries]
        each = measured[f"retrieval/recall_at_{k}"]
        assert each.value == pytest.approx(sum(hits) / len(queries))
        assert each.interval[0] < each.value < each.interval[1]


def test_queries_without_another_sample_of_their_class_are_left_out():
    test = blobs()
    single = Frozen(test.features, {"label": test.metadata["label"].clone()})
    single.metadata["label"][3] = 99
    queries = list(per_query(single))
    assert len(queries) == 79
    expected = sum(average_precision_score(right, score) for score, right in queries) / 79
    assert values(Retrieval()(test, single))["retrieval/map"] == pytest.approx(expected)


def test_a_sample_never_retrieves_itself_and_equal_ones_are_retrieved():
    x = torch.eye(3).repeat(2, 1)
    data = Frozen(x, {"label": torch.arange(6) % 3})
    assert values(Retrieval([1])(data, data)) == {
        "retrieval/recall_at_1": 1.0,
        "retrieval/map": 1.0,
    }
    other = Frozen(x, {"label": torch.tensor([0, 1, 2, 1, 2, 0])})
    assert values(Retrieval([1])(other, other))["retrieval/recall_at_1"] == 0


@pytest.mark.parametrize("features", [torch.zeros(60, 4), torch.ones(60, 4)])
def test_of_equal_samples_the_order_of_rows_says_nothing(features):
    label = torch.arange(60) // 20
    shuffled = label[torch.randperm(60, generator=torch.Generator().manual_seed(0))]
    in_order, mixed = (
        by_name(Retrieval()(data, data))
        for data in (Frozen(features, {"label": ids}) for ids in (label, shuffled))
    )
    assert values(in_order.values()) == values(mixed.values())
    assert in_order["retrieval/map"].value < in_order["retrieval/map"].chance
    assert in_order["retrieval/recall_at_1"].value == 0


def test_large_splits_are_measured_on_a_fixed_part():
    test = blobs(300)
    part = values(Retrieval(samples=50)(test, test))
    assert part != values(Retrieval()(test, test))
    assert part == values(Retrieval(samples=50, split="train")(test, blobs(300, seed=1)))
    parts = values(Retrieval([1], samples=50)(test, test))
    assert parts.items() <= part.items()


def test_what_cannot_be_retrieved_is_named():
    test = blobs()
    one = Frozen(test.features, {"label": torch.full((80,), 2)})
    with pytest.raises(
        UndefinedMetric, match=r"'label' has the same value, 2, .* retrieval is undefined"
    ):
        Retrieval()(test, one)
    with pytest.raises(
        UndefinedMetric, match="no class of column 'label' has two measured samples"
    ):
        Retrieval()(test, Frozen(test.features, {"label": torch.arange(80)}))
    with pytest.raises(ValueError, match="k=80 needs more samples than 80"):
        Retrieval([1, 80])(test, test)
