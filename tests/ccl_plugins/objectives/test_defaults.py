"""The defaults, which are part of what a pipeline without a parameter means."""

from __future__ import annotations

import inspect

import pytest
from support.every_objective import classes

DEFAULTS = {
    "align_uniform": {"power": 2.0, "precision": 2.0, "align_weight": 1.0, "uniform_weight": 1.0},
    "cacr": {
        "t_plus": 1.0,
        "t_minus": 2.0,
        "positives": None,
        "conditional_positives": True,
        "conditional_negatives": True,
        "attraction_weight": 1.0,
        "repulsion_weight": 1.0,
        "cost": "euclidean",
        "precision": 2.0,
        "negatives": "same_view",
        "symmetric": True,
        "weight_gradient": True,
        "intra_batch": True,
        "tau_plus": 0.0,
    },
    "cacr_moco_v3": {"temperature": 1.0, "cost": "rbf"},
    "cl_infonce": {"temperature": 0.1, "form": "paper", "base_temperature": None},
    "classification": {"hidden": None, "ridge": None, "classes": None},
    "cluster_cross_entropy": {"dim": None, "classes": None, "of": "backbone"},
    "cmc": {"temperature": 0.07, "graph": "full", "reduction": "sum"},
    "debiased": {"temperature": 0.5, "tau_plus": 0.1, "within_view": True},
    "fair_cclk": {
        "temperature": 0.1,
        "ridge": 0.01,
        "symmetric": True,
        "negative_weights": "clip",
        "form": "paper",
        "landmarks": None,
    },
    "fair_infonce": {"temperature": 0.1, "within_view": False, "symmetric": True},
    "hardneg_cclk": {
        "temperature": 0.1,
        "ridge": 0.01,
        "symmetric": True,
        "negative_weights": "clip",
        "form": "paper",
        "landmarks": None,
    },
    "hardneg_infonce": {"temperature": 0.1, "nearest": 16, "within_view": False, "symmetric": True},
    "hcl": {
        "temperature": 0.5,
        "beta": 1.0,
        "tau_plus": 0.1,
        "weight_gradient": True,
        "within_view": True,
    },
    "hscl": {
        "temperature": 0.5,
        "beta": 1.0,
        "threshold": None,
        "weight_gradient": True,
        "positives": "one",
        "average": "pairs",
        "o": "batch",
        "within_view": True,
    },
    "hucl": {
        "temperature": 0.5,
        "beta": 1.0,
        "threshold": None,
        "weight_gradient": True,
        "o": "batch",
        "within_view": True,
    },
    "infonce": {"temperature": 0.1, "within_view": False, "symmetric": True},
    "guided": {"balance": None},
    "hsic": {"kernel": None, "embedding_kernel": None, "estimator": "unbiased"},
    "lightly": {"options": None},
    "mixture": {"weights": None},
    "nt_xent": {"temperature": 0.1},
    "prototypes": {"temperature": 0.1, "momentum": 0.9, "classes": None},
    "regression": {"hidden": None, "ridge": None},
    "scl": {
        "temperature": 0.5,
        "positives": "one",
        "average": "pairs",
        "o": "batch",
        "within_view": True,
    },
    "soft_infonce": {
        "temperature": 0.1,
        "target_temperature": None,
        "own": True,
        "within_view": False,
        "symmetric": True,
    },
    "supcon": {"temperature": 0.1, "denominator": "all"},
    "ucl": {"temperature": 0.5, "o": "batch", "within_view": True},
    "weaklysup_cclk": {
        "temperature": 0.1,
        "ridge": 0.01,
        "symmetric": True,
        "negative_weights": "clip",
        "form": "paper",
        "landmarks": None,
    },
    "weaklysup_infonce": {"temperature": 0.1, "symmetric": True},
}
COMMON = {"exclude": None, "gather_distributed": False, "on": "condition"}
"""Of all objectives that have them."""


def defaults(component):
    parameters = inspect.signature(component).parameters.items()
    return {name: p.default for name, p in parameters if p.default is not p.empty}


@pytest.mark.parametrize("name", classes())
def test_a_default_does_not_change_unnoticed(name):
    found = defaults(classes()[name])
    assert found == {**DEFAULTS[name], **{k: v for k, v in COMMON.items() if k in found}}
