from __future__ import annotations

import pytest
import torch

from ccl_plugins.backbones import LeNet5


def test_lenet5_maps_32_pixels_to_84_features():
    model = LeNet5()
    assert model(torch.randn(4, 3, 32, 32)).shape == (4, model.num_features) == (4, 84)
    assert LeNet5(in_channels=1)(torch.randn(4, 1, 32, 32)).shape == (4, 84)
    # Filters and two numbers for each normalized channel; matrices with their biases.
    expected = 25 * (3 * 6 + 6 * 16) + 2 * (6 + 16) + 401 * 120 + 121 * 84
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (2, 1, 32, 32), (3, 32, 32)])
def test_lenet5_quotes_images_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"\(n, 3, 32, 32\), not \(\d, "):
        LeNet5()(torch.randn(shape))


def test_the_classic_form_has_tanh_averages_and_a_linear_last_layer():
    model = LeNet5(in_channels=1, classic=True)
    images = x = torch.randn(3, 1, 32, 32)
    first, second, third, last = (layer for layer in model.layers if hasattr(layer, "weight"))
    for layer in (first, second):
        seen = layer(x).tanh()
        n, c, h, w = seen.shape
        x = seen.view(n, c, h // 2, 2, w // 2, 2).mean((3, 5))
    torch.testing.assert_close(model(images), last(third(x.flatten(1)).tanh()))
