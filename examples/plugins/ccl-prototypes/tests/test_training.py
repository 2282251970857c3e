"""The examples train, and the papers' recipes compose without their data."""

from pathlib import Path

import ccl_plugins as ccl
import pytest
from ccl_plugins.conditions import Clusters

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))


def short(path, **settings):
    """An example of two epochs on a fifth of the images, with prototypes from the second epoch on."""
    record = ccl.Pipeline.from_toml(path).to_dict()
    record["dataset"]["test_fraction"] = 0.8
    record["evaluate"] = [{"use": "knn"}]
    for condition in record["conditions"].values():
        condition["warmup"] = 1
    return ccl.Pipeline.from_dict(record).with_settings(epochs=2, workers=0, **settings)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_trains(path, tmp_path):
    run = short(path).fit(out=tmp_path / "run", progress=False)
    assert 0 < run.evaluate()["knn/top1"] <= 1


def test_pcl_clusters_the_keys_of_the_training_set_after_its_warm_up(tmp_path, monkeypatch):
    fits, fit = [], Clusters.fit

    def seen(self, split, embed, previous):
        fits.append(fit(self, split, embed, previous))
        return fits[-1]

    monkeypatch.setattr(Clusters, "fit", seen)
    record = short(ROOT / "examples/pcl.toml").to_dict()
    pipeline = ccl.Pipeline.from_dict(record | {"evaluate": [], "monitor": "off", "loggers": []})
    pipeline.fit(out=tmp_path / "run", progress=False)
    assert [sorted({name[:4] for name in table.extras}) for table in fits] == [
        ["fits"],
        ["cent", "dist", "fits", "size"],
    ]
    assert fits[1].values.shape == (len(pipeline.dataset("train")), 3)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_composes_and_names_its_source(path, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    pipeline = ccl.Pipeline.from_toml(path)
    assert not [w for w in recwarn if "ccl" in w.filename]
    assert ccl.Pipeline.from_dict(pipeline.to_dict()) == pipeline
    assert "(20" in path.read_text(encoding="utf-8").partition("\ndataset")[0], (
        "a paper and its year"
    )
