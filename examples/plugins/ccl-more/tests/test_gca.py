"""GCA is Sinkhorn's algorithm on plain numbers, and NT-Xent before its first iteration."""

import math

import pytest
import torch
from ccl_plugins.kernels import RBF, Delta
from ccl_plugins.numerics import EMPTY
from ccl_plugins.objectives import NTXent, SoftInfoNCE
from ccl_plugins.pairs import Pairs, Samples, in_batch
from ccl_plugins.testing import equals
from torch.nn.functional import cross_entropy, normalize

from ccl_more import GCA
from ccl_more.gca import NARROW, _Offsets, offsets

Z = torch.randn(10, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
TAU = 0.3


def slow(views, queue=(), iterations=3, row=1.0, column=0.2, similarity=None):
    """Scalings u and v of ``K``, not in the log domain, one number at a time."""
    unit, n = [normalize(view, dim=1) for view in views], len(views[0])
    anchors = [(x[i], i, v) for v, x in enumerate(unit) for i in range(n)]
    keys = [*anchors, *((key, n + j, None) for j, key in enumerate(queue))]
    gibbs = [
        [None if (i, v) == (j, w) else (-(1 - x @ y) / TAU).exp() for y, j, w in keys]
        for x, i, v in anchors
    ]
    a, b = 1 / len(anchors), 1 / len(keys)
    f, g = (1 if penalty is None else penalty / (penalty + TAU) for penalty in (row, column))
    v = [torch.ones(()).double() for _ in keys]
    for _ in range(iterations):
        u = [
            (a / sum(k * s for k, s in zip(row, v, strict=True) if k is not None)) ** f
            for row in gibbs
        ]
        v = [
            (b / sum(row[c] * s for row, s in zip(gibbs, u, strict=True) if row[c] is not None))
            ** g
            for c in range(len(keys))
        ]
    losses = []
    for (_, i, w), mine in zip(anchors, gibbs, strict=True):
        plan = [None if k is None else k * s for k, s in zip(mine, v, strict=True)]
        total = sum(p for p in plan if p is not None)
        if similarity is None:
            target = [float(j == i and t != w) for _, j, t in keys]
        else:
            target = [similarity(i, j) for _, j, _ in keys]
        target = [0.0 if p is None else t for p, t in zip(plan, target, strict=True)]
        losses.append(
            sum(
                -t / sum(target) * (p / total).log() for t, p in zip(target, plan, strict=True) if t
            )
        )
    return sum(losses) / len(losses)


SETTINGS = [
    {},
    {"iterations": 1},
    {"row": None, "column": None},
    {"row": 0.1, "column": None, "iterations": 2},
]
settings = pytest.mark.parametrize("setting", SETTINGS, ids=str)


def build(iterations=3, row=1.0, column=0.2, **params):
    return GCA(TAU, iterations=iterations, row_penalty=row, column_penalty=column, **params)


@settings
def test_gca_is_unbalanced_transport_to_the_own_keys(views, agree, setting):
    agree(build(**setting), lambda *views: slow(views, **setting), views)


@settings
def test_the_keys_of_a_queue_take_part_in_the_transport(views, agree, queued, queue, setting):
    agree(build(**setting), lambda *views: slow(views, queue[:2], **setting), views, call=queued)


def test_the_target_plan_is_a_kernel_of_the_condition(views, agree, queued, queue):
    gram = RBF(scale=2.0)(Z, Z)
    similarity = lambda i, j: float(gram[i, j])
    objective = build(kernel=RBF(scale=2.0))
    agree(objective, lambda *views: slow(views, similarity=similarity), views, condition=Z[:7])
    agree(
        objective,
        lambda *views: slow(views, queue[:2], similarity=similarity),
        views,
        call=lambda module, *views: queued(module, *views, condition=Z),
    )


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_before_the_first_iteration_it_is_nt_xent(views, temperature):
    """As the paper says: InfoNCE is the first half of an iteration, in which rows are scaled."""
    objective = GCA(temperature, iterations=0)
    equals(objective, NTXent(temperature), views[:2], tolerance=1e-9)


def test_before_the_first_iteration_a_kernel_makes_it_soft_infonce(views):
    objective = GCA(TAU, iterations=0, kernel=RBF(scale=2.0))
    soft = SoftInfoNCE(RBF(scale=2.0), TAU, within_view=True)
    given = {"views": views[:2], "condition": Z[:7]}
    equals(objective, soft, given, tolerance=1e-9)


def test_after_many_iterations_anchors_and_keys_have_their_masses(views):
    """The plan that the offsets make has the exact masses, after a last scaling of the rows."""
    objective = build(iterations=500, row=None, column=None)
    rows = torch.cat([normalize(view, dim=1) for view in views])
    scores = (rows @ rows.T / TAU).fill_diagonal_(-1e30)
    plan = (scores + objective.offsets(scores)).softmax(1) / len(rows)
    torch.testing.assert_close(plan.sum(0), torch.full((len(rows),), 1 / len(rows)).double())


def test_a_small_penalty_leaves_the_masses_as_they_are(views):
    loose = GCA(TAU, iterations=5, row_penalty=1e-12, column_penalty=1e-12)
    torch.testing.assert_close(loose(*views), GCA(TAU, iterations=0)(*views))


def test_gca_is_the_loss_of_the_authors_for_balanced_transport(views):
    """Their ``gca_ince`` on interleaved views, with their cost of an embedding with itself infinite."""

    def released(x, y):
        z = normalize(torch.stack([x, y], 1).flatten(0, 1), dim=1)
        own = torch.eye(len(z)).bool()
        kernel = (-(1 - z @ z.T).masked_fill(own, 50.0) / TAU).exp()
        u = v = torch.ones(len(z)).double()
        for _ in range(10):
            u = 1 / (kernel @ v)
            v = 1 / (kernel.T @ u)
        plan = u[:, None] * kernel * v
        return cross_entropy(plan.log(), torch.arange(len(z)) ^ 1)

    equals(build(iterations=10, row=None, column=None), released, views[:2], tolerance=1e-9)


def test_the_gradient_flows_through_the_iterations(views):
    gradients = []
    for iterations in (0, 5):
        leaves = [view.clone().requires_grad_() for view in views]
        build(iterations=iterations)(*leaves).backward()
        gradients.append(torch.stack([leaf.grad for leaf in leaves]))
    assert (gradients[0] - gradients[1]).abs().max() > 1e-3


def test_float32_is_exact_at_a_low_temperature():
    """Scalings of up to ``e^(2 / τ)`` overflow in float32 unless they are logarithms."""
    generator = torch.Generator().manual_seed(0)
    near = torch.randn(12, 8, generator=generator) + 2
    x, y = near + 0.1 * torch.randn(2, 12, 8, generator=generator)
    for settings in ({}, {"row_penalty": None, "column_penalty": None}):
        objective = GCA(0.01, **settings)
        found, exact = objective(x, y), objective(x.double(), y.double())
        torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=2e-5)


def test_an_anchor_without_a_target_gets_weight_0(views):
    class Never(Delta):
        def __call__(self, a, b):
            return super().__call__(a, b) * (a[:, None] * b > 0)  # class 0 is like none, itself too

    ids = torch.tensor([0, 1, 1, 2, 2, 0, 1])
    pairs = in_batch(normalize(torch.stack(views), dim=-1), Samples({"condition": ids}))
    values, weights = GCA(TAU, kernel=Never()).terms(pairs)
    assert (weights == (ids > 0)).all()
    assert values.isfinite().all()


def test_masks_say_which_keys_take_part(views):
    unit = normalize(torch.stack(views), dim=-1)
    negatives = torch.eye(7).bool().roll(1, 1)
    pairs = Pairs.from_masks(unit, torch.zeros(7, 7).bool(), negatives)
    expected = NTXent(TAU).loss(pairs) if len(views) == 2 else None
    found = GCA(TAU, iterations=0).loss(pairs)
    assert math.isfinite(found)
    if expected is not None:
        torch.testing.assert_close(found, expected)


def test_iterations_keep_no_matrix_for_the_gradient(views):
    """More of them cost time and no memory."""
    kept = []
    for iterations in (1, 8):
        held = set()

        def hold(tensor, held=held):
            if tensor.ndim == 2 and tensor.shape[0] == tensor.shape[1]:
                held.add(tensor.untyped_storage().data_ptr())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
            loss = build(iterations=iterations)(*(view.clone().requires_grad_() for view in views))
        kept.append(len(held))
        loss.backward()
    assert kept[0] == kept[1]


@pytest.mark.parametrize("temperature", [0.05, 0.5])
@pytest.mark.parametrize("params", [{}, {"row_penalty": None, "kernel": RBF(scale=0.7)}])
def test_the_gradient_is_that_of_the_value_and_its_own_is_refused(views, temperature, params):
    objective = GCA(temperature, iterations=3, **params)
    few = [view[:4].clone().requires_grad_() for view in views[:2]]

    def loss(*views):
        return objective(*views, condition=Z[:4] if "kernel" in params else None)

    assert torch.autograd.gradcheck(loss, few, fast_mode=True, atol=1e-5)
    slopes = torch.autograd.grad(loss(*few), few, create_graph=True)
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        torch.autograd.grad(slopes[0].square().sum(), few)


def scores(dtype=torch.float64, temperature=0.3):
    generator = torch.Generator().manual_seed(3)
    log_k = (2 * torch.rand(7, 9, generator=generator, dtype=torch.float64) - 1) / temperature
    keep = torch.rand(7, 9, generator=generator) < 0.7
    keep[2], keep[:, 4] = False, False  # a row and a column in which nothing counts
    return log_k.masked_fill(~keep, EMPTY).to(dtype).requires_grad_()


@pytest.mark.parametrize("exponents", [(1.0, 1.0), (0.8, 0.4), (1.0, 0.1)])
@pytest.mark.parametrize("iterations", [0, 1, 10])
def test_the_scaling_by_products_is_the_one_in_logarithms(iterations, exponents):
    log_k, weights = scores(), torch.randn(9, dtype=torch.float64)
    found, expected = (
        _Offsets.apply(log_k, iterations, *exponents),
        offsets(log_k, iterations, *exponents),
    )
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
    if not iterations:
        return
    slopes = [torch.autograd.grad((y * weights).sum(), log_k)[0] for y in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-12)


def test_the_scaling_by_products_is_exact_in_float32_down_to_its_least_temperature():
    log_k = scores(temperature=NARROW)
    exact = offsets(log_k, 10, 1.0, 1.0)
    found = _Offsets.apply(log_k.detach().float().requires_grad_(), 10, 1.0, 1.0)
    torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("temperature", [0.01, 0.079, 0.08, 0.5])
def test_a_low_temperature_is_finite(temperature):
    views = [torch.randn(6, 4, requires_grad=True) for _ in range(2)]
    loss = GCA(temperature, row_penalty=None, column_penalty=None)(*views)
    loss.backward()
    exact = GCA(temperature, row_penalty=None, column_penalty=None)(
        *(v.detach().double() for v in views)
    )
    torch.testing.assert_close(loss.detach().double(), exact, rtol=1e-4, atol=1e-5)
    assert all(v.grad.isfinite().all() for v in views)
