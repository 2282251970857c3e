"""SwAV equals a loop written from the paper, and lightly's loss where the two agree."""

import math
from dataclasses import replace

import ccl_plugins as ccl
import pytest
import torch
from ccl_plugins.methods import FeatureQueue, SimCLR
from ccl_plugins.numerics import sinkhorn
from ccl_plugins.pairs import Pairs, Samples, in_batch, with_keys
from ccl_plugins.protocols import Sizes
from ccl_plugins.testing import equals
from lightly.loss import SwaVLoss
from lightly.loss.swav_loss import sinkhorn as lightlys_sinkhorn
from torch.nn.functional import normalize

from ccl_prototypes import SwAV


def made(dtype=torch.float64, **given):
    torch.manual_seed(0)
    return SwAV(**{"k": 6, "dim": 5, **given}).to(dtype)


def embeddings(count, dtype=torch.float64):
    return tuple(torch.randn(count, 7, 5, generator=torch.Generator().manual_seed(1)).to(dtype))


def slow_codes(samples, prototypes, epsilon, iterations=3):
    """Eqs. (3) to (5), one number at a time, without gradient; a list of k numbers for each sample."""
    b, k = len(samples), len(prototypes)
    q = [
        [math.exp(float(z @ c) / epsilon) for z in samples] for c in prototypes
    ]  # K x B, as printed
    for _ in range(iterations):
        for row in q:  # prototypes get 1 / K of the mass
            row_sum = sum(row)
            row[:] = [x / (k * row_sum) for x in row]
        for n in range(b):  # and samples 1 / B
            column = sum(row[n] for row in q)
            for row in q:
                row[n] /= b * column
    return [[b * row[n] for row in q] for n in range(b)]


def slow_entropy(z, code, prototypes, t):
    """Eq. (2)."""
    shares = [torch.exp(z @ c / t) for c in prototypes]
    return -sum(q * torch.log(share / sum(shares)) for q, share in zip(code, shares, strict=True))


def slow(views, prototypes, code_views=2, queue=(), t=0.1, epsilon=0.05):
    """The mean over samples, views with a code, and other views that predict it."""
    total, terms = 0.0 * sum(view.sum() for view in views), 0  # a view without a code may not count
    views = [normalize(view, dim=1) for view in views]
    for j in range(min(code_views, len(views))):
        codes = slow_codes([*views[j].detach(), *queue], prototypes.detach(), epsilon)
        for i, view in enumerate(views):
            if i != j:
                for z, code in zip(view, codes, strict=False):  # those of the queue are dropped
                    total, terms = total + slow_entropy(z, code, prototypes, t), terms + 1
    return total / terms


def with_parameter(objective, *, slow_one=None):
    """A function of prototypes and views, for gradients by both."""

    def of_both(prototypes, *views):
        if slow_one is not None:
            return slow_one(views, prototypes)
        called = torch.func.functional_call
        return called(objective, {"prototypes": prototypes}, views)

    return of_both


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("count", "code_views"), [(2, 2), (4, 2), (3, 3), (2, 1)])
def test_it_is_the_loop_it_was_written_from(count, code_views, dtype):
    objective = made(dtype, code_views=code_views)
    equals(
        with_parameter(objective),
        with_parameter(
            objective, slow_one=lambda views, c: slow(views, c, code_views=code_views).to(dtype)
        ),
        (objective.prototypes.detach(), *embeddings(count, dtype)),
        tolerance=1e-9 if dtype == torch.float64 else 2e-5,
    )


@pytest.mark.parametrize("small_crops", [0, 3])
def test_it_is_lightlys_loss(small_crops):
    objective, reference = made(), SwaVLoss()

    def lightlys(prototypes, *views):
        scores = [normalize(view, dim=1) @ prototypes.T for view in views]
        return reference(scores[:2], scores[2:]).squeeze()

    views = embeddings(2 + small_crops)
    equals(
        with_parameter(objective),
        lightlys,
        (objective.prototypes.detach(), *views),
        tolerance=1e-9,
    )


def test_codes_are_lightlys_and_finite_where_those_are_not():
    scores = normalize(torch.randn(9, 5), dim=1) @ normalize(torch.randn(4, 5), dim=1).T
    torch.testing.assert_close(
        sinkhorn(scores, 0.05), lightlys_sinkhorn(scores), atol=1e-6, rtol=1e-5
    )
    assert not lightlys_sinkhorn(scores, epsilon=1e-3).isfinite().all()
    found = sinkhorn(scores, 1e-3)
    torch.testing.assert_close(found.sum(1), torch.ones(9))
    torch.testing.assert_close(
        sinkhorn(scores, 0.05, iterations=200).sum(0), torch.full((4,), 9 / 4), atol=1e-3, rtol=0
    )


def queued(objective, views, filled, keys=None):
    """Pairs of a batch beside a queue of 8 places."""
    queue = FeatureQueue(8, 5).double()
    queue.write(normalize(torch.randn(8, 5, dtype=torch.float64), dim=1)[:filled])
    unit = normalize(torch.stack(views), dim=2)
    pairs = in_batch(unit) if keys is None else with_keys(unit, keys, first_key_view=1)
    return queue.add_to(pairs), queue.keys[:filled]


@pytest.mark.parametrize("filled", [0, 3, 8])
def test_the_queue_takes_part_in_the_codes_as_far_as_it_is_filled(filled):
    objective, views = made(), embeddings(3)
    pairs, entries = queued(objective, views, filled)
    expected = slow(views, objective.prototypes, queue=entries)
    torch.testing.assert_close(objective.loss(pairs), expected)


def test_under_moco_queries_predict_the_codes_of_keys():
    objective, (x, y) = made(), embeddings(2)
    keys = normalize(y, dim=1)[None]
    pairs, entries = queued(objective, (x,), 8, keys)
    codes = slow_codes([*keys[0], *entries], objective.prototypes.detach(), 0.05)
    each = [
        slow_entropy(z, code, objective.prototypes, 0.1)
        for z, code in zip(normalize(x, dim=1), codes, strict=False)
    ]
    torch.testing.assert_close(objective.loss(pairs), sum(each) / 7)


def test_the_queue_is_read_after_its_first_steps():
    objective, views = made(queue_after=2), embeddings(2)
    pairs, entries = queued(objective, views, 8)
    for step, queue in ((0, ()), (1, ()), (2, entries)):
        objective.progress(step, 10)
        expected = slow(views, objective.prototypes, queue=queue)
        torch.testing.assert_close(objective.loss(replace(pairs)), expected)


def test_prototypes_are_frozen_in_the_first_steps_and_on_the_sphere_after_each():
    objective, views = made(frozen=2), embeddings(2)
    optimizer = torch.optim.SGD(objective.parameters(), lr=0.5, momentum=0.9)
    start = objective.prototypes.detach().clone()
    for step in range(4):
        objective.progress(step, 4)
        optimizer.zero_grad()
        objective(*views).backward()
        assert objective.prototypes.grad is not None, "every process has a gradient"
        optimizer.step()
        objective.after_step()
        torch.testing.assert_close(objective.prototypes.norm(dim=1), torch.ones(6).double())
        moved = not torch.allclose(objective.prototypes, start)
        assert moved == (step >= 2)


def test_prototypes_get_the_width_of_the_run_and_come_back_from_a_checkpoint():
    objective = SwAV(k=4)
    with pytest.raises(ValueError, match="no prototypes yet: give dim"):
        objective(*embeddings(2))
    objective.setup({}, Sizes(samples=20, embedding=5, features=9, steps=3))
    assert objective.prototypes.shape == (4, 5)
    other = SwAV(k=4)
    other.load_state_dict(objective.state_dict())
    torch.testing.assert_close(other.prototypes, objective.prototypes)


def test_what_does_not_go_together_is_said():
    x, y = embeddings(2)
    with pytest.raises(ValueError, match="the prototypes have 5 columns and embeddings 4"):
        made()(x[:, :4], y[:, :4])
    mask = torch.zeros(7, 7, dtype=torch.bool)
    with pytest.raises(ValueError, match="it takes no masks or draws"):
        made().loss(Pairs.from_masks(normalize(torch.stack([x, y]), dim=2), mask))
    keys = normalize(y, dim=1)[None]
    with pytest.raises(ValueError, match="no other view has a code with code_views=1"):
        made(code_views=1).loss(with_keys(x[None], keys, first_key_view=1))
    for wrong in (
        {"k": 1},
        {"temperature": 0.0},
        {"epsilon": 0.0},
        {"iterations": 0},
        {"code_views": 0},
    ):
        with pytest.raises(ValueError, match="must be"):
            SwAV(**wrong)


def test_in_a_loop_it_learns_and_most_prototypes_stay_in_use():
    torch.manual_seed(0)
    split = ccl.dataset("color_digits").build()("train")
    images = split.images.float() / 255
    images = (images - images.mean((0, 2, 3), keepdim=True)) / images.std((0, 2, 3), keepdim=True)
    backbone = ccl.backbone("lenet5").build()
    method = SimCLR(hidden=128, dim=128, last_norm="none", backbone=backbone)
    objective = SwAV(k=50, dim=128)
    learned = [*method.parameters(), *objective.parameters()]
    optimizer = torch.optim.AdamW(learned, lr=3e-3)

    def view(batch):
        gain, shift = torch.randn(2, len(batch), 3, 1, 1)
        moved = torch.roll(batch, tuple(torch.randint(-3, 4, (2,)).tolist()), (2, 3))
        return moved * (1 + 0.4 * gain) + 0.4 * shift

    losses = []
    for _ in range(60):
        batch = images[torch.randperm(len(images))[:128]]
        embedded = method.embed([view(batch), view(batch)]).normalized()
        loss = objective.loss(method.pairs(embedded, Samples()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        objective.after_step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) / 5 < losses[0] - 0.5
    with torch.no_grad():
        nearest = (method.project(images) @ objective.prototypes.T).argmax(1)
    assert nearest.unique().numel() > 35
