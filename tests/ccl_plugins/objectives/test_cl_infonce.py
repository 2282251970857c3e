from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn.functional import normalize

from ccl_plugins.objectives import ClInfoNCE, NTXent, SupCon
from ccl_plugins.pairs import Samples, in_batch


def test_is_supcon_on_clusters():
    torch.manual_seed(0)
    x, y, ids = torch.randn(9, 4), torch.randn(9, 4), torch.randint(3, (9,))
    torch.testing.assert_close(
        ClInfoNCE(0.2)(x, y, condition=ids), SupCon(0.2)(x, y, condition=ids)
    )


def test_with_every_sample_a_cluster_of_its_own_it_is_nt_xent():
    torch.manual_seed(0)
    x, y = torch.randn(9, 4), torch.randn(9, 4)
    torch.testing.assert_close(ClInfoNCE(0.2)(x, y, condition=torch.arange(9)), NTXent(0.2)(x, y))


def test_of_one_draw_the_value_is_its_score_above_the_own_key_s():
    views = normalize(torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0)), dim=-1)
    draws = torch.tensor([[1], [2], [3], [0]])
    pairs = in_batch(views, Samples({"condition": torch.tensor([0, 1, 0, 1])}))
    values, weights = ClInfoNCE(0.2).terms(replace(pairs, draws=draws))
    products = views[0] @ views[1].T / 0.2
    drawn = products.gather(1, draws)[:, 0]
    torch.testing.assert_close(values[0], drawn - products.diagonal())
    assert torch.equal(weights, torch.ones_like(values))
