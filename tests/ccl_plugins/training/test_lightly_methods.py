"""Pipelines of BYOL, SimSiam, Barlow Twins and VICReg train, alone and with a conditional term."""

from __future__ import annotations

import tomllib

import pytest
import torch
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.objectives import Mixture

SIZES = {"hidden": 8, "dim": 4}
METHODS = {
    "byol": ({"use": "byol", **SIZES}, "NegativeCosineSimilarity"),
    "simsiam": ({"use": "simsiam", "bottleneck": 2, **SIZES}, "NegativeCosineSimilarity"),
    "barlow twins": (
        {"use": "simclr", "head": "BarlowTwinsProjectionHead", "joint": False, **SIZES},
        "BarlowTwinsLoss",
    ),
    "vicreg": (
        {"use": "simclr", "head": {"name": "VICRegProjectionHead", "num_layers": 2}, **SIZES},
        "VICRegLoss",
    ),
}
FAIR = {"use": "fair_cclk", "kernel": "rbf"}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.usefixtures("in_a_folder_with_data")
def test_a_run_of_it_with_a_conditional_term_trains_and_is_rebuilt(name):
    method, loss = METHODS[name]
    own = {"use": "lightly", "loss": loss}
    both = {"use": "mixture", "objectives": [own, FAIR], "weights": [1.0, 0.5]}
    table = tomllib.loads(TOML) | {
        "method": method,
        "objective": both,
        "condition": {"use": "column", "name": "age"},
        "monitor": "off",
    }
    run = ccl.Pipeline.from_dict(table).fit(out="run", progress=False)
    assert run.progress == (2, 2)
    assert run.parts.method.state_dict().keys() == ccl.load("run").parts.method.state_dict().keys()


@pytest.mark.usefixtures("in_a_folder_with_data")
def test_a_condition_of_the_embedding_is_on_the_sphere_beside_raw_embeddings(monkeypatch):
    seen, loss = [], Mixture.loss
    monkeypatch.setattr(
        Mixture, "loss", lambda self, pairs: seen.append(pairs) or loss(self, pairs)
    )
    hard = {"use": "hardneg_cclk", "kernel": "rbf"}
    own = {"use": "lightly", "loss": "VICRegLoss"}
    table = tomllib.loads(TOML) | {
        "objective": {"use": "mixture", "objectives": [own, hard]},
        "condition": "embedding",
        "monitor": "off",
    }
    ccl.Pipeline.from_dict(table).fit(out="run", progress=False)
    raw, condition = seen[-1].anchors.detach(), seen[-1].samples.condition["condition"]
    assert not torch.allclose(raw.norm(dim=-1), torch.ones(()))
    torch.testing.assert_close(condition, torch.nn.functional.normalize(raw, dim=-1))


def test_a_queue_beside_it_is_a_warning():
    table = tomllib.loads(TOML) | {
        "method": {"use": "moco_v2", "queue_size": 32, **SIZES},
        "objective": {"use": "lightly", "loss": "VICRegLoss"},
    }
    with pytest.warns(UserWarning, match="Lightly does not compare with a queue"):
        ccl.Pipeline.from_dict(table)


def test_too_few_views_are_refused_before_a_run():
    table = tomllib.loads(TOML) | {"objective": {"use": "lightly", "loss": "LeJEPALoss"}}
    with pytest.raises(ValueError, match="needs at least 3 views, and this transform gives 2"):
        ccl.Pipeline.from_dict(table)
