"""Distance correlation and HSIC equal loops over pairs of samples, written from the papers."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from support.measured import by_name, values

from ccl_plugins.evaluators import Dependence, intervals
from ccl_plugins.evaluators.dependence import distance_correlation, distances, gaussian, hsic
from ccl_plugins.protocols import Frozen, UndefinedMetric


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def dcor_by_loops(x, z):
    """Definition 4 of Székely, Rizzo and Bakirov, entry by entry."""
    n = len(x)

    def entries(points):
        far = [[math.dist(p, q) for q in points.tolist()] for p in points.tolist()]
        rows = [sum(row) / n for row in far]
        columns = [sum(row[j] for row in far) / n for j in range(n)]
        whole = sum(rows) / n
        return [[far[i][j] - rows[i] - columns[j] + whole for j in range(n)] for i in range(n)]

    def product(a, b):
        return sum(a[i][j] * b[i][j] for i, j in itertools.product(range(n), repeat=2)) / n**2

    a, b = entries(x), entries(z)
    return math.sqrt(product(a, b) / math.sqrt(product(a, a) * product(b, b)))


def hsic_by_loops(k, l):  # noqa: E741 - the letters of the paper
    """Gretton et al.'s equation 9 with the centering matrix written out."""
    n = len(k)
    h = torch.eye(n, dtype=torch.float64) - 1 / n
    return torch.trace(k @ h @ l @ h).item() / (n - 1) ** 2


def test_distance_correlation_is_that_of_its_definition():
    x = normal(20, 4)
    z = torch.stack([x[:, 0].square(), normal(20, seed=1)], 1)
    found = values(Dependence("z")(Frozen(x, {"z": z}), Frozen(x, {"z": z})))
    assert found["dependence-z/dcor"] == pytest.approx(dcor_by_loops(x.double(), z.double()))
    ids = torch.arange(20) % 3
    one_hot = torch.nn.functional.one_hot(ids).double()
    found = values(Dependence("z")(Frozen(x, {"z": ids}), Frozen(x, {"z": 7 - 2 * ids})))
    assert found["dependence-z/dcor"] == pytest.approx(dcor_by_loops(x.double(), one_hot))


def test_hsic_is_that_of_its_definition():
    x, z = normal(20, 4), normal(20, 2, seed=1)

    def kernel(points):
        far = torch.tensor([[math.dist(p, q) for q in points.tolist()] for p in points.tolist()])
        width = sorted(far[far > 0].tolist())[(20 * 19 - 1) // 2]
        return torch.exp(-(far.double() ** 2) / (2 * width**2))

    data = Frozen(x, {"z": z, "ids": torch.arange(20) % 3})
    found = values(Dependence("z")(data, data))["dependence-z/hsic"]
    assert found == pytest.approx(hsic_by_loops(kernel(x.double()), kernel(z.double())), rel=1e-6)
    same = (data.metadata["ids"][:, None] == data.metadata["ids"]).double()
    found = values(Dependence("ids")(data, data))["dependence-ids/hsic"]
    assert found == pytest.approx(hsic_by_loops(kernel(x.double()), same), rel=1e-6)


def test_the_chance_level_is_the_mean_of_shuffled_columns():
    x, z = normal(200, 30), normal(200, 3, seed=1)
    found = by_name(Dependence("z")(Frozen(x, {}), Frozen(x, {"z": z})))
    # On so few samples independent values have a high distance correlation.
    assert found["dependence-z/dcor"].value > 0.3
    for each in found.values():
        assert each.value == pytest.approx(each.chance, rel=0.1)
    for each in Dependence("z")(Frozen(x, {}), Frozen(x, {"z": x[:, :10]})):
        assert each.value > 1.1 * each.chance


def test_a_dependent_column_is_told_from_an_independent_one_without_a_linear_relation():
    angle = 6.28 * torch.rand(300, generator=torch.Generator().manual_seed(0))
    x = torch.stack([angle.cos(), angle.sin()], 1)
    z = (2 * angle).cos()  # uncorrelated with x
    assert (x * z[:, None]).mean(0).abs().max() < 0.1
    dcor, _ = Dependence("z")(Frozen(x, {}), Frozen(x, {"z": z}))
    assert dcor.value > 2 * dcor.chance


def test_equal_and_scaled_variables_have_a_distance_correlation_of_one():
    x, once = normal(50, 4).double(), torch.ones(1, 50).double()
    same = distance_correlation(distances(x), distances(3 * x + 1))
    assert same(once).item() == pytest.approx(1)
    assert hsic(gaussian(distances(x)), gaussian(distances(x)))(once) > 0


def test_the_intervals_are_those_of_repeated_samples_less_what_repeating_adds(monkeypatch):
    monkeypatch.setattr(intervals, "DRAWS", 40)
    x = normal(30, 4).double()
    z = x[:, :1] + normal(30, 1, seed=1)
    found, _ = Dependence("z")(Frozen(x, {}), Frozen(x, {"z": z}))
    rows = torch.randint(30, (40, 30), generator=torch.Generator().manual_seed(0))
    drawn = torch.tensor([dcor_by_loops(x[r], z.double()[r]) for r in rows], dtype=torch.float64)
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    moved = drawn - drawn.mean() + found.value
    assert drawn.mean() > found.value
    assert [*found.interval] == pytest.approx(moved.quantile(ends).tolist(), rel=1e-6)


def test_collapsed_features_depend_on_nothing():
    x = torch.ones(30, 4)
    found = values(Dependence("z")(Frozen(x, {}), Frozen(x, {"z": normal(30)})))
    assert max(found.values()) < 1e-12
    assert found["dependence-z/dcor"] == 0


def test_large_splits_are_measured_on_a_fixed_part():
    x, z = normal(300, 4), normal(300, 2, seed=1)
    whole, part = (
        values(Dependence("z", samples=n)(Frozen(x, {}), Frozen(x, {"z": z}))) for n in (300, 50)
    )
    assert whole != part
    assert part == values(Dependence("z", samples=50)(Frozen(x, {}), Frozen(x, {"z": z})))
    train = values(Dependence("z", samples=50, split="train")(Frozen(x, {"z": z}), Frozen(x, {})))
    assert part == train


def test_a_constant_or_missing_column_and_too_few_samples_are_named():
    x = normal(30, 4)
    for constant in (torch.full((30,), 2), torch.full((30, 2), 0.5)):
        with pytest.raises(UndefinedMetric, match=r"column 'z' has the same value, .* dependence"):
            Dependence("z")(Frozen(x, {}), Frozen(x, {"z": constant}))
    with pytest.raises(ValueError, match="no column 'y'; it has z"):
        Dependence("y")(Frozen(x, {}), Frozen(x, {"z": x}))
    with pytest.raises(ValueError, match="four samples or more, there are 3"):
        Dependence("z")(Frozen(x, {}), Frozen(x[:3], {"z": x[:3]}))
