from __future__ import annotations

import pytest
import torch
from torch import nn

from ccl_plugins.backbones import SmallAlexNet


@pytest.mark.parametrize(("size", "flat"), [(32, 192 * 9), (64, 192 * 49), (15, 192)])
def test_the_layers_have_the_published_widths(size, flat):
    with torch.device("meta"):
        model = SmallAlexNet(size=size).eval()
        features = model(torch.empty(2, 3, size, size))
    assert features.shape == (2, model.num_features) == (2, 4096)
    weights = [tuple(p.shape) for p in model.parameters() if p.ndim > 1]
    assert weights == [
        (96, 3, 3, 3),
        (192, 96, 3, 3),
        (384, 192, 3, 3),
        (384, 384, 3, 3),
        (192, 384, 3, 3),
        (4096, flat),
        (4096, 4096),
    ]
    # Nothing beside them but two numbers for each normalized channel.
    rest = sum(p.numel() for p in model.parameters() if p.ndim == 1)
    assert rest == 2 * (96 + 192 + 384 + 384 + 192 + 4096 + 4096)


def test_weights_are_drawn_as_the_released_code_draws_them():
    torch.manual_seed(0)
    for module in SmallAlexNet(size=16).modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            torch.testing.assert_close(module.weight.std(), torch.tensor(0.02), rtol=0.05, atol=0)


def test_what_does_not_fit_is_quoted():
    with torch.device("meta"):
        model = SmallAlexNet(size=16)
        with pytest.raises(ValueError, match=r"\(n, 3, 16, 16\), not \(2, 3, 32, 32\)"):
            model(torch.empty(2, 3, 32, 32))
