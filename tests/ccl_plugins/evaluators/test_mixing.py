"""How groups are mixed is what scib-metrics, scikit-learn and a slow loop say."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from sklearn.metrics import silhouette_samples
from support.measured import by_name, values
from support.mixing_peers import NEIGHBORS, RECORD, cases

from ccl_plugins.evaluators import Mixing
from ccl_plugins.evaluators.intervals import over_groups
from ccl_plugins.protocols import Frozen, UndefinedMetric

PEERS = json.loads(RECORD.read_text("utf-8"))["numbers"]
CASES = cases()


def frozen(x, **columns):
    return Frozen(torch.as_tensor(x), {n: torch.as_tensor(ids) for n, ids in columns.items()})


def of_case(name):
    case = CASES[name]
    return frozen(case["x"], label=case["label"], batch=case["batch"])


def measured(data, *args, **kwargs):
    return by_name(Mixing(*args, **kwargs)(data, data))


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_scib_metrics_and_scikit_learn(name):
    data, peers = of_case(name), PEERS[name]
    found = measured(data, "batch", "label", k=NEIGHBORS[name])
    for key in ("ilisi", "kbet", "silhouette_batch", "clisi", "silhouette_label"):
        assert found[f"mixing-batch/{key}"].value == pytest.approx(peers[key], abs=1e-6)
    width = 2 * found["mixing-batch/silhouette_label"].value - 1
    assert width == pytest.approx(peers["silhouette_score"], abs=1e-6)


def slowly(x, group, label, k):
    """The same numbers, one sample after the other."""
    n, groups, labels = len(x), np.unique(group), np.unique(label)
    index = {"ilisi": [], "clisi": []}
    rejected, widths = [], []
    for i in range(n):
        away = [math.dist(x[i], x[j]) for j in range(n)]
        near = sorted(range(n), key=lambda j: (j != i, away[j]))[:k]
        low, high, others = 1e-9, 1e9, near[1:]
        for _ in range(200):  # entropy falls with b
            b = math.sqrt(low * high)
            weights = np.exp([-b * (away[j] - away[others[0]]) for j in others])
            p = weights / weights.sum()
            entropy = -(p * np.log(np.maximum(p, 1e-300))).sum()
            low, high = (b, high) if entropy > math.log(k // 3) else (low, b)
        for key, ids in (("ilisi", group), ("clisi", label)):
            simpson = sum(p[ids[others] == each].sum() ** 2 for each in np.unique(ids))
            scaled = (1 / simpson - 1) / (len(np.unique(ids)) - 1)
            index[key].append(scaled if key == "ilisi" else 1 - scaled)
        expected = [k * (group == each).mean() for each in groups]
        seen = [(group[near] == each).sum() for each in groups]
        statistic = sum((s - e) ** 2 / e for s, e in zip(seen, expected, strict=True))
        rejected.append(chi2.sf(statistic, len(groups) - 1) < 0.05)
    for each in labels:
        rows = label == each
        if 1 < len(np.unique(group[rows])) < rows.sum():
            widths.append(np.mean(1 - np.abs(silhouette_samples(x[rows], group[rows]))))
    return {
        "mixing-batch/ilisi": np.median(index["ilisi"]),
        "mixing-batch/kbet": np.mean(rejected),
        "mixing-batch/silhouette_batch": np.mean(widths),
        "mixing-batch/clisi": np.median(index["clisi"]),
        "mixing-batch/silhouette_label": (1 + silhouette_samples(x, label).mean()) / 2,
    }


@pytest.mark.parametrize("name", ["drawn", "uneven"])
def test_numbers_are_those_of_a_slow_loop(name):
    case, k = CASES[name], NEIGHBORS[name]
    found = values(measured(of_case(name), "batch", "label", k=k).values())
    # The perplexity of peers is within 1e-5 of the one that is asked for.
    assert found == pytest.approx(slowly(case["x"], case["batch"], case["label"], k), abs=1e-5)


def test_blocks_of_any_size_give_the_same(monkeypatch):
    whole = measured(of_case("uneven"), "batch", "label", k=24)
    monkeypatch.setattr("ccl_plugins.evaluators.mixing.NUMBERS", 700)
    parts = measured(of_case("uneven"), "batch", "label", k=24)
    assert values(parts.values()) == pytest.approx(values(whole.values()))


def test_measurements_say_what_they_are():
    found = measured(of_case("drawn"), "batch", "label", k=30)
    told = {name: (each.column, each.direction) for name, each in found.items()}
    assert told == {
        "mixing-batch/ilisi": ("batch", "lower"),
        "mixing-batch/kbet": ("batch", "higher"),
        "mixing-batch/silhouette_batch": ("batch", "lower"),
        "mixing-batch/clisi": ("label", "higher"),
        "mixing-batch/silhouette_label": ("label", "higher"),
    }
    assert all(each.interval[0] < each.value < each.interval[1] for each in found.values())
    assert "30 nearest" in found["mixing-batch/ilisi"].sentence
    few = "1 of 3 values are expected fewer than 5 times"
    assert few in found["mixing-batch/kbet"].sentence
    assert [*measured(of_case("drawn"), "batch")] == ["mixing-batch/ilisi", "mixing-batch/kbet"]


def test_what_says_nothing_meets_its_chance():
    draw = torch.Generator().manual_seed(0)
    batch = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), 2000, True, generator=draw)
    label = torch.randint(5, (2000,), generator=draw)
    data = frozen(torch.randn(2000, 6, generator=draw), batch=batch, label=label)
    found = measured(data, "batch", "label")
    for each in found.values():
        if each.chance is not None:
            assert each.value == pytest.approx(each.chance, abs=0.03)
    assert found["mixing-batch/ilisi"].chance < 0.5  # of 1, which groups of equal sizes would have


def test_the_order_of_equal_rows_says_nothing():
    batch, label = torch.arange(120) % 3, torch.arange(120) // 60
    for x in (
        torch.ones(120, 4) / 3,
        torch.arange(120).div(8, rounding_mode="floor")[:, None] / 3.0,
    ):
        order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
        data = frozen(x, batch=batch, label=label)
        found, shuffled = (
            measured(each, "batch", "label", k=31) for each in (data, data.take(order))
        )
        assert values(shuffled.values()) == pytest.approx(values(found.values()), abs=1e-9)
        assert found["mixing-batch/kbet"].value == 0
        assert found["mixing-batch/ilisi"].value > 0.9
    collapsed = measured(frozen(torch.ones(120, 4), batch=batch, label=label), "batch", "label")
    assert collapsed["mixing-batch/silhouette_label"].value == 0.5
    assert collapsed["mixing-batch/silhouette_batch"].value == 1


def test_groups_apart_are_found():
    batch = torch.arange(200) % 2
    data = frozen(torch.randn(200, 3) + 1000 * batch[:, None], batch=batch, label=batch // 2)
    found = values(measured(data, "batch", k=60).values())
    assert found == {"mixing-batch/ilisi": pytest.approx(0), "mixing-batch/kbet": 1.0}


def test_silhouettes_miss_groups_that_lie_in_several_places_each():
    batch, place = torch.arange(400) % 2, torch.arange(400) // 2 % 2
    at = torch.stack([20.0 * place, 2.0 * batch, torch.zeros(400)], 1)
    x = at + 0.1 * torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    label = torch.zeros(400, dtype=torch.long)
    label[:8] = 1
    found = values(measured(frozen(x, batch=batch, label=label), "batch", "label").values())
    assert found["mixing-batch/silhouette_batch"] > 0.8
    assert found["mixing-batch/ilisi"] < 1e-6
    assert found["mixing-batch/kbet"] == 1


def test_half_of_the_samples_are_the_most_neighbors():
    found = measured(of_case("drawn").take(torch.arange(60)), "batch")
    assert "30 nearest" in found["mixing-batch/kbet"].sentence
    assert found == measured(of_case("drawn").take(torch.arange(60)), "batch", k=30)


def test_samples_without_a_group_or_a_class_are_left_out():
    data = of_case("drawn")
    lacking = {name: ids.clone() for name, ids in data.metadata.items()}
    lacking["batch"][:20], lacking["label"][-20:] = -1, -1
    rest = data.take(torch.arange(20, 280))
    lacking = Frozen(data.features, lacking)
    assert measured(lacking, "batch", "label") == measured(rest, "batch", "label")


def test_intervals_are_over_groups_that_belong_together():
    data = of_case("uneven")
    with over_groups(torch.arange(120) // 4):
        found = measured(data, "batch", "label", k=24)
    assert all(each.interval for each in found.values())
    assert found["mixing-batch/silhouette_batch"].samples < 120


def test_a_label_in_one_group_alone_has_no_silhouette_of_groups():
    data = of_case("drawn")
    apart = Frozen(data.features, {**data.metadata, "batch": data.metadata["label"] // 2})
    with pytest.warns(UserWarning, match="no class of column 'label' has samples in two groups"):
        found = measured(apart, "batch", "label")
    assert "mixing-batch/silhouette_batch" not in found
    assert len(found) == 4


def test_what_cannot_be_measured_is_named():
    data = of_case("drawn")
    one = Frozen(data.features, {**data.metadata, "plate": torch.zeros(300, dtype=torch.long)})
    with pytest.raises(
        UndefinedMetric, match=r"'plate' has the same value, 0, .* mixing is undefined"
    ):
        measured(one, "plate")
    with pytest.raises(
        UndefinedMetric, match=r"'batch' has 11 measured samples: .* need 12 or more"
    ):
        measured(data.take(torch.arange(11)), "batch")
    with pytest.raises(ValueError, match="column and label must be two columns, not 'batch' twice"):
        Mixing("batch", "batch")
    with pytest.raises(ValueError, match="k must be"):
        Mixing("batch", k=5)
