from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from support import oracle
from support.condition_splits import Split, fit
from torch.nn.functional import normalize

import ccl_plugins as ccl
from ccl_plugins.conditions import Attributes, Clusters, Column, Embedding, Instance
from ccl_plugins.conditions.kmeans import kmeans
from ccl_plugins.files import mapped
from ccl_plugins.files.arrays import read_npy
from ccl_plugins.training.tables import Tables

BACKENDS = [
    "sklearn",
    pytest.param(
        "faiss",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("faiss") is None, reason="faiss is not installed"
        ),
    ),
]


def blobs(k=4, each=10, d=3):
    generator = torch.Generator().manual_seed(0)
    centers = 10 * torch.randn(k, d, generator=generator)
    points = centers.repeat_interleave(each, 0)
    return points + 0.1 * torch.randn(points.shape, generator=generator)


def inertia(x, ids, centroids):
    return (x - centroids[ids]).square().sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_equals_the_stored_assignments(backend):
    case = oracle.case("kmeans_lloyd20")
    x = normalize(torch.tensor(case["inputs"]["x"]), dim=1)
    start = x[case["params"]["init_rows"]]
    ids, centroids = kmeans(
        x, len(start), start, iterations=case["params"]["niter"], backend=backend
    )
    assert ids.tolist() == case["extras"]["assignments"]
    expected = torch.tensor(case["expected_paper"])
    torch.testing.assert_close(inertia(x, ids, centroids), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_clusters_that_are_apart_are_found(backend):
    ids = fit_embedded(Clusters(4, backend=backend), blobs()).values.view(4, 10)
    assert (ids == ids[:, :1]).all()
    assert ids[:, 0].unique().numel() == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_centroids_of_a_sample_name_the_cluster_of_every_point(backend):
    points = blobs(each=200)
    condition = Clusters(4, backend=backend, samples=100)
    found = fit_embedded(condition, points)
    centroids, ids = found.extras["centroids_4"], found.values
    assert torch.equal(ids, torch.cdist(points, centroids).argmin(1))
    assert (ids.view(4, 200) == ids.view(4, 200)[:, :1]).all()
    assert found.extras["sizes_4"].tolist() == [200] * 4
    drawn = torch.randperm(800, generator=torch.Generator().manual_seed(0))[:100].sort().values
    expected = kmeans(points[drawn], 4, backend=backend)[1]
    torch.testing.assert_close(centroids, expected, rtol=0, atol=0)
    whole = fit_embedded(Clusters(4, backend=backend, samples=800), points)
    same = fit_embedded(Clusters(4, backend=backend), points)
    assert torch.equal(whole.extras["centroids_4"], same.extras["centroids_4"])
    with pytest.raises(ValueError, match="samples must be 4 or more, not 3"):
        Clusters(4, samples=3)
    with pytest.raises(ValueError, match=r"gpu must be .*'yes'"):
        Clusters(4, gpu="yes")


def test_points_in_a_file_are_clustered_as_those_in_memory(tmp_path, monkeypatch):
    points = blobs(each=50)
    expected = fit_embedded(Clusters(4, backend="sklearn", samples=60), points)
    monkeypatch.setattr(mapped, "LARGE", 0)
    monkeypatch.setattr(mapped, "BLOCK", 100)
    np.save(tmp_path / "x.npy", points.numpy())
    found = fit_embedded(Clusters(4, backend="sklearn", samples=60), read_npy(tmp_path / "x.npy"))
    assert torch.equal(found.values, expected.values)
    torch.testing.assert_close(dict(found.extras), dict(expected.extras), rtol=1e-6, atol=0)


def test_clusters_of_several_epochs_stay_as_they_are():
    condition = Clusters(3, warmup=1, every=2, backend="sklearn")
    points = blobs()
    tables, previous = [], None
    for epoch in range(6):
        previous = fit_embedded(condition, points * (1 + epoch), previous)
        tables.append(previous)
    assert [int(each.extras["fits"]) for each in tables] == [1, 2, 3, 4, 5, 6]
    assert tables[0].values.tolist() == list(range(40))
    for fitted, kept in ((1, 2), (3, 4)):
        assert torch.equal(tables[kept].extras["centroids_3"], tables[fitted].extras["centroids_3"])
        assert torch.equal(tables[kept].values, tables[fitted].values)
    scales = [tables[epoch].extras["centroids_3"].norm() for epoch in (1, 3, 5)]
    assert scales[0] < scales[1] < scales[2]


def fit_embedded(condition, points, previous=None):
    return condition.fit(Split(label=torch.zeros(len(points))), lambda: points, previous)


def test_an_epoch_starts_from_the_centroids_of_the_last():
    points = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    condition = Clusters(5, iterations=1, restarts=1, backend="sklearn")
    first = fit_embedded(condition, points)
    second = fit_embedded(condition, points, first)
    expected = kmeans(points, 5, first.extras["centroids_5"], iterations=1)
    torch.testing.assert_close((second.values, second.extras["centroids_5"]), expected)
    cold = Clusters(5, warm_start=False, iterations=1, restarts=1, backend="sklearn")
    torch.testing.assert_close(fit_embedded(cold, points, first).values, first.values)


def test_during_the_warm_up_every_sample_is_a_class_and_nothing_is_embedded():
    def refuse():
        raise AssertionError("embedded")

    tables = Tables({"z": Clusters(4, warmup=2)}, 40)
    for epoch in range(2):
        tables.refresh(epoch, Split(label=torch.zeros(40)), refuse)
        assert tables["z"].values.tolist() == list(range(40))
    tables.refresh(2, Split(label=torch.zeros(40)), blobs)
    assert tables["z"].values.unique().numel() == 4


def test_a_resumed_run_goes_on_in_its_warm_up():
    conditions = {"z": Clusters(4, warmup=2)}
    tables, again = Tables(conditions, 40), Tables(conditions, 40)
    tables.refresh(0, Split(label=torch.zeros(40)), blobs)
    again.load_state_dict(tables.state_dict())
    for epoch, values in ((1, 40), (2, 4)):
        again.refresh(epoch, Split(label=torch.zeros(40)), blobs)
        assert again["z"].values.unique().numel() == values


def test_several_k_give_a_class_id_and_centroids_for_each():
    table = fit_embedded(Clusters([4, 2]), blobs())
    assert table.values.shape == (40, 2)
    assert [column.unique().numel() for column in table.values.T] == [4, 2]
    assert {k: tuple(v.shape) for k, v in table.extras.items() if v.ndim} == {
        f"{name}_{k}": (k, 3) if name == "centroids" else (k,)
        for k in (4, 2)
        for name in ("centroids", "sizes", "distances")
    }


def test_the_sizes_and_mean_distances_of_clusters_are_those_of_their_samples():
    points = blobs()
    table = fit_embedded(Clusters([4, 7]), points)
    ids, extras = table.values, table.extras
    for column, k in enumerate((4, 7)):
        for cluster in range(k):
            members = points[ids[:, column] == cluster]
            assert extras[f"sizes_{k}"][cluster] == len(members)
            center = extras[f"centroids_{k}"][cluster]
            expected = torch.stack([(point - center).norm() for point in members]).mean()
            torch.testing.assert_close(extras[f"distances_{k}"][cluster], expected)


def test_samples_without_a_value_are_of_no_cluster_and_count_in_none():
    points = blobs()
    points[3] = torch.nan
    condition = Clusters(4, of=Column("place", value_type="continuous", missing="drop"))
    table = condition.fit(Split(place=points), None, None)
    assert (table.values == -1).nonzero().flatten().tolist() == [3]
    assert sorted(table.extras["sizes_4"].tolist()) == [9, 10, 10, 10]


def test_of_another_condition_they_are_found_once():
    points = blobs()
    condition = Clusters(4, of=Column("place", value_type="continuous"))
    assert condition.refresh == "never"
    ids = fit(condition, Split(place=points)).values
    torch.testing.assert_close(ids, fit_embedded(Clusters(4), points).values)


def test_samples_that_the_other_condition_lacks_have_no_cluster():
    columns = torch.tensor([[0, 1], [-1, 1], [1, 0], [0, 1]])
    condition = Clusters(2, of=Attributes(array=columns, missing="drop"))
    ids = fit(condition, Split(label=torch.zeros(4))).values
    assert ids[1] == -1
    assert ids[0] == ids[3] != ids[2]
    assert condition.missing == "drop"


def test_composes_by_name():
    condition = ccl.create(
        "condition", "clusters", k=3, of={"use": "column", "name": "h", "value_type": "continuous"}
    )
    assert isinstance(condition.of, Column)
    assert ccl.create("condition", "clusters", k=3).of == "embedding"


@pytest.mark.parametrize("backend", BACKENDS)
def test_fewer_different_points_than_clusters_are_told(backend):
    points = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    with pytest.warns(UserWarning, match="1 of 3 clusters are empty: .* 2 different"):
        ids, _ = kmeans(points, 3, backend=backend)
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_an_empty_cluster_is_filled():
    points = blobs()
    start = torch.cat([points[:1], points[:1], points[:1], torch.full((1, 3), 1e4)])
    ids, _ = kmeans(points, 4, start, backend="sklearn")
    assert ids.unique().numel() == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": []}, "not \\[\\]"),
        ({"k": [3, 3]}, "several different ones"),
        ({"k": 3, "of": "backbone"}, "of must be one of 'embedding'"),
        ({"k": 3, "of": Embedding()}, "computed in every step"),
        ({"k": 3, "of": Instance()}, "Instance has class ids"),
        ({"k": 3, "of": Column("h", value_type="continuous"), "warmup": 2}, "warmup must be 0"),
    ],
)
def test_what_cannot_be_clustered_is_refused_at_once(given, message):
    with pytest.raises(ValueError, match=message):
        Clusters(**given)


def test_more_clusters_than_samples_and_infinite_points_are_refused():
    with pytest.raises(ValueError, match="k=41 clusters cannot be made of 40 samples"):
        fit_embedded(Clusters(41), blobs())
    with pytest.raises(ValueError, match=r"row 2 \(from 0\) has others"):
        kmeans(torch.tensor([[0.0], [1.0], [float("inf")]]), 2)


def test_a_missing_faiss_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"ccl-plugins\[faiss\]"):
        kmeans(blobs(), 2, backend="faiss")


def test_clusters_of_keys_need_a_momentum_encoder():
    given = {"dataset": "color_digits", "backbone": "lenet5", "objective": "cl_infonce"}
    with pytest.raises(
        ValueError, match=r"'condition', Clusters.*keys.*simclr has none: use method moco"
    ):
        ccl.Pipeline(**given, condition={"use": "clusters", "k": 4, "of": "key"})
    moco = {"use": "moco_v2", "queue_size": 512}
    ccl.Pipeline(**given, method=moco, condition={"use": "clusters", "k": 4, "of": "key"})
    for method, of in (("moco_v3", "key"), ("simclr", "embedding")):
        ccl.Pipeline(**given, method=method, condition={"use": "clusters", "k": 4, "of": of})
