"""The debiased loss is HCL without hard weights, and against a slow loop."""

from __future__ import annotations

import pytest
import torch
from support import slow_hardness

from ccl_plugins.objectives import HCL, Debiased, NTXent
from ccl_plugins.testing import equals


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize(("tau", "tau_plus"), [(0.5, 0.1), (0.2, 0.7)])
def test_equals_the_slow_loop_in_value_and_gradient(tau, tau_plus, within, dtype):
    generator = torch.Generator().manual_seed(0)
    views = tuple(torch.randn(2, 7, 5, generator=generator, dtype=torch.float64))

    def loop(x, y):
        x, y = x.double(), y.double()
        return slow_hardness.two_views(
            x, y, o="negatives", within=within, tau=tau, tau_plus=tau_plus
        )

    objective = Debiased(tau, tau_plus=tau_plus, within_view=within)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    equals(objective, loop, [view.to(dtype) for view in views], tolerance=tolerance)


def test_it_is_hcl_without_hard_weights_and_nt_xent_without_false_negatives():
    views = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = HCL(0.3, beta=0.0, tau_plus=0.2)(*views)
    torch.testing.assert_close(Debiased(0.3, tau_plus=0.2)(*views), expected, rtol=0, atol=0)
    torch.testing.assert_close(Debiased(0.3, tau_plus=0)(*views), NTXent(0.3)(*views))
