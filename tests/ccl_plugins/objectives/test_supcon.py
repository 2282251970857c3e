from __future__ import annotations

import pytest
import torch
from support import slow_infonce
from support.slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import NTXent, SupCon
from ccl_plugins.pairs.pairs import Pairs


@pytest.mark.parametrize("count", [2, 3])
def test_equals_the_slow_loop_in_value_and_gradient(count):
    views, ids = random_batch(views=count)
    assert_same(
        SupCon(0.3)(*views, condition=ids), slow_infonce.supcon(views, ids, 0.3), tuple(views)
    )


def test_with_classes_of_one_sample_it_is_nt_xent():
    (x, y), _ = random_batch()
    torch.testing.assert_close(SupCon(0.2)(x, y, condition=torch.arange(7)), NTXent(0.2)(x, y))


def test_takes_positives_and_negatives_from_a_queue():
    (x, y, queue), ids = random_batch(views=3)
    unit = [torch.nn.functional.normalize(view, dim=1) for view in (x, y, queue)]
    queue_ids, valid = torch.tensor([0, 2, 2, 1, 1, 5, 0]), torch.arange(7) < 6
    pairs = Pairs(
        anchors=unit[0][None],
        keys=unit[1][None],
        anchor_views=(0,),
        key_views=(1,),
        condition={"condition": ids},
        index=torch.arange(7),
        queue=unit[2],
        queue_valid=valid,
        queue_condition={"condition": queue_ids},
        queue_index=torch.tensor([0, 20, 21, 22, 23, 24, 25]),
    )
    values = []
    for i in range(7):
        keys = [(y[j], ids[j]) for j in range(7)]
        keys += [(queue[k], queue_ids[k]) for k in range(6) if pairs.queue_index[k] != i]
        positives = [key for key, label in keys if label == ids[i]]
        others = [key for key, label in keys if label != ids[i]]
        values.append(slow_infonce.share(x[i], positives, others, 0.3))
    assert_same(SupCon(0.3).loss(pairs), slow_infonce.mean(values), (x, y))


def test_an_anchor_without_positives_does_not_count():
    (x,), ids = random_batch(views=1)
    one_view = Pairs(
        anchors=x[None],
        keys=x[None],
        anchor_views=(0,),
        key_views=(0,),
        condition={"condition": ids},
    )
    values, weights = SupCon(0.3).terms(one_view)
    assert weights.tolist() == [[1, 1, 1, 0, 1, 1, 1]]
    assert values.isfinite().all()
    assert values[0, 3] == 0
