"""The defaults, which are part of what a pipeline without a parameter means."""

from __future__ import annotations

import inspect

import pytest

from ccl_plugins.methods import BYOL, MoCoV2, MoCoV3, SimCLR, SimSiam, mlp_head

DEFAULTS = {
    "BYOL": {"hidden": 4096, "dim": 256, "momentum": 0.996},
    "SimCLR": {
        "hidden": 2048,
        "dim": 128,
        "layers": 2,
        "batch_norm": True,
        "last_norm": "affine",
        "head": None,
        "joint": True,
    },
    "SimSiam": {"hidden": 2048, "dim": 2048, "bottleneck": 512},
    "MoCoV2": {
        "hidden": 2048,
        "dim": 128,
        "layers": 2,
        "batch_norm": False,
        "queue_size": 65536,
        "momentum": 0.999,
        "symmetric": False,
        "shuffle": True,
        "own_in_queue": "ignore",
        "head": None,
    },
    "MoCoV3": {"hidden": 4096, "dim": 256, "heads": "vit", "batch_norm": True, "momentum": 0.99},
}


def defaults(component):
    parameters = inspect.signature(component).parameters.items()
    return {name: p.default for name, p in parameters if p.default is not p.empty}


HEAD = {"batch_norm": True, "last_norm": "affine", "last_bias": True}


def test_heads_end_in_a_norm_by_default():
    assert defaults(mlp_head) == HEAD


@pytest.mark.parametrize("method", [BYOL, SimCLR, SimSiam, MoCoV2, MoCoV3])
def test_a_default_does_not_change_unnoticed(method):
    assert defaults(method) == DEFAULTS[method.__name__]
