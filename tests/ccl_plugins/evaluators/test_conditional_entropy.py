from __future__ import annotations

import pytest
import torch

from ccl_plugins.evaluators.conditional_entropy import conditional_entropy


def test_conditional_entropy_refuses_a_single_sample():
    with pytest.raises(ValueError, match=r"at least 2, not \(1, 4\)"):
        conditional_entropy(torch.randn(1, 4))


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (1, 4)])
def test_conditional_entropy_quotes_another_shape(shape):
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        conditional_entropy(torch.randn(shape))
    assert str(error.value) == f"embeddings must be (M, d) with M of at least 2, not {shape}"


def test_conditional_entropy_is_that_of_the_negatives_of_normalized_embeddings():
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unit, total = x / x.norm(dim=1, keepdim=True), 0.0
    for i in range(5):
        logits = torch.stack([-(unit[i] - unit[j]).square().sum() for j in range(5) if j != i])
        shares = logits.softmax(0)
        total = total - (shares * shares.log()).sum() / 5
    torch.testing.assert_close(conditional_entropy(x), total)
    assert conditional_entropy(x[:2]) == 0
