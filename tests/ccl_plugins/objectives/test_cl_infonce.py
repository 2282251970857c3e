from __future__ import annotations

import torch

from ccl_plugins.objectives import ClInfoNCE, NTXent, SupCon


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
