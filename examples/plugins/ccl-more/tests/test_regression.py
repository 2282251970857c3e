"""ACCon and SupReMix are the loops that their equations spell out."""

import math

import pytest
import torch
from ccl_plugins.pairs import Pairs, Samples
from ccl_plugins.protocols import Sizes, Table
from torch.nn.functional import normalize

from ccl_more import ACCon, SupReMix

HEIGHT = torch.tensor([0.3, 1.0, 0.5, 0.3, -0.2, 1.4, 0.7, 0.6, 0.3, 1.2], dtype=torch.float64)
TAU, SPAN = 0.3, 2.0


def candidates(views, queue=()):
    """Anchors (embedding, sample, view) and for each its keys (embedding, sample)."""
    unit, n = [normalize(view, dim=1) for view in views], len(views[0])
    anchors = [(x[i], i, v) for v, x in enumerate(unit) for i in range(n)]
    for x, i, v in anchors:
        keys = [(y, j) for y, j, w in anchors if (j, w) != (i, v)]
        yield x, i, keys + [(key, n + j) for j, key in enumerate(queue)]


def slow_accon(views, z, queue=(), same=0.0):
    losses = []
    for x, i, keys in candidates(views, queue):
        distances = [float((z[i] - z[j]).norm()) for _, j in keys]
        total, own = 0.0, []
        for (y, _), distance in zip(keys, distances, strict=True):
            if distance <= same:
                own.append(x @ y / TAU)
                total = total + (x @ y / TAU).exp()
            else:
                angle = (x @ y).acos() + math.pi * (1 - min(distance / SPAN, 1.0))
                total = total + (angle.cos() / TAU).exp()
        losses.append(-sum(s - total.log() for s in own) / len(own))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("same", [0.0, 0.25])
@pytest.mark.parametrize(
    "z", [HEIGHT, torch.stack([HEIGHT, HEIGHT.flip(0)], 1)], ids=["one", "two columns"]
)
def test_accon_compensates_the_angle(views, agree, queued, queue, z, same):
    objective, vectors = ACCon(TAU, span=SPAN, same=same), z.reshape(10, -1)
    agree(objective, lambda *views: slow_accon(views, vectors, same=same), views, condition=z[:7])
    agree(
        objective,
        lambda *views: slow_accon(views, vectors, queue[:2], same),
        views,
        call=lambda module, *views: queued(module, *views, condition=z),
    )


def test_accon_has_the_largest_distance_of_the_table_and_keeps_it_in_a_checkpoint(views):
    objective = ACCon(TAU)
    with pytest.raises(ValueError, match="largest distance of two values of condition: give span="):
        objective(*views, condition=HEIGHT[:7])
    lost = torch.cat([HEIGHT, torch.tensor([torch.nan])])
    objective.setup({"condition": Table(lost)}, Sizes(11, 5, 5, 1))
    torch.testing.assert_close(objective.largest.item(), 1.6)
    loaded = ACCon(TAU)
    loaded.load_state_dict(objective.state_dict())
    expected = ACCon(TAU, span=1.6).double()(*views, condition=HEIGHT[:7])
    torch.testing.assert_close(loaded(*views, condition=HEIGHT[:7]), expected)


def test_the_loss_of_accon_is_least_at_angles_in_proportion_to_distances():
    """Two values: the loss of a negative falls until its angle is ``π |z - z'| / D``."""
    losses = []
    angles = torch.linspace(0.05, math.pi - 0.05, 60)
    for angle in angles:
        x = torch.tensor([[1.0, 0.0], [angle.cos(), angle.sin()]], dtype=torch.float64)
        losses.append(ACCon(TAU, span=2.0)(x, x, condition=torch.tensor([0.0, 0.8])))
    best = angles[int(torch.stack(losses).argmin())]
    torch.testing.assert_close(float(best), 0.4 * math.pi, rtol=0, atol=0.06)


def test_accon_is_finite_at_equal_and_opposite_embeddings():
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]).requires_grad_()
    loss = ACCon(TAU, span=2.0)(x, x, condition=torch.tensor([0.0, 1.0, 2.0]))
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()


def slow_supremix(views, z, queue=(), share=0.2, window=0.6, magnify=1.5):
    """All mixtures of two keys of the batch are formed, one at a time."""
    losses, n, z = [], len(views[0]), z.tolist()
    for x, i, keys in candidates(views, queue):
        total, positives = 0.0, []
        for y, j in keys:
            distance = abs(z[i] - z[j])
            weight = 1 + magnify * distance
            total = total + weight * (x @ y / TAU).exp()
            if distance == 0:
                positives.append(x @ y / TAU)
            elif share is not None:
                mixture, value = share * x + (1 - share) * y, share * z[i] + (1 - share) * z[j]
                weight = 1 + magnify * abs(z[i] - value)
                total = total + weight * (x @ mixture / TAU).exp()
        for y, j in keys if window is not None else ():
            for w, k in keys:
                inside = j < n and k < n and z[i] - window < z[j] < z[i] < z[k] < z[i] + window
                if inside:
                    mu = (z[k] - z[i]) / (z[k] - z[j])
                    positives.append(x @ (mu * y + (1 - mu) * w) / TAU)
        losses.append(-sum(s - total.log() for s in positives) / len(positives))
    return sum(losses) / len(losses)


SETTINGS = [{}, {"share": None}, {"share": 0.0}, {"window": None}, {"window": 2.0, "magnify": 0.0}]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_supremix_is_the_mean_over_all_mixtures(views, agree, queued, queue, setting):
    params = {"share": 0.2, "window": 0.6, "magnify": 1.5} | setting
    objective = SupReMix(TAU, **params)
    agree(
        objective,
        lambda *views: slow_supremix(views, HEIGHT, **params),
        views,
        condition=HEIGHT[:7],
    )
    agree(
        objective,
        lambda *views: slow_supremix(views, HEIGHT, queue[:2], **params),
        views,
        call=lambda module, *views: queued(module, *views, condition=HEIGHT),
    )


def test_supremix_makes_no_tensor_of_all_mixtures(largest):
    n = 60
    views = torch.randn(2, n, 4).requires_grad_()
    with largest:
        SupReMix()(*views, condition=torch.randn(n)).backward()
    assert 2 * n * n <= largest.numbers <= 6 * n * n


def test_supremix_refuses_values_without_an_order(views):
    with pytest.raises(
        ValueError, match="condition must be one number per sample, not 2: they have no order"
    ):
        SupReMix()(*views, condition=HEIGHT[:7, None].repeat(1, 2))


@pytest.mark.parametrize(
    "build", [lambda: ACCon(TAU, span=SPAN), lambda: SupReMix(TAU, window=None)]
)
def test_masks_say_who_is_a_positive(views, build):
    """Masks that hold what the values say give the same loss; samples in no mask are left out."""
    unit, z = normalize(torch.stack(views), dim=-1), {"condition": HEIGHT[:7]}
    alike = HEIGHT[:7, None] == HEIGHT[:7]
    objective = build().double()
    expected = objective(*views, **z)
    torch.testing.assert_close(
        objective.loss(Pairs.from_masks(unit, alike, samples=Samples(z))), expected
    )
    only = ~alike & (torch.arange(7) < 4)
    found = objective.loss(Pairs.from_masks(unit, alike & (torch.arange(7) < 4), only, Samples(z)))
    assert not torch.allclose(found, expected)
