"""Cells are read with their columns, split apart, trained on, and found again by name."""

import subprocess
import sys
import tomllib
from pathlib import Path

import ccl_plugins as ccl
import numpy as np
import pytest
import torch
from ccl_plugins.testing import parametrize_with_checks

anndata = pytest.importorskip("anndata")
import pandas as pd  # it comes with anndata
from scipy import sparse

from ccl_anndata import write_obsm
from ccl_anndata.dataset import AnnDataFile

ROOT = Path(__file__).parent.parent
COUNTS = np.random.default_rng(0).poisson(1.0, (64, 10))


@parametrize_with_checks("ccl-anndata")
def test_conformance(check):
    check()


@pytest.fixture
def cells(tmp_path):
    """64 cells of four donors, in a file."""
    i = np.arange(64)
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(np.where(i % 3 == 0, "B", "T")),
            "donor": pd.Categorical([f"d{n // 16}" for n in i]),
            "split": np.where(i < 48, "train", "test"),
            "age": [None, 1.5] * 32,
            "stage": pd.array([1, None] * 32, dtype="Int64"),
            "dose": pd.Categorical([0.1, 0.2] * 32),
            "sick": i % 2 == 0,
            "note": [None, "x"] * 32,
        },
        index=[f"c{n}" for n in i],
    )
    obs.loc["c5", "type"] = None
    made = anndata.AnnData(sparse.csc_matrix(COUNTS.astype(np.float32)), obs)
    made.layers["counts"] = COUNTS
    made.obsm["X_pca"] = COUNTS[:, :3].astype(float)
    made.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


def read(cells, **changes):
    return AnnDataFile(cells, **{"label": "type", "split": "split", **changes})


def test_columns_of_obs_have_their_value_types_and_what_is_missing_is_missing(cells):
    data = read(cells)
    split = data("train")
    types = {name: value for name, value in data.schema().items() if value != "categorical"}
    assert types == {"age": "continuous"}
    assert sorted(data.schema()) == sorted(
        ["label", "obs_names", "donor", "age", "stage", "dose", "sick", "note"]
    )
    assert split.vocabulary["label"] == ["B", "T"]
    assert split.metadata["label"][:7].tolist() == [0, 1, 1, 0, 1, -1, 0]
    assert split.metadata["age"][:2].isnan().tolist() == [True, False]
    assert split.metadata["stage"][:2].tolist() == [1, -1]
    assert split.vocabulary["dose"] == ["0.1", "0.2"]
    assert split.metadata["note"][:2].tolist() == [-1, 0]
    assert sorted(read(cells, columns=["age"]).schema()) == ["age", "label", "obs_names"]
    assert (read(cells, label="")("train").metadata["label"] == -1).all()


@pytest.mark.parametrize("matrix", ["X", "layers/counts", "obsm/X_pca"])
def test_a_cell_is_a_row_of_the_matrix(cells, matrix):
    split = read(cells, matrix=matrix)("test")
    wanted = torch.from_numpy(COUNTS[48:]).float()[:, : 3 if matrix == "obsm/X_pca" else None]
    assert len(split) == 16
    torch.testing.assert_close(torch.stack([split[i][0] for i in range(16)]), wanted)
    torch.testing.assert_close(split.__getitems__([3, 1])[1], split[1])


def test_no_donor_is_in_both_splits(cells):
    data = AnnDataFile(cells, "sick", test_fraction=0.3, group="donor", columns=["donor"])
    train, test = (set(data(split).metadata["donor"].tolist()) for split in ("train", "test"))
    assert not train & test
    assert len(train | test) == 4
    obs = anndata.read_h5ad(cells)
    obs.obs["split"] = ["train", "test"] * 32
    obs.write_h5ad(cells)
    with pytest.raises(ValueError, match="4 values of the group 'donor' in both .* such as 'd0'"):
        read(cells, group="donor")("train")


def test_a_mistake_is_named(cells, tmp_path):
    wrong = [
        ({"label": "kind"}, "has no column 'kind'; it has type, donor, split"),
        ({"matrix": "layers/logs"}, "has no 'layers/logs'; it has layers/counts"),
        ({"matrix": "raw/X"}, "has no 'raw/X'; it has nothing of the kind"),
        ({"split": "donor"}, "has 'train' in 'donor'"),
        ({"split": None}, "exactly one, not None and None"),
        ({"split": None, "test_fraction": 1.5}, "between 0 and 1, not 1.5"),
    ]
    for changes, message in wrong:
        with pytest.raises(ValueError, match=message):
            read(cells, **changes)("train")
    with pytest.raises(FileNotFoundError, match="no file"):
        read(tmp_path / "none.h5ad")("train")
    broken = anndata.read_h5ad(cells)
    broken.layers["bad"] = np.where(COUNTS > 2, np.nan, 1.0)
    broken.obs_names = ["c0", *broken.obs_names[:-1]]
    broken.write_h5ad(cells)
    with pytest.raises(ValueError, match="two cells 'c0'"):
        read(cells)("train")
    broken.obs_names_make_unique()
    broken.write_h5ad(cells)
    with pytest.raises(ValueError, match="'layers/bad' .* not finite"):
        read(cells, matrix="layers/bad")("train")


def pipeline(cells, **changes):
    return ccl.Pipeline(
        dataset=ccl.dataset("anndata", path=str(cells), label="type", split="split", **changes),
        transform=ccl.transform("mask_genes", mask=0.3, total=10.0, log1p=True),
        backbone=ccl.backbone("mlp", in_features=10, hidden=[16]),
        method=ccl.method("simclr", hidden=16, dim=8),
        objective=ccl.objective("fair_infonce"),
        condition=ccl.condition("column", name="donor"),
        sampler=ccl.sampler("same_condition"),
        evaluate=[],
        monitor="off",
    )


def test_features_come_back_to_the_cells_that_they_are_of(cells, tmp_path):
    """`ccl embed` orders train before test; the file has its own order."""
    shuffled = anndata.read_h5ad(cells)[np.random.default_rng(1).permutation(64)].copy()
    shuffled.obs["type"] = shuffled.obs["type"].fillna("T")
    shuffled.write_h5ad(cells)
    run = pipeline(cells).fit(
        epochs=1, batch_size=8, workers=0, out=tmp_path / "run", progress=False, logger=False
    )
    embedded, command = tmp_path / "run.parquet", [sys.executable, "-m", "ccl_plugins"]
    for words in (
        ["embed", tmp_path / "run", embedded, "--method", "pca"],
        ["write-obsm", cells, embedded, "--key", "X_new"],
    ):
        subprocess.run([*command, *map(str, words)], check=True, capture_output=True)
    back = anndata.read_h5ad(cells)
    with torch.no_grad():
        wanted = run.backbone.eval()(run.transform.plain(back.X.toarray()))
    torch.testing.assert_close(torch.from_numpy(back.obsm["X_new"]), wanted, atol=1e-5, rtol=1e-4)
    assert sorted(back.obsm) == ["X_new", "X_pca"]
    assert (back.layers["counts"] == shuffled.layers["counts"]).all()
    before = cells.read_bytes()
    fewer = tmp_path / "fewer.h5ad"
    back[1:].write_h5ad(fewer)
    with pytest.raises(ValueError, match=r"fewer.h5ad lacks 1 of the 64 cells of .*run.parquet"):
        write_obsm(fewer, embedded)
    back.obs_names = ["other", *back.obs_names[1:]]
    back.write_h5ad(fewer)
    with pytest.raises(ValueError, match=r"run.parquet lacks 1 of the 64 cells .* 'other'"):
        write_obsm(fewer, embedded)
    with pytest.raises(ValueError, match="key must be a name"):
        write_obsm(cells, embedded, "a/b")
    assert cells.read_bytes() == before
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_the_example_trains(cells, tmp_path):
    record = tomllib.loads((ROOT / "example.toml").read_text(encoding="utf-8"))
    record["dataset"] |= {"path": str(cells), "label": "sick", "columns": ["donor", "type"]}
    record["backbone"]["in_features"] = 10
    example = ccl.Pipeline.from_dict(record).with_settings(epochs=1, batch_size=8, workers=0)
    run = example.fit(out=tmp_path / "run", progress=False, logger=False)
    assert 0 <= run.evaluate()["knn/top1"] <= 1
