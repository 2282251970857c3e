from __future__ import annotations

import pytest
import torch
from support import slow_infonce
from support.slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import SupCon
from ccl_plugins.objectives.supcon import log_share
from ccl_plugins.pairs import Pairs, Queue, Samples

FORMS = {
    "all": ({}, slow_infonce.share),
    "inside": ({"summation": "inside"}, slow_infonce.joint_share),
    "negatives": ({"denominator": "negatives"}, slow_infonce.each_share),
    "negatives, inside": (
        {"denominator": "negatives", "summation": "inside"},
        slow_infonce.mean_of_each_share,
    ),
}


def slow_loss(share, views, ids, tau, anchor_views):
    values = []
    for v in range(anchor_views):
        for i in range(len(ids)):
            keys = [(w, j) for w in range(len(views)) for j in range(len(ids)) if (w, j) != (v, i)]
            alike, unlike = (
                [views[w][j] for w, j in keys if bool(ids[j] == ids[i]) == same]
                for same in (True, False)
            )
            values.append(share(views[v][i], alike, unlike, tau))
    return slow_infonce.mean(values)


@pytest.mark.parametrize("mode", ["all", "one"])
@pytest.mark.parametrize("form", FORMS)
def test_equals_the_slow_loop_in_value_and_gradient(form, mode):
    views, ids = random_batch(views=3)
    params, share = FORMS[form]
    expected = slow_loss(share, views, ids, 0.3, 1 if mode == "one" else 3)
    criterion = SupCon(0.3, contrast_mode=mode, **params)
    assert_same(criterion(*views, condition=ids), expected, views)
    slopes = torch.autograd.grad(criterion(*views, condition=ids), views)
    single = [view.detach().float().requires_grad_() for view in views]
    loss = criterion(*single, condition=ids)
    torch.testing.assert_close(loss.double(), expected, rtol=2e-5, atol=2e-5)
    found = [g.double() for g in torch.autograd.grad(loss, single)]
    torch.testing.assert_close(found, [*slopes], rtol=2e-5, atol=2e-5)
    half = criterion(*(view.detach().bfloat16() for view in views), condition=ids)
    torch.testing.assert_close(half.double(), expected.detach(), rtol=0.02, atol=0.02)


def test_the_sum_inside_has_the_gradient_of_solo_learns_supervised_simclr():
    """There the positives are summed, not averaged."""
    (x, y), ids = random_batch()
    z, labels = torch.nn.functional.normalize(torch.cat([x, y]), dim=1), ids.repeat(2)
    scores, alike = (z @ z.T / 0.3).exp(), labels[:, None] == labels
    others = 1 - torch.eye(14)
    theirs = -((scores * alike * others).sum(1) / (scores * others).sum(1)).log().mean()
    number = (alike * others).sum(1).double()
    ours = SupCon(0.3, summation="inside")(x, y, condition=ids)
    assert_same(ours, theirs + number.log().mean(), (x, y))


@pytest.mark.parametrize("form", FORMS)
def test_in_a_batch_of_one_class_only_denominators_of_all_have_a_gradient(form):
    """With the sum inside, the positives' share is 1 there, whatever it is of each."""
    (x, y), ids = random_batch()[0], torch.zeros(7).long()
    loss = SupCon(0.2, **FORMS[form][0])(x, y, condition=ids)
    (gradient,) = torch.autograd.grad(loss, x)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert bool(gradient.any()) == (form == "all")


@pytest.mark.parametrize("form", FORMS)
def test_takes_positives_and_negatives_from_a_queue(form):
    params, share = FORMS[form]
    (x, y, queue), ids = random_batch(views=3)
    unit = [torch.nn.functional.normalize(view, dim=1) for view in (x, y, queue)]
    queue_ids, valid = torch.tensor([0, 2, 2, 1, 1, 5, 0]), torch.arange(7) < 6
    pairs = Pairs(
        samples=Samples(condition={"condition": ids}, index=torch.arange(7)),
        queue=Queue(
            unit[2],
            valid,
            {"condition": queue_ids},
            index=torch.tensor([0, 20, 21, 22, 23, 24, 25]),
        ),
        anchors=unit[0][None],
        keys=unit[1][None],
        anchor_views=(0,),
        key_views=(1,),
    )
    values = []
    for i in range(7):
        keys = [(y[j], ids[j]) for j in range(7)]
        keys += [(queue[k], queue_ids[k]) for k in range(6) if pairs.queue.index[k] != i]
        positives = [key for key, label in keys if label == ids[i]]
        others = [key for key, label in keys if label != ids[i]]
        values.append(share(x[i], positives, others, 0.3))
    loss = SupCon(0.3, **params).loss(pairs)
    assert_same(loss, slow_infonce.mean(values), (x, y))


@pytest.mark.parametrize("summation", ["outside", "inside"])
def test_an_anchor_without_positives_does_not_count(summation):
    (x,), ids = random_batch(views=1)
    one_view = Pairs(
        samples=Samples(condition={"condition": ids}),
        anchors=x[None],
        keys=x[None],
        anchor_views=(0,),
        key_views=(0,),
    )
    values, weights = SupCon(0.3, summation=summation).terms(one_view)
    assert weights.tolist() == [[1, 1, 1, 0, 1, 1, 1]]
    assert values.isfinite().all()
    assert values[0, 3] == 0


class WithMargin(SupCon):
    margin = 0.25


@pytest.mark.parametrize(("kind", "margin"), [(SupCon, 0.0), (WithMargin, 0.25)])
def test_a_subclass_may_compare_positives_with_a_margin(kind, margin):
    torch.manual_seed(0)
    views = torch.nn.functional.normalize(torch.randn(2, 6, 4, dtype=torch.float64), dim=-1)
    ids, terms = torch.tensor([0, 0, 1, 1, 2, 2]), []
    z, y = views.reshape(12, 4), ids.repeat(2)
    for a in range(12):
        negatives = sum((z[a] @ z[k] / 0.5).exp() for k in range(12) if y[k] != y[a])
        own = [z[a] @ z[k] / 0.5 for k in range(12) if k != a and y[k] == y[a]]
        logs = [((s - margin).exp() + negatives).log() - s for s in own]
        terms.append(sum(logs) / len(logs))
    loss = kind(temperature=0.5, denominator="negatives")(*views, condition=ids)
    torch.testing.assert_close(loss, torch.stack(terms).mean(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("product", [1.0, 1e13, 1e28, -1e28])
def test_keys_that_are_not_compared_do_not_count_however_large_their_products(product, dtype):
    products = torch.randn(6, 8, dtype=dtype, generator=torch.Generator().manual_seed(0))
    compared = torch.arange(8).expand(6, 8) % 3 != 0
    compared = compared & (torch.arange(6) != 2)[:, None]  # one anchor has none
    positives = compared & (torch.arange(8) < 3)
    given = products.where(compared, product).requires_grad_()
    values, weights = log_share([(given, compared, positives)], 0.5)
    (values * weights).sum().backward()
    kept = torch.arange(6) != 2
    alone = products[kept][:, compared[0]].requires_grad_()
    expected, _ = log_share([(alone, None, positives[kept][:, compared[0]])], 0.5)
    expected.sum().backward()
    assert weights.tolist() == kept.tolist()
    torch.testing.assert_close(values[kept], expected)
    assert values[2] == 0
    torch.testing.assert_close(given.grad[kept][:, compared[0]], alone.grad)
    assert given.grad[~compared].abs().max() < 1e-20
