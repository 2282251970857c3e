from __future__ import annotations

import pytest
import torch

from ccl_plugins.objectives.transport import conditional_entropy


def test_conditional_entropy_refuses_a_single_sample():
    with pytest.raises(ValueError, match=r"at least 2, not \(1, 4\)"):
        conditional_entropy(torch.randn(1, 4))
