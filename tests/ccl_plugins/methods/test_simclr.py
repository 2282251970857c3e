from __future__ import annotations

import pytest
import torch
from lightly.models.modules import SimCLRProjectionHead
from lightly.utils import dist
from torch import nn

from ccl_plugins.methods import SimCLR
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs import Samples


class Flat(nn.Module):
    num_features = 12

    def forward(self, x):
        return x.flatten(1)


def test_simclr_embeds_all_views_and_pairs_them():
    torch.manual_seed(0)
    model = SimCLR(hidden=16, dim=8, backbone=Flat())
    views = [torch.randn(5, 3, 2, 2) for _ in range(3)]
    embedded = model.embed(views)
    assert embedded.features.shape == (3, 5, 12)
    assert embedded.projections.shape == (3, 5, 8)
    torch.testing.assert_close(embedded.features[1], views[1].flatten(1))
    pairs = model.pairs(embedded.normalized(), Samples(index=torch.arange(5)))
    torch.testing.assert_close(pairs.keys.norm(dim=-1), torch.ones(3, 5))
    InfoNCE().loss(pairs).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_head_may_be_linear_or_end_in_a_norm_of_its_own_kind():
    def kinds(**settings):
        head = SimCLR(hidden=16, dim=8, backbone=Flat(), **settings).head
        return [type(layer).__name__ for layer in head.layers], head.layers

    assert kinds(layers=1, batch_norm=False)[0] == ["Linear"]
    names, layers = kinds(last_norm="plain")
    assert names == ["Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d"]
    assert not layers[-1].affine
    assert layers[-2].bias is None
    names, layers = kinds(last_norm="none")
    assert names == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
    assert layers[-1].bias is not None


def test_pairs_are_of_all_processes_and_have_what_is_known_of_samples(monkeypatch):
    model, age = SimCLR(hidden=16, dim=8, backbone=Flat()), {"age": torch.rand(5)}
    embedded = model.embed([torch.randn(5, 3, 2, 2) for _ in range(2)])
    pairs = model.pairs(embedded, Samples(age, torch.arange(5), embedded.features))
    torch.testing.assert_close(
        (pairs.samples.condition, pairs.samples.index), (age, torch.arange(5))
    )
    assert pairs.samples.features is embedded.features
    monkeypatch.setattr(dist, "world_size", lambda: 2)
    monkeypatch.setattr(dist, "gather", lambda x: (x, x))
    assert model.pairs(embedded, Samples(age, torch.arange(5))).keys.shape == (2, 10, 8)


@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("layers", [2, 3])
def test_the_head_is_lightlys(layers, batch_norm):
    theirs = SimCLRProjectionHead(12, 16, 8, layers, batch_norm)
    ours = SimCLR(16, 8, layers, batch_norm, backbone=Flat()).head
    assert repr(ours.layers) == repr(theirs.layers)
