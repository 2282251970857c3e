from __future__ import annotations

import oracle
import pytest
import torch

from ccl_plugins.objectives.transport import conditional_entropy


@pytest.mark.parametrize("t", [1.0, 2.0])
def test_conditional_entropy_equals_the_stored_value(t):
    case = oracle.case(f"cond_entropy_eq8_t{t}")
    x = oracle.tensors(case["inputs"])["x"]
    expected = torch.tensor(case["expected_paper"], dtype=torch.float64)
    torch.testing.assert_close(conditional_entropy(x, t), expected, rtol=1e-9, atol=0)
    simplex = torch.eye(12)
    largest = torch.tensor(case["extras"]["max_value"])
    torch.testing.assert_close(conditional_entropy(simplex, t), largest)


def test_conditional_entropy_refuses_a_single_sample():
    with pytest.raises(ValueError, match=r"at least 2, not \(1, 4\)"):
        conditional_entropy(torch.randn(1, 4))
