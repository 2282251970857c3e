"""lightly's heads by name."""

from __future__ import annotations

import inspect

import pytest
import torch
from lightly.models.modules import heads
from support.sharded import Small
from torch import nn

import ccl_plugins as ccl
from ccl_plugins.methods import MoCoV2, SimCLR, mlp_head
from ccl_plugins.methods.heads import _lightly_heads

SIZES = {"hidden": 12, "dim": 8}
SAME = {
    "BYOLProjectionHead": {"layers": 2, "last_norm": "none"},
    "BarlowTwinsProjectionHead": {"layers": 3, "last_norm": "none"},
    "DenseCLProjectionHead": {"layers": 2, "batch_norm": False},
    "LeJEPAProjectionHead": {"layers": 3, "last_norm": "none"},
    "MoCoProjectionHead": {"layers": 2, "batch_norm": False},
    "NNCLRProjectionHead": {"layers": 3},
    "SimCLRProjectionHead": {"layers": 2},
    "SimSiamProjectionHead": {"layers": 3, "last_norm": "plain"},
    "SMoGProjectionHead": {"layers": 2, "last_norm": "plain"},
    "SwaVProjectionHead": {"layers": 2, "last_norm": "none"},
    "TiCoProjectionHead": {"layers": 2, "last_norm": "none"},
    "VICRegProjectionHead": {"layers": 3, "last_norm": "none"},
}
"""Heads that are also a matter of SimCLR's own settings."""


def assert_equal_heads(found, expected):
    assert repr(found.layers) == repr(expected.layers)
    torch.testing.assert_close(dict(found.state_dict()), dict(expected.state_dict()))
    x = torch.randn(5, 16)
    torch.testing.assert_close(found(x), expected(x))


@pytest.mark.parametrize("name", _lightly_heads())
@pytest.mark.parametrize("method", [SimCLR, MoCoV2])
def test_a_head_by_name_is_lightlys_own(name, method):
    torch.manual_seed(0)
    backbone, state = Small(), torch.get_rng_state()
    queue = {"queue_size": 8} if method is MoCoV2 else {}
    found = method(**SIZES, head=name, **queue, backbone=backbone).head
    torch.set_rng_state(state)
    assert_equal_heads(found, getattr(heads, name)(16, hidden_dim=12, output_dim=8))


@pytest.mark.parametrize("name", SAME)
def test_simclrs_own_settings_build_the_same_architecture(name):
    torch.manual_seed(0)
    expected = getattr(heads, name)(16, hidden_dim=12, output_dim=8)
    torch.manual_seed(0)
    found = mlp_head(16, 12, 8, **{"batch_norm": True, **SAME[name]})
    assert_equal_heads(found, expected)


def test_arguments_of_a_head_are_given_beside_its_name():
    method = ccl.create(
        "method",
        "simclr",
        **SIZES,
        head={"name": "VICRegProjectionHead", "num_layers": 2},
        backbone=Small(),
    )
    assert [m.out_features for m in method.head.modules() if isinstance(m, nn.Linear)] == [12, 8]
    one = {"name": "MMCRProjectionHead", "num_layers": 1}
    method = SimCLR(**SIZES, head=one, backbone=Small())  # it counts the hidden layers
    assert [m.out_features for m in method.head.modules() if isinstance(m, nn.Linear)] == [12, 8]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"head": "VICRegHead"}, ValueError, "Did you mean 'VICRegProjectionHead'"),
        ({"head": "DINOProjectionHead"}, ValueError, "no projection head 'DINO.* of one output"),
        ({"head": "BYOLPredictionHead"}, ValueError, "Did you mean 'BYOLProjectionHead'"),
        ({"head": "x"}, ValueError, r"of one output\. There are: (\w+Head, )+\w+Head\.$"),
        ({"head": {"num_layers": 2}}, TypeError, "head must be a name or"),
        ({"head": {"name": "BYOLProjectionHead", "x": 2}}, TypeError, "takes no arguments .* 'x'"),
        (
            {"head": {"name": "MMCRProjectionHead", "output_dim": 2}},
            TypeError,
            "takes num_layers, batch_norm, use_bias beside hidden and dim, not 'output_dim'",
        ),
        (
            {"head": {"name": "VICRegProjectionHead", "num_layers": 1}},
            ValueError,
            "num_layers must be 2 or more, not 1",
        ),
        (
            {"head": {"name": "MMCRProjectionHead", "num_layers": 0}},
            ValueError,
            "num_layers must be 1 or more, not 0",
        ),
        (
            {"head": "VICRegProjectionHead", "layers": 3},
            ValueError,
            "'VICRegProjectionHead' has layers of its own: leave out layers=3",
        ),
        ({"head": "MoCoProjectionHead", "hidden": 0}, ValueError, "hidden must be 1 or more"),
        ({"head": "MoCoProjectionHead", "dim": 0}, ValueError, "^dim must be 1 or more"),
    ],
)
def test_what_a_head_cannot_be_built_with_is_named(settings, error, message):
    with pytest.raises(error, match=message):
        SimCLR(**{**SIZES, **settings}, backbone=Small())


LEAST = {"hidden": 1, "bottleneck": 1, "dim": 1, "queue_size": 1, "key_views": 1, "frozen": 0}


@pytest.mark.parametrize("name", ["simclr", "moco_v2", "moco_v3", "byol", "simsiam", "dino"])
def test_every_width_may_be_one(name):
    declared = inspect.signature(getattr(ccl.method, name)).parameters
    least = {key: LEAST[key] for key in declared if key in LEAST}
    method = ccl.create("method", name, **least, backbone=Small())
    assert method.eval().project(torch.randn(2, 3, 4, 4)).shape == (2, 1)
    for key in least.keys() & vars(method).keys():
        assert getattr(method, key) == least[key]
