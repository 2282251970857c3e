"""Agreement of clusters with classes equals scikit-learn's, and an assignment found by trying all."""

from __future__ import annotations

import itertools

import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from support.measured import by_name, values
from torch.nn.functional import normalize, one_hot

from ccl_plugins.evaluators import Clustering, intervals
from ccl_plugins.evaluators.clustering import adjusted_rand, matched, normalized_information
from ccl_plugins.protocols import Frozen, UndefinedMetric


def blobs(n=120, seed=0):
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 4
    x = torch.randn(n, 6, generator=generator) + 2 * one_hot(label, 6)
    return Frozen(x, {"label": 3 * label, "digit": label})


def clusters(train, test, k=4):
    model = KMeans(k, n_init=10, random_state=0)
    model.fit(normalize(train.features.double(), dim=1).numpy())
    return torch.from_numpy(model.predict(normalize(test.features.double(), dim=1).numpy())).long()


@pytest.mark.parametrize("k", [3, 4, 6])
def test_the_metrics_are_those_of_scikit_learn(k):
    train, test = blobs(200), blobs(seed=1)
    found, given = values(Clustering(k=k)(train, test)), clusters(train, test, k)
    y = test.metadata["digit"]
    assert found["clustering/nmi"] == pytest.approx(normalized_mutual_info_score(y, given))
    assert found["clustering/ari"] == pytest.approx(adjusted_rand_score(y, given))
    columns = [*range(4), *[-1] * max(0, k - 4)]
    best = max(
        (torch.tensor(order)[given] == y).double().mean().item()
        for order in itertools.permutations(columns, k)
    )
    assert found["clustering/accuracy"] == pytest.approx(best)


def test_the_intervals_are_those_of_a_loop_over_draws(monkeypatch):
    monkeypatch.setattr(intervals, "DRAWS", 100)
    train, test = blobs(200), blobs(60, seed=1)
    found, given = by_name(Clustering()(train, test)), clusters(train, test)
    y = test.metadata["digit"]
    rows = torch.randint(60, (100, 60), generator=torch.Generator().manual_seed(0))
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    for name, metric in (("nmi", normalized_mutual_info_score), ("ari", adjusted_rand_score)):
        drawn = torch.tensor([metric(y[r], given[r]) for r in rows], dtype=torch.float64)
        drawn += (
            metric(y, given) - drawn.mean()
        )  # draws repeat samples, which agree with themselves
        assert [*found[f"clustering/{name}"].interval] == pytest.approx(
            drawn.quantile(ends).tolist()
        )


def test_tables_of_clusters_and_classes_have_their_known_values():
    perfect = torch.diag(torch.tensor([5.0, 7.0, 9.0]).double())
    independent = torch.full((3, 3), 4.0).double()
    tables = torch.stack([perfect, independent])
    torch.testing.assert_close(normalized_information(tables), torch.tensor([1.0, 0.0]).double())
    assert adjusted_rand(tables)[0] == 1
    assert adjusted_rand(tables)[1] < 0
    assert matched(torch.tensor([[1.0, 9.0], [8.0, 9.0], [0.0, 0.0]])).tolist() == [1, 0, -1]


def test_clusters_are_found_without_classes_and_for_another_column():
    train, test = blobs(200), blobs(seed=1)
    other = Frozen(train.features, {"label": train.metadata["label"].flip(0)})
    assert values(Clustering()(train, test)) == values(Clustering()(other, test))
    assert set(values(Clustering(column="digit")(train, test))) == {
        f"clustering-digit/{name}" for name in ("accuracy", "nmi", "ari")
    }
    assert values(Clustering(split="train")(train, test)) == values(Clustering()(train, train))
    assert values(Clustering(unit=False)(train, test)) != values(Clustering()(train, test))


def test_what_has_no_clusters_is_named():
    train, test = blobs(200), blobs(seed=1)
    one = Frozen(test.features, {"label": torch.full((120,), 3)})
    with pytest.raises(
        UndefinedMetric, match=r"'label' has the same value, 3, .* clusters is undefined"
    ):
        Clustering()(train, one)
    with pytest.raises(ValueError, match="k=500 clusters cannot be made of 200 training samples"):
        Clustering(k=500)(train, test)
    with pytest.raises(ValueError, match="k=1 clusters"):
        Clustering()(one, test)
    collapsed = Frozen(torch.ones(120, 4), test.metadata)
    found = values(Clustering()(collapsed, collapsed))
    assert found["clustering/accuracy"] == 0.25
    assert found["clustering/nmi"] == found["clustering/ari"] == 0
