"""IDFD equals loops written from the paper, with samples of the batch and with a memory bank."""

import functools
from dataclasses import replace

import pytest
import torch
from ccl_plugins.kernels import Delta
from ccl_plugins.pairs import Pairs, Queue, in_batch, with_keys
from ccl_plugins.protocols import Sizes
from ccl_plugins.testing import equals, on_two_ranks
from ccl_plugins.testing.objective_batches import on_each_rank, raw_batch
from torch.nn.functional import normalize

from ccl_prototypes import IDFD


def embeddings(count, dtype=torch.float64):
    return tuple(torch.randn(count, 7, 5, generator=torch.Generator().manual_seed(1)).to(dtype))


def unit(views):
    return [torch.stack([z / z.norm() for z in view]) for view in views]


def slow_correlation(views, t2):
    """The mean over features of each view, where the paper has the sum."""
    total, terms = 0.0, 0
    for view in views:
        features = [view[:, m] / view[:, m].norm() for m in range(view.shape[1])]
        for feature in features:
            shares = [torch.exp(other @ feature / t2) for other in features]
            total, terms = (
                total - torch.log(torch.exp(feature @ feature / t2) / sum(shares)),
                terms + 1,
            )
    return total / terms


def slow_instances(views, t, queue=()):
    """Each sample against the others of another view and the queue."""
    total, terms = 0.0, 0
    for a, anchors in enumerate(views):
        for b, keys in enumerate(views):
            if a != b:
                for i, v in enumerate(anchors):
                    shares = [torch.exp(v @ key / t) for key in [*keys, *queue]]
                    total, terms = total - torch.log(shares[i] / sum(shares)), terms + 1
    return total / terms


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("count", [2, 3])
def test_it_is_the_loop_it_was_written_from(count, dtype):
    objective = IDFD(0.5, 2.0, weight=0.7)

    def expected(*views):
        views = unit([view.double() for view in views])
        return (slow_instances(views, 0.5) + 0.7 * slow_correlation(views, 2.0)).to(dtype)

    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    equals(objective, expected, embeddings(count, dtype), tolerance=tolerance)


def test_under_moco_the_features_are_those_of_the_queries():
    objective = IDFD(0.5)
    keys, queue = unit(torch.randn(2, 7, 5, dtype=torch.float64))

    def found(x):
        pairs = with_keys(normalize(x, dim=1)[None], keys[None], first_key_view=1)
        held = Queue(queue, torch.ones(7).bool())
        return objective.loss(replace(pairs, queue=held, batch_candidates=torch.tensor(False)))

    def expected(x):
        (x,), total = unit([x]), 0.0
        for i, v in enumerate(x):
            shares = [torch.exp(v @ key / 0.5) for key in [keys[i], *queue]]
            total = total - torch.log(shares[0] / sum(shares))
        return total / 7 + slow_correlation([x], 2.0)

    equals(found, expected, embeddings(1), tolerance=1e-9)


def with_bank(samples=20, dim=5, dtype=torch.float64, **given):
    objective = IDFD(bank=True, **given)
    torch.manual_seed(0)
    objective.setup({}, Sizes(samples=samples, embedding=dim, features=9, steps=3))
    return objective.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("count", [1, 2])
def test_with_a_bank_it_is_the_papers_loop(count, dtype):
    objective, index = (
        with_bank(dtype=dtype, temperature=0.5),
        torch.tensor([3, 0, 19, 7, 8, 2, 11]),
    )
    bank = objective.bank.entries.double().clone()

    def expected(*views):
        views, total = unit([view.double() for view in views]), 0.0
        for view in views:
            for i, v in zip(index.tolist(), view, strict=True):
                shares = [torch.exp(entry @ v / 0.5) for entry in bank]
                total = total - torch.log(shares[i] / sum(shares)) / (7 * count)
        return (total + slow_correlation(views, 2.0)).to(dtype)

    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    found = functools.partial(objective, index=index)
    equals(found, expected, embeddings(count, dtype), tolerance=tolerance)


def test_the_bank_is_averaged_after_each_step_and_by_the_loss_alone_not():
    objective, index = with_bank(momentum=0.25), torch.tensor([3, 0, 19, 7, 8, 2, 11])
    before, views = objective.bank.entries.clone(), embeddings(2)
    objective(*views, index=index)
    torch.testing.assert_close(objective.bank.entries, before)
    objective.after_step()
    expected, (x, y) = before.clone(), unit(views)
    for n, i in enumerate(index.tolist()):
        mean = (x[n] + y[n]) / (x[n] + y[n]).norm()
        mixed = 0.25 * before[i] + 0.75 * mean
        expected[i] = mixed / mixed.norm()
    torch.testing.assert_close(objective.bank.entries, expected)


def test_a_bank_comes_back_from_a_checkpoint_before_setup():
    objective = with_bank()
    other = IDFD(bank=True)
    other.load_state_dict(objective.state_dict())
    torch.testing.assert_close(other.bank.entries, objective.bank.entries.float())
    with pytest.raises(ValueError, match="has no bank yet: call setup"):
        IDFD(bank=True)(*embeddings(2), index=torch.arange(7))


def loss_after_a_step(dim):
    """A bank that a step has changed, on all processes alike."""
    from ccl_plugins.testing.objective_batches import pairs_of
    from lightly.utils import dist

    objective = with_bank(dim=dim)
    batch, world = raw_batch(objective), dist.world_size()
    n = batch.views.shape[1] // world
    part = batch.rows(slice(dist.rank() * n, (dist.rank() + 1) * n)) if world > 1 else batch
    objective.loss(pairs_of(objective, part, gather=world > 1))
    objective.after_step()
    return objective


def test_two_processes_fill_one_bank():
    build, batch = functools.partial(loss_after_a_step, 16), raw_batch(IDFD(bank=True))
    expected = on_each_rank(build, batch)
    for found in on_two_ranks(on_each_rank, build, batch):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_samples_that_are_excluded_are_no_negatives_and_keep_their_features():
    ids, views = torch.tensor([0, 1, 1, 2, 3, 4, 5]), embeddings(2)
    x, y = unit(views)
    total = 0.0
    for anchors, keys in ((x, y), (y, x)):
        for i, v in enumerate(anchors):
            others = [torch.exp(v @ keys[j]) for j in range(7) if ids[j] != ids[i]]
            own = torch.exp(v @ keys[i])
            total = total - torch.log(own / (own + sum(others))) / 14
    found = IDFD(exclude=(Delta(), 0.5))(*views, condition=ids)
    torch.testing.assert_close(found, total + slow_correlation((x, y), 2.0))


def test_features_that_are_equal_cost_the_most_and_orthogonal_ones_the_least():
    same = torch.randn(8, 1, dtype=torch.float64).expand(8, 4)
    orthogonal = torch.linalg.qr(torch.randn(8, 4, dtype=torch.float64)).Q
    costs = [
        IDFD().correlation(in_batch(torch.stack([x, x])))
        for x in (orthogonal, torch.randn(8, 4, dtype=torch.float64), same)
    ]
    assert costs[0] < costs[1] < costs[2]
    torch.testing.assert_close(costs[2], torch.tensor(4.0).double().log())


def test_what_does_not_go_together_is_said():
    with pytest.raises(ValueError, match="exclude leaves out samples of batch and queue"):
        IDFD(bank=True, exclude=(Delta(), 0.5))
    with pytest.raises(ValueError, match="give index=... in a call"):
        with_bank()(*embeddings(2))
    mask = torch.zeros(7, 7, dtype=torch.bool)
    pairs = Pairs.from_masks(torch.stack(unit(embeddings(2))), mask)
    IDFD().loss(pairs)
    with pytest.raises(ValueError, match="takes no masks or draws"):
        with_bank().loss(replace(pairs, samples=replace(pairs.samples, index=torch.arange(7))))
    for wrong in ({"temperature": 0.0}, {"feature_temperature": 0.0}, {"weight": -1.0}):
        with pytest.raises(ValueError, match="must be"):
            IDFD(**wrong)
    with pytest.raises(ValueError, match="momentum of the bank must be"):
        with_bank(momentum=1.0)
