"""Rankings of samples equal scikit-learn's, torchmetrics' and copairs' per query."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from support.measured import by_name, values
from support.mixing_peers import NEGATIVES, RECORD, cases
from torch.nn.functional import normalize, one_hot
from torchmetrics.functional.retrieval import retrieval_average_precision, retrieval_hit_rate

from ccl_plugins.evaluators import Retrieval
from ccl_plugins.evaluators.columns import measured_by
from ccl_plugins.protocols import Frozen, UndefinedMetric

PEERS = json.loads(RECORD.read_text("utf-8"))["numbers"]
ACROSS = {
    name: Frozen(torch.tensor(x), {"label": torch.tensor(label), "batch": torch.tensor(batch)})
    for name, (x, label, batch) in ((name, case.values()) for name, case in cases().items())
}


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


@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("name", ACROSS)
def test_the_precision_across_groups_is_that_of_copairs(name, negatives):
    found = by_name(Retrieval(across="batch", negatives=negatives)(ACROSS[name], ACROSS[name]))
    precision = found["retrieval_across_batch/map"]
    assert precision.value == pytest.approx(PEERS[name][f"map, {negatives}"], abs=1e-6)
    assert precision.chance < precision.value


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_rankings_across_groups_are_those_of_a_slow_loop(negatives):
    test = ACROSS["uneven"]
    x, (y, z) = normalize(test.features, dim=1), test.metadata.values()
    hits, precision = [], []
    for i in range(len(x)):
        right = (y == y[i]) & (z != z[i])
        wrong = (y != y[i]) & {"all": z == z, "same": z == z[i], "other": z != z[i]}[negatives]
        if right.any():
            kept = right | wrong
            precision.append(average_precision_score(right[kept], (x @ x[i])[kept]))
            hits.append(right[kept][(x @ x[i])[kept].argsort(descending=True)[:5]].any().item())
    found = values(Retrieval([5], across="batch", negatives=negatives)(test, test))
    assert found["retrieval_across_batch/map"] == pytest.approx(sum(precision) / len(precision))
    assert found["retrieval_across_batch/recall_at_5"] == pytest.approx(sum(hits) / len(hits))


def test_what_groups_have_alike_hides_replicates_of_others():
    batch, label = torch.arange(60) % 2, torch.arange(60) // 2 % 3
    x = torch.cat([one_hot(label, 3), 5 * one_hot(batch, 2)], 1).float()
    test = Frozen(x, {"label": label, "batch": batch})
    found = {
        each: values(Retrieval([1], across="batch", negatives=each)(test, test))
        for each in NEGATIVES
    }
    assert found["same"]["retrieval_across_batch/recall_at_1"] == 0
    assert found["all"]["retrieval_across_batch/recall_at_1"] == 0
    assert found["other"]["retrieval_across_batch/recall_at_1"] == 1


def test_samples_without_a_group_or_a_class_are_not_ranked():
    test = ACROSS["drawn"]
    columns = {name: ids.clone() for name, ids in test.metadata.items()}
    columns["batch"][:20], columns["label"][-20:] = -1, -1
    found, expected = (
        Retrieval(across="batch")(each, each)
        for each in (Frozen(test.features, columns), test.take(torch.arange(20, 280)))
    )
    assert found == expected


def over_drawn_groups(values, groups):
    """The ends of the interval of a mean, from draws of groups whose samples are put side by side."""
    own = [
        [value for value, each in zip(values, groups, strict=True) if each == group]
        for group in sorted(set(groups))
    ]
    rows = torch.randint(len(own), (1000, len(own)), generator=torch.Generator().manual_seed(0))
    means = [np.mean(np.concatenate([own[i] for i in drawn])) for drawn in rows.tolist()]
    return np.quantile(means, [0.025, 0.975])


@pytest.mark.parametrize("across", [None, "plate"])
def test_queries_that_are_left_give_the_interval_over_their_groups(across):
    """Of twenty patients some lose a query, one loses all, and some samples have no class."""
    patient = torch.arange(120) // 6
    test = blobs(120)
    label, plate = test.metadata["label"].clone(), torch.arange(120) % 5 // 2
    label[:6] = torch.arange(90, 96)  # the only ones of their classes
    label[[10, 31, 32]] = torch.tensor([96, 97, 98])
    label[label == 4] = 98
    plate[label == 98] = 0  # of one plate alone, so that only another patient finds them
    label[[50, 51]] = -1
    test = Frozen(test.features, {"label": label, "plate": plate}, groups=patient)
    x, known = normalize(test.features.double(), dim=1), label >= 0
    hits, precision, groups = [], [], []
    for i in known.nonzero().flatten().tolist():
        right = known & (label == label[i]) & (torch.arange(120) != i)
        if across is not None:
            right &= plate != plate[i]
        if right.any():
            kept = right | (known & (label != label[i]))
            scores = (x @ x[i])[kept]
            precision.append(average_precision_score(right[kept], scores))
            hits.append(bool(right[kept][scores.argsort(descending=True)[:5]].any()))
            groups.append(int(patient[i]))
    assert len(set(groups)) == 19
    found = by_name(measured_by(Retrieval([5], across=across), test, test))
    for name, queries in (("recall_at_5", hits), ("map", precision)):
        each = found[f"retrieval{'' if across is None else '_across_plate'}/{name}"]
        assert each.samples == len(queries) < int(known.sum())
        assert each.value == pytest.approx(np.mean(queries), rel=1e-9)
        assert each.interval == pytest.approx(over_drawn_groups(queries, groups), rel=1e-9)


def test_queries_of_few_groups_have_no_interval():
    test = ACROSS["drawn"]
    patient = torch.arange(300) // 30
    label = torch.where(patient == 3, torch.arange(300) + 100, test.metadata["label"])
    test = Frozen(test.features, {"label": label}, groups=patient)
    with pytest.warns(UserWarning, match="of 9 groups: fewer than 10 give no interval"):
        found = measured_by(Retrieval(), test, test)
    assert {each.interval for each in found} == {None}


def test_what_cannot_be_retrieved_across_groups_is_named():
    test = ACROSS["drawn"]
    label = test.metadata["label"]
    apart = Frozen(test.features, {"label": label, "batch": label // 2})
    with pytest.raises(UndefinedMetric, match="has measured samples in two values of 'batch'"):
        Retrieval(across="batch")(apart, apart)
    with pytest.raises(ValueError, match="column and across must be two columns"):
        Retrieval(across="label")
    with pytest.raises(ValueError, match="negatives='same' needs across"):
        Retrieval(negatives="same")
