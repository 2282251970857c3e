"""By name, in a pipeline, each objective trains, and what it keeps comes back with the run."""

from pathlib import Path

import ccl_plugins as ccl
import pytest
from ccl_plugins import cli

EXAMPLE = Path(__file__).parents[1] / "example.toml"
SAMPLES, BATCH = 359, 64
COLOR, LABEL = ccl.condition("column", name="color"), "label"
STROKES = ccl.condition("attributes", columns=["holes", "slant"])
WIDTH = ccl.condition("column", name="width", value_type="continuous")
CASES = {
    "accon": ({}, {"condition": COLOR}),
    "balanced_contrastive": ({}, {"condition": LABEL}),
    "dcl": ({"kernel": "rbf"}, {"condition": COLOR}),
    "decoupled_uniformity": ({"kernel": "rbf"}, {"condition": COLOR}),
    "dhel": ({}, {}),
    "eps_sup_infonce": ({}, {"condition": LABEL}),
    "fair_kl": ({}, {"label": LABEL, "sensitive": ccl.condition("column", name="slant")}),
    "fare": ({"buckets": 4}, {"condition": COLOR}),
    "gca": ({}, {}),
    "isogclr": ({"size": SAMPLES}, {}),
    "kcl": ({"k": 2}, {"condition": LABEL}),
    "mul_sup_con": ({}, {"condition": STROKES}),
    "paco": ({}, {"condition": LABEL}),
    "rank_n_contrast": ({}, {"condition": COLOR}),
    "siglip": ({}, {}),
    "sogclr": ({"size": SAMPLES}, {}),
    "supremix": ({}, {"condition": WIDTH}),
    "tsc": ({"k": 2, "every": 2}, {"condition": LABEL}),
}


def train(name, out):
    params, conditions = CASES[name]
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset("color_digits", test_fraction=0.8),
        transform=ccl.transform("noise", std=0.1),
        backbone=ccl.backbone("lenet5"),
        method=ccl.method("simclr", hidden=16, dim=8),
        objective=ccl.objective(name, **params),
        conditions=conditions,
        evaluate=[],
    )
    return pipeline.fit(epochs=1, batch_size=BATCH, workers=0, seed=0, out=out, progress=False)


@pytest.mark.parametrize("name", CASES)
def test_each_trains(name, tmp_path):
    train(name, tmp_path / "run")
    loaded = ccl.load(tmp_path / "run").parts.objective
    assert type(loaded).__name__.lower() == name.replace("_", "")
    state = loaded.state_dict()
    unseen = ("averages.logs", "temperatures")  # NaN for samples that were in no batch
    assert all(x.isfinite().all() for key, x in state.items() if key not in unseen)
    if name == "balanced_contrastive":
        assert state["centers"].shape == (10, 8)
    if name == "paco":  # beside the features, which have 84 numbers
        assert state["centers"].shape == (10, 84)
        assert state["counts"].sum() == SAMPLES
    if name == "tsc":
        assert state["target_of"].sort().values.tolist() == list(range(10))
        assert state["means"].any(1).all()
    if "sogclr" in name:  # an epoch leaves the last, incomplete batch out
        assert int(state["averages.logs"].isfinite().sum()) == SAMPLES // BATCH * BATCH
    if name == "siglip":
        assert state["bias"] != -10.0


def test_the_example_trains(tmp_path, capsys):
    less = [
        "--set",
        "dataset.test_fraction=0.8",
        "--set",
        "fit.workers=0",
        "--epochs",
        "1",
        "--quiet",
    ]
    assert cli.main(["train", str(EXAMPLE), *less, "--out", str(tmp_path)]) == 0
    assert "linear-slant/top1" in capsys.readouterr().out.lower()
