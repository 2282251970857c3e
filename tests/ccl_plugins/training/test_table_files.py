"""Tables in files: training, resuming and reading back are as with tables in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import LambdaCallback
from safetensors.torch import save_file
from support.resuming import StopAfter, assert_equal
from support.scripts import script

import ccl_plugins as ccl
from ccl_plugins.experiments.train import RunInterrupted
from ccl_plugins.files import mapped
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.mapped import ChangedFile, place_of
from ccl_plugins.training.table_files import MissingTable

N = 48


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file and table counts as large."""
    monkeypatch.setattr(mapped, "LARGE", 0)
    monkeypatch.setattr(mapped, "BLOCK", 64)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(N, 3, generator=generator)
    x = torch.cat([z, torch.randn(N, 3, generator=generator)], 1)
    path = tmp_path / "data.safetensors"
    save_file({"features": x, "label": torch.arange(N) % 3, "z": z}, path)
    return path


def compose(data: Path, **given: Any) -> ccl.Pipeline:
    settings = given.pop("fit", {})
    parts: dict[str, Any] = {
        "objective": ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=2.0)),
        "method": ccl.method("moco_v2", hidden=8, dim=4, queue_size=16, batch_norm=False),
        "condition": ccl.condition("column", name="z"),
        "sampler": ccl.sampler("conditional_pair", own_pair=False, nearest=5),
    }
    return ccl.Pipeline(
        dataset=ccl.create("dataset", "features", train=data, test=data),
        backbone=ccl.backbone("mlp", in_features=6, hidden=[8]),
        transform="noise",
        monitor="off",
        **{"evaluate": [], **parts, **given},
        fit={"epochs": 3, "batch_size": 16, "workers": 0, "checkpoint_every": 1, **settings},
    )


CLUSTERED: dict[str, Any] = {
    "objective": "cl_infonce",
    "method": ccl.method("simclr", hidden=8, dim=4, batch_norm=False),
    "condition": ccl.condition("clusters", k=4),
    "sampler": "uniform",
}


def weights(run: ccl.Run) -> Any:
    return read_checkpoint(run.folder.weights)["method"]


@pytest.mark.parametrize(
    ("given", "workers"),
    [({}, 0), pytest.param({}, 2, marks=pytest.mark.slow), (CLUSTERED, 1)],
    ids=["column, no workers", "column", "clusters"],
)
def test_training_is_as_with_tables_in_memory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, workers: int
) -> None:
    given = {**given, "evaluate": ["knn"], "fit": {"workers": workers}}
    plain = compose(data, **given).fit(out=tmp_path / "plain", progress=False)
    monkeypatch.setattr(mapped, "LARGE", 0)
    run = compose(data, **given).fit(out=tmp_path / "run", progress=False)
    assert_equal(weights(run), weights(plain))
    assert run.evaluate() == plain.evaluate()
    for name, table in run.condition_tables().items():
        assert_equal(table.values, plain.condition_tables()[name].values)
        assert place_of(table.values) is not None
    files = [file.name for file in (run.path / "checkpoints").glob("table-*")]
    # A column stays in the file of the data; fitted values get one, for each checkpoint that is kept.
    assert sorted(files) == (
        [f"table-condition-{e}.safetensors" for e in (1, 2)] if "condition" in given else []
    )
    for file in (run.path / "checkpoints").glob("*.ckpt"):
        saved = read_checkpoint(file)["ccl_plugins"]["tables"]["condition"]
        assert "values" not in saved


def stopped(data: Path, out: Path, **given: Any) -> None:
    with pytest.raises(RunInterrupted):
        compose(data, **given).fit(out=out, progress=False, callbacks=[StopAfter(5)])


@pytest.mark.parametrize("given", [{}, CLUSTERED], ids=["column", "clusters"])
def test_a_run_is_resumed_with_its_tables(
    data: Path, tmp_path: Path, in_files: None, given: Any
) -> None:
    whole = compose(data, **given).fit(out=tmp_path / "whole", progress=False)
    stopped(data, tmp_path / "begun", **given)
    # The folder may move: files in it are named without it.
    (tmp_path / "begun").rename(tmp_path / "run")
    run = compose(data, **given).fit(out=tmp_path / "run", progress=False, resume=True)
    assert_equal(weights(run), weights(whole))


@pytest.mark.parametrize("change", ["gone", "other", "short"])
def test_a_table_that_is_not_what_it_was_is_refused(
    data: Path, tmp_path: Path, in_files: None, change: str
) -> None:
    stopped(data, tmp_path / "run", **CLUSTERED)
    (file,) = (tmp_path / "run" / "checkpoints").glob("table-condition-1.*")
    if change == "gone":
        file.unlink()
    elif change == "other":
        content = bytearray(file.read_bytes())
        content[-8] ^= 1
        file.write_bytes(content)
    else:
        os.truncate(file, 100)
    with pytest.raises(MissingTable, match=r"condition 'condition' are in .*table-condition-1"):
        compose(data, **CLUSTERED).fit(out=tmp_path / "run", progress=False, resume=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_data_that_change_under_a_run_end_it(
    data: Path, tmp_path: Path, in_files: None, workers: int
) -> None:
    def edit(trainer: Any, *_: Any) -> None:
        if trainer.global_step == 4:
            os.utime(data, ns=(0, 0))

    with pytest.raises(ChangedFile, match=r"data\.safetensors was changed while values were read"):
        compose(data, fit={"workers": workers}).fit(
            out=tmp_path / "run",
            progress=False,
            callbacks=[LambdaCallback(on_before_zero_grad=edit)],
        )


def test_overwriting_a_run_deletes_its_tables(data: Path, tmp_path: Path, in_files: None) -> None:
    compose(data, **CLUSTERED).fit(out=tmp_path / "run", progress=False)
    compose(data).fit(out=tmp_path / "run", progress=False, overwrite=True)
    assert not [*(tmp_path / "run" / "checkpoints").glob("table-*")]


@pytest.mark.slow
def test_whole_commands_on_many_samples_take_little_more_memory_than_on_few(tmp_path):
    """Half a million samples, whose file has 388 MB; a copy of their features in float64 has 256."""
    tables = script("docs/evidence/benchmarks/large_tables.py")
    most = {}
    for samples in (2000, 500_000):
        tables.write(tmp_path / str(samples), samples, 128)
        found = tables.peaks(tmp_path / str(samples), 128)
        most[samples] = {command: memory.anonymous for command, (memory,) in found.items()}
    few, many = most.values()
    assert many["train"] < few["train"] + 450, most  # measured: 353
    assert many["report"] < few["report"] + 200, most
