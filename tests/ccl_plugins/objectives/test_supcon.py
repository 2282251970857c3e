from __future__ import annotations

import pytest
import torch
from support import slow_infonce
from support.slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import SupCon
from ccl_plugins.pairs import Pairs, Queue, Samples

SHARES = {"all": slow_infonce.share, "negatives": slow_infonce.each_share}


@pytest.mark.parametrize("denominator", SHARES)
def test_in_a_batch_of_one_class_only_supcon_has_a_gradient(denominator):
    (x, y), ids = random_batch()[0], torch.zeros(7).long()
    loss = SupCon(0.2, denominator=denominator)(x, y, condition=ids)
    (gradient,) = torch.autograd.grad(loss, x)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert bool(gradient.any()) == (denominator == "all")


@pytest.mark.parametrize("denominator", SHARES)
def test_takes_positives_and_negatives_from_a_queue(denominator):
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
        values.append(SHARES[denominator](x[i], positives, others, 0.3))
    loss = SupCon(0.3, denominator=denominator).loss(pairs)
    assert_same(loss, slow_infonce.mean(values), (x, y))


def test_an_anchor_without_positives_does_not_count():
    (x,), ids = random_batch(views=1)
    one_view = Pairs(
        samples=Samples(condition={"condition": ids}),
        anchors=x[None],
        keys=x[None],
        anchor_views=(0,),
        key_views=(0,),
    )
    values, weights = SupCon(0.3).terms(one_view)
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
