"""ProtoNCE keeps the laws of an objective, and equals a loop written from the paper."""

import math
import re
import runpy
from pathlib import Path

import ccl_plugins as ccl
import pytest
import torch
from ccl_plugins.conditions import Clusters
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.testing import equals, parametrize_with_checks
from torch.nn.functional import normalize

from ccl_prototypes import ProtoNCE
from ccl_prototypes.concentration import concentration

ROOT = Path(__file__).parent.parent


@parametrize_with_checks("ccl-prototypes")
def test_conformance(check):
    check()


def table(k, warmup=0):
    """Clusters of 40 points, as training finds them."""
    torch.manual_seed(0)
    points = normalize(torch.randn(40, 4), dim=1)
    fitted = Clusters(k, warmup=warmup).fit(points, lambda: points, None)
    extras = {name: x.double() if x.is_floating_point() else x for name, x in fitted.extras.items()}
    return points, fitted.values, {f"condition/{name}": x for name, x in extras.items()}


def slow_phi(points, ids, centroids, alpha, temperature):
    """Eq. (12), and what the paper leaves open."""
    phi = []
    for cluster, center in enumerate(centroids):
        members = [p for p, each in zip(points, ids.tolist(), strict=True) if each == cluster]
        total = sum(float((p - center).norm()) for p in members)
        z = len(members)
        phi.append(total / (z * math.log(z + alpha)) if z > 1 else None)
    largest = max(each for each in phi if each is not None)
    phi = torch.tensor([largest if each is None else each for each in phi], dtype=torch.float64)
    in_order = phi.sort().values

    def percentile(q):
        place = q * (len(phi) - 1)
        low = int(place)
        above = in_order[min(low + 1, len(phi) - 1)]
        return in_order[low] + (place - low) * (above - in_order[low])

    phi = phi.clamp(percentile(0.1), percentile(0.9))
    return temperature * phi / phi.mean()


def slow(x, y, ids, levels, t, weight):
    """Eq. (11) over both directions; levels: centroids and φ of each clustering."""
    x, y = normalize(x, dim=1), normalize(y, dim=1)
    total = 0.0
    for v, w in ((x, y), (y, x)):
        for i in range(len(v)):
            below = sum(torch.exp(v[i] @ w[j] / t) for j in range(len(v)))
            total = total - torch.log(torch.exp(v[i] @ w[i] / t) / below)
            for m, (centroids, phi) in enumerate(levels):
                c = [each / each.norm() for each in centroids]
                shares = [torch.exp(v[i] @ c[j] / phi[j]) for j in range(len(c))]
                share = shares[ids[i, m]] / sum(shares)
                total = total - weight * torch.log(share) / len(levels)
    return total / (2 * len(x))


def test_concentration_is_the_loop_it_was_written_from():
    points, ids, extras = table([5, 24])  # of 24 clusters of 40 points many have one
    for column, k in enumerate((5, 24)):
        centroids = extras[f"condition/centroids_{k}"]
        found = concentration(
            extras[f"condition/distances_{k}"], extras[f"condition/sizes_{k}"], 10.0, 0.2
        )
        expected = slow_phi(points.double(), ids[:, column], centroids, 10.0, 0.2)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)  # distances are float32


def test_clusters_that_are_points_all_have_the_temperature():
    found = concentration(torch.zeros(3), torch.tensor([1, 5, 0]), 10.0, 0.2)
    torch.testing.assert_close(found, torch.full((3,), 0.2))


def test_it_is_the_loop_it_was_written_from():
    _, ids, extras = table([5, 24])
    ids = ids[:7]
    levels = [
        (
            extras[f"condition/centroids_{k}"],
            concentration(
                extras[f"condition/distances_{k}"], extras[f"condition/sizes_{k}"], 10.0, 0.2
            ),
        )
        for k in (5, 24)
    ]
    torch.manual_seed(1)
    views = tuple(torch.randn(2, 7, 4, dtype=torch.float64))
    objective = ProtoNCE([5, 24], 0.2, weight=0.7)
    equals(
        lambda x, y: objective(x, y, condition=ids, extras=extras),
        lambda x, y: slow(x, y, ids, levels, 0.2, 0.7),
        views,
        tolerance=1e-9,
    )


def test_as_many_drawn_negatives_as_there_are_prototypes_are_all():
    _, ids, extras = table(6)
    x, y = torch.randn(2, 8, 4, dtype=torch.float64)
    given = {"condition": ids[:8], "extras": extras}
    every = ProtoNCE(6)(x, y, **given)
    torch.testing.assert_close(ProtoNCE(6, negatives=6)(x, y, **given), every)
    torch.testing.assert_close(ProtoNCE(6, negatives=99)(x, y, **given), every)
    assert ProtoNCE(6, negatives=2)(x, y, **given) < every


def test_before_there_are_centroids_it_is_infonce():
    _, ids, extras = table(6, warmup=1)
    x, y = torch.randn(2, 8, 4)
    found = ProtoNCE(6)(x, y, condition=ids[:8], extras=extras)
    torch.testing.assert_close(found, InfoNCE()(x, y))


def test_what_does_not_go_together_is_said():
    _, ids, extras = table([5, 6])
    x, y = torch.randn(2, 8, 4)
    with pytest.raises(ValueError, match=r"which has none: use clusters\(k=\[6\]\)"):
        ProtoNCE(6)(x, y, condition=ids[:8, 1])
    with pytest.raises(ValueError, match=r"k=\[7\].*give both the same k"):
        ProtoNCE(7)(x, y, condition=ids[:8], extras=extras)
    with pytest.raises(ValueError, match=r"needs 1 clusterings, and 'condition' has 2 columns"):
        ProtoNCE(6)(x, y, condition=ids[:8], extras=extras)
    with pytest.raises(ValueError, match=r"have 4 columns and embeddings 3: prototypes are"):
        ProtoNCE([5, 6])(x[:, :3], y[:, :3], condition=ids[:8], extras=extras)


def test_the_example_trains_and_its_prototypes_count(tmp_path):
    pipeline = ccl.Pipeline.from_toml(ROOT / "example.toml")
    record = pipeline.to_dict()
    record["conditions"]["condition"]["warmup"] = 1
    pipeline = ccl.Pipeline.from_dict(record).with_settings(epochs=2)
    run = pipeline.fit(out=tmp_path / "run", progress=False)
    assert 0 < run.evaluate()["linear/top1"] <= 1


def test_the_readme_is_true(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "readme.py").write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(tmp_path / "readme.py"))
    assert names["loss"].isfinite()
    names["pipeline"].build()
