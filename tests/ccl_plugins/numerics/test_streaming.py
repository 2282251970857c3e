"""Log-sum-exps over a queue, block by block, against those of the whole matrix."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.numerics import streaming
from ccl_plugins.numerics.logsumexp import EMPTY
from ccl_plugins.numerics.streaming import blocks, queue_logsumexp


@pytest.fixture(autouse=True)
def in_blocks_of_seven(monkeypatch):
    """The tests of ``blocks`` itself have imported it."""

    def sevens(length, width, device):
        return (slice(a, min(a + 7, length)) for a in range(0, length, 7))

    monkeypatch.setattr(streaming, "blocks", sevens)


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.manual_seed(sum(shape)))


def everything(columns):
    return torch.ones(1, columns.stop - columns.start, dtype=torch.bool)


def test_value_and_gradient_are_those_of_the_whole():
    queries, queue, weights = normal(2, 5, 4), normal(30, 4), normal(5, 30)
    queries.requires_grad_()
    keep = torch.arange(30) % 3 != 0
    found = queue_logsumexp(
        queries, queue, lambda some: weights[:, some], lambda some: keep[None, some]
    )
    products = queries @ queue.T
    whole = [(products + weights).logsumexp(-1), products[..., keep].logsumexp(-1)]
    torch.testing.assert_close(found, whole)
    for a, b in zip(found, whole, strict=True):
        (one,) = torch.autograd.grad(a.square().sum(), queries, retain_graph=True)
        (other,) = torch.autograd.grad(b.square().sum(), queries, retain_graph=True)
        torch.testing.assert_close(one, other)


def test_each_view_may_have_a_queue_of_its_own():
    queries, queue, weights = normal(2, 5, 4).requires_grad_(), normal(2, 30, 4), normal(5, 30)
    given = [lambda some: weights[:, some], lambda some: weights[:, some] > 0]
    found = queue_logsumexp(queries, queue, *given)
    each = [queue_logsumexp(queries[i : i + 1], queue[i], *given) for i in range(2)]
    for together, alone in zip(found, zip(*each, strict=True), strict=True):
        torch.testing.assert_close(together, torch.cat(alone))
        one, other = (
            torch.autograd.grad(x.square().sum(), queries, retain_graph=True)[0]
            for x in (together, torch.cat(alone))
        )
        torch.testing.assert_close(one, other)


def test_a_later_block_may_be_the_larger_by_far():
    queries, queue = torch.tensor([[[1.0]], [[-1.0]]]), torch.linspace(-500, 500, 30)[:, None]
    (found,) = queue_logsumexp(queries, queue, everything)
    torch.testing.assert_close(found, (queries @ queue.T).logsumexp(-1))


def test_each_query_has_its_own_maximum():
    queries, queue = torch.tensor([[[1.0], [-1.0], [0.01]]]), torch.linspace(400, 500, 30)[:, None]
    queries.requires_grad_()
    (found,) = queue_logsumexp(queries, queue, everything)
    expected = (queries @ queue.T).logsumexp(-1)
    torch.testing.assert_close(found, expected)
    both = [torch.autograd.grad(each.sum(), queries)[0] for each in (found, expected)]
    torch.testing.assert_close(*both)


def test_where_nothing_counts_there_is_no_gradient():
    queries = normal(1, 3, 4).requires_grad_()
    (found,) = queue_logsumexp(queries, normal(20, 4), lambda some: ~everything(some))
    assert (found < EMPTY / 2).all()
    (gradient,) = torch.autograd.grad(found.sum(), queries)
    assert (gradient == 0).all()


def test_weights_that_are_undefined_give_a_value_that_is():
    (found,) = queue_logsumexp(
        normal(1, 3, 4), normal(20, 4), lambda some: everything(some) * torch.nan
    )
    assert found.isnan().all()


def test_blocks_cover_a_length_once():
    covered = [i for some in blocks(1000, 10**9, torch.device("cpu")) for i in range(1000)[some]]
    assert covered == list(range(1000))


def test_compiles_whole():
    def loss(queries, queue):
        (found,) = queue_logsumexp(queries, queue, everything)
        return found.sum()

    queries, queue = normal(2, 5, 4), normal(30, 4)
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(queries, queue), loss(queries, queue))


@pytest.mark.parametrize(("device", "numbers"), [("cpu", 2**20), ("cuda", 2**27)])
def test_blocks_are_as_long_as_fits_and_no_shorter_than_256_rows(device, numbers):
    for width in (0, 1, 2**10, numbers // 256, numbers):
        length = max(256, numbers // max(width, 1))
        found = [*blocks(length + 5, width, torch.device(device))]
        assert found == [slice(0, length), slice(length, length + 5)]


def test_shares_far_below_the_largest_are_raised_to_a_normal_number():
    for dtype, least in ((torch.float32, -60.0), (torch.float64, -600.0)):
        queries = torch.tensor([[[1.0, 0.0]]], dtype=dtype, requires_grad=True)
        queue = torch.tensor([[0.0, 0.0], [-1e4, 1.0]], dtype=dtype)
        (found,) = queue_logsumexp(queries, queue, everything)
        (gradient,) = torch.autograd.grad(found.sum(), queries)
        expected = torch.tensor(least, dtype=dtype).exp()
        torch.testing.assert_close(gradient[0, 0, 1], expected, rtol=1e-4, atol=0)
