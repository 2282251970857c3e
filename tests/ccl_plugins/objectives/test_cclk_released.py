"""What the released code of CCL-K computes, in value and gradient."""

from __future__ import annotations

import warnings

import pytest
import torch
from support import slow_loops
from support.slow_infonce import assert_same, random_batch

from ccl_plugins.kernels import RBF, Cosine, Laplacian, Linear, Polynomial
from ccl_plugins.objectives import FairCCLK, HardNegCCLK, WeaklySupCCLK
from ccl_plugins.pairs import Samples, in_batch

OBJECTIVES = {"weaklysup": WeaklySupCCLK, "fair": FairCCLK, "hardneg": HardNegCCLK}
KERNELS = {"rbf": RBF, "laplacian": Laplacian, "linear": Linear, "polynomial": Polynomial}


def make_kernel(name, scale):
    return Cosine() if name == "cosine" else KERNELS[name](scale=scale)


@pytest.mark.parametrize("tau", [0.4, 0.02])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
@pytest.mark.parametrize("kind", ["weaklysup", "fair"])
def test_equals_the_slow_loop_in_value_and_gradient(kind, kernel, tau):
    """At 0.02 scores pass 1e20, where the released code's clamp cuts the gradient."""
    (x, y), _ = random_batch()
    z = torch.randn(7, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    gram = slow_loops.gram(kernel, z, scale=1.7)
    with warnings.catch_warnings(record=True):
        objective = OBJECTIVES[kind](
            make_kernel(kernel, 1.7), tau, ridge=0.3, form="released", symmetric=False
        )
    slow = slow_loops.cclk_released(kind, x, y, gram, 0.3, tau)
    assert_same(objective(x, y, condition=z), slow, (x, y))


@pytest.mark.parametrize(("form", "sign"), [("paper", -1), ("released", 1)])
def test_weaklysup_as_released_repels_a_sample_s_own_views(form, sign):
    """Along the own key, the anchor's value falls in the paper's form and rises in the released."""
    (x, y), _ = random_batch()
    x, y = (torch.nn.functional.normalize(view.detach(), dim=1) for view in (x, y))
    z = torch.randn(7, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    y.requires_grad_()
    objective = WeaklySupCCLK(RBF(0.5), 0.4, form=form, symmetric=False)
    values, _ = objective.terms(in_batch(torch.stack([x, y]), Samples({"condition": z})))
    for i in range(7):
        gradient = torch.autograd.grad(values[0, i], y, retain_graph=True)[0]
        assert sign * (gradient[i] @ x[i]) > 0


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_a_kernel_that_no_weight_survives_gives_no_nan(kind):
    (x, y), _ = random_batch()
    loss = OBJECTIVES[kind](RBF(1e-4), form="released")(x, y, condition=torch.arange(7.0))
    gradient = torch.autograd.grad(loss, x)[0]
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_a_matrix_that_the_kernel_keeps_is_left_alone():
    class Keeping(RBF):
        def __call__(self, a, b):
            self.kept = 2 * super().__call__(a, b)
            return self.kept

    kernel = Keeping(1.0)
    (x, y), _ = random_batch()
    WeaklySupCCLK(kernel, form="released")(x, y, condition=torch.arange(7.0))
    assert (kernel.kept.diagonal() == 2).all()


LOW = {"schedule": "linear", "start": 0.1, "end": 0.02}


@pytest.mark.parametrize("temperature", [0.0217, 0.01, LOW, {"learn": True, "start": 0.02}])
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_a_temperature_at_which_the_released_clamp_cuts_warns_once_at_construction(
    kind, temperature
):
    with pytest.warns(UserWarning, match="clamps sums of exponentials at 1e20") as found:
        objective = OBJECTIVES[kind](RBF(), temperature, form="released")
    assert len(found) == 1
    (x, y), _ = random_batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective(x, y, condition=torch.arange(7.0))
        OBJECTIVES[kind](RBF(), temperature)
        OBJECTIVES[kind](RBF(), 0.0218, form="released")
