"""Some anchors at a time: the loss and its gradient of all at once, in the memory of a part."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import every_objective as every
from support import in_parts
from support.every_objective import random_batch
from torch import multiprocessing

from ccl_plugins.kernels import RBF, Cosine, Delta
from ccl_plugins.objectives import CACR, FairCCLK, HardNegCCLK, InfoNCE, Mixture, cclk
from ccl_plugins.testing.objective_batches import RawBatch, pairs_of, queue_pairs
from ccl_plugins.testing.objectives import _Largest

NAMES = ("infonce", "fair_infonce", "fair_cclk", "weaklysup_cclk", "hardneg_cclk")
CASES = [c for c in [*every.plain_cases(), *every.changing_cases()] if c.name in NAMES]
SHARED = [c for c in CASES if c.variant in ("", "excluding", "changing")]
near = {"rtol": 1e-9, "atol": 1e-11}


def value_and_gradients(case, make, size):
    """The loss and its gradient by views and parameters."""
    batch, objective = make
    views = batch.views.clone().requires_grad_()
    leaves = [views, *objective.parameters()]
    loss = case(objective, replace(batch, views=views), size)
    return loss.detach(), *torch.autograd.grad(loss, leaves)


def in_batch(objective, batch, size):
    return objective.loss(replace(pairs_of(objective, batch), anchors_at_once=size))


def with_queue(objective, batch, size):
    pairs = queue_pairs(objective, batch, 4, 0.0, torch.tensor([1]) if batch.ignored else None)
    return objective.loss(replace(pairs, anchors_at_once=size))


@pytest.mark.parametrize("place", [in_batch, with_queue])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradient_are_those_of_all_anchors_at_once(case, place):
    views, condition = random_batch(case, n=5)
    batch = RawBatch(views, condition)
    for given in [batch, batch.without_values(torch.tensor([0, 3]))] if condition else [batch]:
        whole = value_and_gradients(place, (given, case.build()), None)
        for size in (1, 3, 100):
            parts = value_and_gradients(place, (given, case.build()), size)
            torch.testing.assert_close(parts, whole, **near)


def test_on_two_processes_it_is_the_loss_of_one(two_processes):
    cases = [(case.build, RawBatch(*random_batch(case))) for case in SHARED]
    whole = in_parts.losses(cases, None)
    for found in two_processes(in_parts.losses, cases, 3):
        torch.testing.assert_close(found, whole, **near)


def test_on_three_processes_it_is_the_loss_of_one(tmp_path):
    cases = [(case.build, RawBatch(*random_batch(case, n=12))) for case in SHARED]
    whole = in_parts.losses(cases, None)
    given = 3, str(tmp_path), cases, 3
    multiprocessing.start_processes(in_parts.as_rank, given, 3, start_method="forkserver")
    for rank in range(3):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(found, whole, **near)


@pytest.mark.parametrize("objective", [InfoNCE(), FairCCLK(RBF())], ids=["infonce", "fair_cclk"])
def test_under_autocast_it_is_computed_in_float32(objective):
    torch.manual_seed(0)
    x, y, z = torch.randn(3, 8, 4).bfloat16()
    given = {} if isinstance(objective, InfoNCE) else {"condition": z}
    with torch.autocast("cpu", torch.bfloat16):
        parts = objective(x, y, **given, anchors_at_once=3)
    assert parts.dtype == torch.float32
    whole = objective(x.float(), y.float(), **{k: v.float() for k, v in given.items()})
    torch.testing.assert_close(parts, whole)


@pytest.mark.slow
def test_a_compiled_loss_is_the_same():
    torch.manual_seed(0)
    x, y, z = torch.randn(3, 5, 4, dtype=torch.float64)
    objective = FairCCLK(Cosine())
    torch.compiler.reset()
    compiled = torch.compile(objective, fullgraph=True, backend="aot_eager")
    found = []
    for called, size in ((compiled, 3), (objective, None)):
        leaf = x.clone().requires_grad_()
        loss = called(leaf, y, condition=z, anchors_at_once=size)
        found.append((loss.detach(), *torch.autograd.grad(loss, leaf)))
    torch.testing.assert_close(found[0], found[1], **near)


@pytest.mark.parametrize(
    ("objective", "reads"),
    [
        (InfoNCE(within_view=True), None),
        (FairCCLK(Delta()), "ids"),
        (FairCCLK(Cosine()), "vectors"),
        (FairCCLK(RBF(), landmarks=8), "vectors"),
        (HardNegCCLK(Cosine()), "per view"),
    ],
    ids=["infonce", "class ids", "features", "landmarks", "per view"],
)
def test_no_tensor_has_the_inner_products_of_all_anchors(objective, reads):
    torch.manual_seed(0)
    n, size = 96, 4
    views, z = torch.randn(2, n, 4, requires_grad=True), torch.randn(2, n, 4)
    values = {"ids": torch.arange(n) % 5, "vectors": z[0], "per view": tuple(z)}
    condition = None if reads is None else values[reads]
    largest = []
    for at_once in (None, size):
        with _Largest() as seen:
            objective(*views, condition=condition, anchors_at_once=at_once).backward()
        largest.append(seen.numbers)
    assert largest[0] >= n * n
    assert largest[1] <= 2 * n * 8  # views, landmarks' features, or a part's inner products


def test_the_operator_is_solved_once(monkeypatch):
    calls = []
    solve = cclk.conditional_columns
    monkeypatch.setattr(
        cclk, "conditional_columns", lambda *a, **k: calls.append(1) or solve(*a, **k)
    )
    x, y, z = torch.randn(3, 8, 4)
    FairCCLK(RBF())(x.requires_grad_(), y, condition=z, anchors_at_once=2).backward()
    assert len(calls) == 1


@pytest.mark.parametrize("objective", [CACR(), Mixture([InfoNCE(), CACR()])])
def test_what_takes_all_anchors_together_is_refused(objective):
    x, y = torch.randn(2, 8, 4)
    with pytest.raises(ValueError, match=r"anchors_at_once=4: CACR takes all anchors together"):
        objective(x, y, anchors_at_once=4)


def test_a_number_of_anchors_is_1_or_more():
    x, y = torch.randn(2, 8, 4)
    with pytest.raises(ValueError, match="anchors_at_once must be 1 or more, not 0"):
        InfoNCE()(x, y, anchors_at_once=0)
