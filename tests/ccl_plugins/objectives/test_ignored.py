"""Under ``missing="ignore"`` a sample without a value is neither anchor nor key."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch
from support.every_objective import Case, plain_cases
from support.ignored import two_rank_loss

import ccl_plugins as ccl
from ccl_plugins.pairs import Queue, Samples, in_batch
from ccl_plugins.testing.objective_batches import (
    RawBatch,
    loss_of,
    pairs_of,
    queue_pairs,
    value_and_gradient,
)

LOST = torch.tensor([0, 3, 7])
KEPT = torch.tensor([1, 2, 4, 5, 6])
OF_SEVERAL = ("mixture", "guided")
"""Their parts leave out what lacks their own conditions."""
LITERAL = [
    Case(name, {"kernel": kernel, "negative_weights": "keep", "ridge": 0.5}, f"{kernel}, literal")
    for name in ("fair_cclk", "weaklysup_cclk")
    for kernel in ("linear", "laplacian")
]
"""Settings that the conformance kit does not hold to its law of samples without a value."""
CASES = [case for case in plain_cases() if case.name not in OF_SEVERAL and case.build().conditions]
CASES += LITERAL
ROUNDING = 1e-200  # exponentials that would be 0 are raised to the smallest fast number
exact = functools.partial(torch.testing.assert_close, rtol=1e-9, atol=1e-11)
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def batch_of(case: Case, n: int = 8) -> RawBatch:
    generator = torch.Generator().manual_seed(3)
    views = torch.randn(2, n, 16, generator=generator, dtype=torch.float64)
    views[1] += views[0]
    vectors = torch.rand(n, 3, generator=generator, dtype=torch.float64)
    return RawBatch(views, case.condition(torch.tensor([0, 0, 1, 2, 1, 0, 1, 2])[:n], vectors))


def assert_left_out(found, expected):
    value, gradient = found
    exact((value, gradient[:, KEPT]), expected)
    assert gradient[:, LOST].abs().max() < ROUNDING


@pytest.mark.parametrize("case", LITERAL, ids=str)
def test_a_batch_with_missing_values_is_the_batch_without_these_samples(case):
    objective, batch = case.build(), batch_of(case)
    found = value_and_gradient(loss_of, objective, batch.without_values(LOST))
    assert_left_out(found, value_and_gradient(loss_of, objective, batch.rows(KEPT)))


@every_case
@pytest.mark.parametrize("filled", [3, 6])
def test_samples_without_a_value_are_left_out_of_the_queue_too(case, filled):
    objective, batch = case.build(), batch_of(case)
    lost, kept = torch.tensor([1, 4]), torch.tensor([0, 2, 3, 5])

    def with_gaps(objective, batch):
        gaps = batch.without_values(LOST)
        pairs = queue_pairs(objective, batch, filled, 0.0, lost)
        keys = pairs.keys.detach()
        return objective.loss(
            replace(
                pairs,
                samples=replace(pairs.samples, condition=gaps.condition, ignored=gaps.ignored),
                keys=keys,
            )
        )

    def without(objective, batch):
        pairs = queue_pairs(objective, batch, filled, 0.0)
        return objective.loss(
            replace(
                pairs,
                samples=replace(
                    pairs.samples,
                    features=pairs.samples.features[:, KEPT],
                    index=pairs.samples.index[KEPT],
                    condition=batch.rows(KEPT).condition,
                ),
                queue=Queue(
                    pairs.queue.keys[kept],
                    pairs.queue.valid[kept],
                    {k: z[kept] for k, z in pairs.queue.condition.items()},
                    index=pairs.queue.index[kept],
                ),
                anchors=pairs.anchors[:, KEPT],
                keys=pairs.keys[:, KEPT].detach(),
            )
        )

    value, gradient = value_and_gradient(without, objective, batch)
    assert_left_out(value_and_gradient(with_gaps, objective, batch), (value, gradient[:, KEPT]))


@every_case
def test_two_ranks_leave_out_the_same_samples_as_one_process(case, two_processes):
    batch = batch_of(case)
    gaps = batch.without_values(LOST)  # one on the first rank, two on the second
    gaps = replace(gaps, views=gaps.views.float())
    expected = value_and_gradient(loss_of, case.build(), batch.rows(KEPT))
    for value, gradient in two_processes(two_rank_loss, case, gaps.to(torch.float64), batch.views):
        exact(value, expected[0])
        assert_left_out((value, gradient), expected)


PLAIN = [case for case in CASES if not case.variant][::3]


@pytest.mark.parametrize(
    "case",
    [*PLAIN[:2], *(pytest.param(case, marks=pytest.mark.slow) for case in PLAIN[2:])],
    ids=str,
)
def test_leaving_samples_out_compiles_without_graph_breaks(case):
    objective, batch = case.build(), batch_of(case).without_values(LOST)

    def loss(views):
        return objective.loss(pairs_of(objective, replace(batch, views=views)))

    torch.compiler.reset()
    found = torch.compile(loss, fullgraph=True, backend="eager")(batch.views)
    exact(found, loss(batch.views))


def test_a_mixture_keeps_a_sample_in_the_terms_that_do_not_read_the_condition():
    """y-Aware where age is known, SimCLR elsewhere."""
    aware = {"use": "soft_infonce", "kernel": "rbf", "on": "age"}
    both = ccl.create("objective", "mixture", objectives=[aware, "nt_xent"], weights=[0.5, 2.0])
    batch = batch_of(Case("nt_xent"))
    age = torch.linspace(0, 1, 8, dtype=torch.float64)
    known = replace(batch.rows(KEPT), condition={"age": age[KEPT]})
    gaps = replace(batch, condition={"age": age}).without_values(LOST)
    first, second = (part.objective for part in both.parts.values())
    expected = 0.5 * loss_of(first, known) + 2 * loss_of(second, batch)
    exact(loss_of(both, gaps), expected)
    exact(both.terms(pairs_of(both, gaps))[0].isfinite().all(), torch.tensor(True))


def test_a_sample_that_lacks_one_of_two_conditions_is_left_out_of_what_reads_both():
    objective = ccl.create("objective", "supcon", exclude=["cosine", 0.9, "color"])
    batch = batch_of(Case("supcon"))
    color = torch.rand(8, 3, dtype=torch.float64)
    whole = replace(batch, condition={**batch.condition, "color": color})
    gaps = whole.without_values(torch.tensor([3, 7]))
    gaps.condition["condition"][0] = -1
    gaps.condition["condition"][[3, 7]] = whole.condition["condition"][[3, 7]]
    found = value_and_gradient(loss_of, objective, gaps)
    assert_left_out(found, value_and_gradient(loss_of, objective, whole.rows(KEPT)))


def test_drawn_negatives_without_a_value_do_not_count():
    objective = ccl.create("objective", "fair_infonce")
    views = torch.nn.functional.normalize(torch.randn(2, 4, 5), dim=-1)
    ids = torch.tensor([0, 1, -1, 0])
    draws = torch.tensor([[1, 2], [3, 2], [0, 1], [2, 0]])
    gaps = replace(
        in_batch(views, Samples({"condition": ids}, ignored=("condition",))), draws=draws
    )
    kept = torch.tensor([0, 1, 3])
    rest = in_batch(views[:, kept], Samples({"condition": ids[kept]}))
    rest = replace(rest, draws=torch.tensor([[1], [2], [0]]))
    torch.testing.assert_close(objective.loss(gaps), objective.loss(rest))


def test_a_call_on_embeddings_leaves_out_rows_without_a_value_only_if_told_to():
    x, y = torch.randn(2, 8, 16).unbind()
    ids, vectors = torch.tensor([0, 0, 1, 2, 1, 0, 1, 2]), torch.rand(8, 3)
    for name, z, gap in (("supcon", ids, -1), ("fair_cclk", vectors, torch.nan)):
        objective = ccl.create("objective", name, **({} if name == "supcon" else {"kernel": "rbf"}))
        lost = z.index_fill(0, LOST, gap)
        with pytest.raises(ValueError, match=r"3 of 8 rows: \[0, 3, 7\]"):
            objective(x, y, condition=lost)
        found = objective(x, y, condition=lost, missing="ignore")
        torch.testing.assert_close(found, objective(x[KEPT], y[KEPT], condition=z[KEPT]))
    with pytest.raises(ValueError, match="missing must be"):
        objective(x, y, condition=vectors, missing="drop")
