from __future__ import annotations

import oracle
import pytest
import torch

from ccl_plugins.objectives import ClInfoNCE, SupCon
from ccl_plugins.pairs import Pairs

CASES = [name for name in oracle.names("clinfonce_*") if not name.endswith("explicit")]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
def test_equals_the_stored_values(name, dtype, rtol):
    case = oracle.case(name)
    data, tau = oracle.tensors(case["inputs"], dtype), case["params"]["tau"]
    for objective, key in [
        (ClInfoNCE(tau), "expected_paper"),
        (ClInfoNCE(tau, form="released"), "expected_code"),
        (ClInfoNCE(tau, base_temperature=0.07), "expected_code"),
    ]:
        found = objective(data["x"], data["y"], condition=data["z"])
        torch.testing.assert_close(found, torch.tensor(case[key], dtype=dtype), rtol=rtol, atol=0)


@pytest.mark.parametrize("name", ["clinfonce_labels_tau0.1", "clinfonce_labels_tau0.2"])
def test_equals_the_stored_gradient(name):
    case = oracle.case(name)
    data = oracle.tensors(case["inputs"])
    x, y = data["x"].requires_grad_(), data["y"].requires_grad_()
    loss = ClInfoNCE(case["params"]["tau"], form="released")(x, y, condition=data["z"])
    for found, key in zip(torch.autograd.grad(loss, (x, y)), "xy", strict=True):
        stored = case["extras"]["grad_code"][key]
        assert_close = torch.testing.assert_close
        assert_close(found.norm().item(), stored["l2"], rtol=1e-9, atol=0)
        assert_close(found[0].tolist(), stored["row0"], rtol=1e-9, atol=1e-12)


def test_draws_give_equation_1_as_printed():
    case = oracle.case("clinfonce_eq1_explicit")
    data = oracle.tensors(case["inputs"])
    x, y = (torch.nn.functional.normalize(data[key], dim=1) for key in "xy")
    n = len(x)
    partners = Pairs(
        anchors=x[None],
        keys=y[data["pair_idx"]][None],
        anchor_views=(0,),
        key_views=(1,),
        draws=torch.arange(n).expand(n, n),
    )
    expected = torch.tensor(case["expected_paper"], dtype=torch.float64)
    found = ClInfoNCE(case["params"]["tau"]).loss(partners)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)


def test_is_supcon_on_clusters():
    torch.manual_seed(0)
    x, y, ids = torch.randn(9, 4), torch.randn(9, 4), torch.randint(3, (9,))
    torch.testing.assert_close(
        ClInfoNCE(0.2)(x, y, condition=ids), SupCon(0.2)(x, y, condition=ids)
    )
