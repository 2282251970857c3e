from __future__ import annotations

import torch

from ccl_plugins.objectives import ClInfoNCE, SupCon


def test_is_supcon_on_clusters():
    torch.manual_seed(0)
    x, y, ids = torch.randn(9, 4), torch.randn(9, 4), torch.randint(3, (9,))
    torch.testing.assert_close(
        ClInfoNCE(0.2)(x, y, condition=ids), SupCon(0.2)(x, y, condition=ids)
    )
