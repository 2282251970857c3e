from __future__ import annotations

import oracle
import pytest
import slow_loops
import torch
from slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import NTXent


@pytest.mark.parametrize("name", oracle.names("ntxent_*"))
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
def test_equals_the_stored_value(name, dtype, rtol):
    case = oracle.case(name)
    data = oracle.tensors(case["inputs"], dtype)
    found = NTXent(case["params"]["tau"])(data["x"], data["y"])
    torch.testing.assert_close(
        found, torch.tensor(case["expected_code"], dtype=dtype), rtol=rtol, atol=0
    )


def test_equals_the_slow_loop_in_value_and_gradient():
    (x, y), _ = random_batch()
    assert_same(NTXent(0.3)(x, y), slow_loops.nt_xent(x, y, 0.3), (x, y))
