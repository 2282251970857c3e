"""KoLeo equals a loop and lightly's loss, on projections and on features, alone and in a mixture."""

from __future__ import annotations

import pytest
import torch
from lightly.loss import KoLeoLoss as Theirs

from ccl_plugins.objectives import InfoNCE, KoLeo, Mixture
from ccl_plugins.pairs import Samples, with_keys
from ccl_plugins.testing import equals


def embeddings(count=2, seed=1, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(count, 7, 5, generator=generator, dtype=torch.float64).to(dtype))


def slow(*views):
    """The mean over views and samples of minus the logarithm of the least distance within the view."""
    total = 0.0
    for view in views:
        units = [x / x.norm() for x in view]
        for i, x in enumerate(units):
            distances = [(x - y).norm() for j, y in enumerate(units) if i != j]
            total = total - torch.log(min(distances)) / (len(view) * len(views))
    return total


def test_it_is_lightlys_loss_of_each_view():
    theirs = Theirs()
    equals(KoLeo(), lambda x, y: (theirs(x) + theirs(y)) / 2, embeddings(), tolerance=1e-9)


def test_features_of_the_first_views_are_spread():
    x, y, z = embeddings(3)
    objective = KoLeo("features", views=2)
    found = objective(*embeddings(3, seed=2), features=(x, y, z))
    torch.testing.assert_close(found, slow(x, y), rtol=1e-6, atol=0)
    with pytest.raises(TypeError, match="KoLeo reads backbone features"):
        objective(x, y, z)


def test_it_is_a_further_term_of_a_mixture_whatever_the_keys_are():
    anchors, keys, features = (torch.stack(embeddings(2, seed)) for seed in (1, 2, 3))
    samples = Samples(features=features)
    pairs = with_keys(anchors, keys, samples, first_key_view=0).normalized()
    expected = InfoNCE().loss(pairs) + 0.1 * slow(*features)
    found = Mixture([InfoNCE(), KoLeo("features")], [1, 0.1]).loss(pairs)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_equal_samples_have_a_finite_gradient():
    x = torch.ones(4, 5).requires_grad_()
    loss = KoLeo()(x)
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()


def test_a_single_sample_is_refused():
    with pytest.raises(ValueError, match="a batch needs at least 2"):
        KoLeo()(torch.ones(1, 5))
