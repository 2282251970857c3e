"""A run is resumed with the data that it began with."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.datasets.annotated import InMemory
from ccl_plugins.experiments.record import differing
from ccl_plugins.experiments.results import compare_results, groups_of, result_of
from ccl_plugins.training.same_data import OtherData


def content(folder):
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def rows(n=32, **changes):
    columns = {"label": torch.arange(n) % 2, "age": torch.linspace(0, 1, n)}
    features = torch.randn(n, 4, generator=torch.Generator().manual_seed(0))
    return {"features": features, **columns, **changes}


OTHERS = [
    (rows(33), "33 samples, not 32"),
    (rows(31), "31 samples, not 32"),
    (rows(age=torch.linspace(1, 0, 32)), "column 'age' has other values"),
    (rows(features=rows()["features"].flip(0)), "images differ"),
    (rows(features=rows()["features"] + 1e-5), "images differ"),
]
"""Training splits that are not that of a run, and what a refusal says of each."""


def test_a_resume_with_other_data_is_refused_before_anything_is_written(
    in_a_folder_with_data, tmp_path, capsys
):
    save_file(rows(), "train.safetensors")
    (tmp_path / "a.toml").write_text(TOML)
    assert main(["train", "a.toml", "--quiet"]) == 0
    before = content(tmp_path / "runs")
    for other, words in OTHERS:
        save_file(other, "train.safetensors")
        capsys.readouterr()
        assert main(["train", "a.toml", "--quiet", "--resume", "--epochs", "2"]) == 2
        message = capsys.readouterr().err
        assert message.startswith("ccl: a.toml: the data is not that of the run: ")
        assert words in message
        assert "--overwrite" in message
        assert message.count("\n") == 1
        assert content(tmp_path / "runs") == before
    save_file(rows(), "train.safetensors")
    assert main(["train", "a.toml", "--quiet", "--resume", "--epochs", "2"]) == 0


@pytest.mark.parametrize("split", ["train", "test"])
def test_other_data_of_either_split_is_refused_by_a_resume_and_by_all_that_reads_it(
    in_a_folder_with_data, tmp_path, capsys, split
):
    for name in ("train", "test"):
        save_file(rows(), f"{name}.safetensors")
    (tmp_path / "a.toml").write_text(TOML)
    assert main(["train", "a.toml", "--quiet"]) == 0
    before = content(tmp_path / "runs")
    save_file(rows(features=rows()["features"].flip(0)), f"{split}.safetensors")
    for words in (
        ["train", "a.toml", "--quiet", "--resume", "--epochs", "2"],
        ["evaluate", "runs/a"],
        ["embed", "runs/a", "a.parquet"],
    ):
        capsys.readouterr()
        assert main(words) == 2, words
        assert f"{split} split: images differ" in capsys.readouterr().err
    run = ccl.load("runs/a")
    for read in (run.evaluate, run.validate, lambda: run.features("train")):
        with pytest.raises(OtherData, match=f"{split} split: images differ"):
            read()
    assert run.encode(torch.zeros(2, 4)).shape == (2, 8)
    assert content(tmp_path / "runs") == before


def test_runs_on_other_data_are_no_seeds_of_one_configuration_and_are_not_compared(
    in_a_folder_with_data, tmp_path
):
    (tmp_path / "a.toml").write_text(TOML)
    for seed in (0, 1):
        save_file(rows(features=rows()["features"] + seed), "train.safetensors")
        words = ["train", "a.toml", "--quiet", "--seed", str(seed), "--out", f"runs/{seed}"]
        assert main(words) == 0
    results = [result_of(ccl.load(f"runs/{seed}/a")) for seed in (0, 1)]
    assert len(groups_of(results)) == 2
    assert {row["test"] is None for row in compare_results(results)} == {True}
    places = [row["setting"] for row in differing([each.record for each in results])]
    assert places == ["data.train"]


class Digits:
    """A data set of a session."""

    def __init__(self, images, **columns):
        self.split = InMemory(images, columns["label"], columns)

    def __call__(self, split):
        return self.split

    def schema(self):
        return {"label": "categorical", "color": "continuous"}


def own(**changes):
    n = 16
    given = {
        "images": torch.arange(n * 3 * 64).view(n, 3, 8, 8).to(torch.uint8),
        "label": torch.arange(n) % 4,
        "color": torch.linspace(0, 1, n),
    }
    return Digits(**{**given, **changes})


PARTS = {"objective": "supcon", "condition": "label"}


def fit(dataset, out, **options):
    parts = {name: options.pop(name, each) for name, each in PARTS.items()}
    pipeline = ccl.Pipeline(
        dataset=dataset,
        backbone="lenet5",
        method={"use": "simclr", "hidden": 8, "dim": 4},
        transform={"use": "simclr", "size": 32},
        evaluate=[],
        **parts,
    )
    settings = {"epochs": 1, "batch_size": 8, "workers": 0, "progress": False}
    return pipeline.fit(out=out, **{**settings, **options})


def test_a_sessions_own_data_is_compared_too(tmp_path):
    fit(own(), tmp_path / "run")
    before = content(tmp_path / "run")
    changed = own().split.images.clone()
    changed[7, 1, 3, 3] += 1
    for other, words in (
        (own(images=changed), "images differ"),
        (own(color=torch.zeros(16)), "column 'color' has other values"),
    ):
        with pytest.raises(OtherData, match=words):
            fit(other, tmp_path / "run", resume=True)
    assert content(tmp_path / "run") == before
    fit(own(), tmp_path / "run", resume=True, epochs=2)


def save_folder(folder, seed=0):
    drawn = np.random.default_rng(seed).integers(0, 256, (16, 8, 8, 3), dtype=np.uint8)
    for i, image in enumerate(drawn):
        path = folder / ("train", "test")[i // 12] / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)


def test_a_copied_data_set_resumes_and_one_with_another_image_does_not(tmp_path):
    save_folder(tmp_path / "images")
    fit({"use": "image_folder", "root": str(tmp_path / "images")}, tmp_path / "run")
    shutil.copytree(tmp_path / "images", tmp_path / "copy", copy_function=shutil.copyfile)
    shutil.rmtree(tmp_path / "images")
    shutil.move(tmp_path / "copy", tmp_path / "images")
    folder = {"use": "image_folder", "root": str(tmp_path / "images")}
    fit(folder, tmp_path / "run", epochs=2, resume=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "train" / "a" / "4.png")
    with pytest.raises(OtherData, match="images differ"):
        fit(folder, tmp_path / "run", epochs=3, resume=True)


class Noisy(torch.utils.data.Dataset):
    """A Dataset whose transform augments: it draws from the global generators, or from its own."""

    def __init__(self, seed=None):
        self.targets = [0, 1] * 8
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        noise = torch.randint(0, 99, (3, 8, 8), generator=self.generator, dtype=torch.uint8)
        return noise + index, self.targets[index]


@pytest.mark.parametrize("seeds", [(None, None), (1, 2)])
def test_random_images_do_not_keep_a_run_from_being_resumed(tmp_path, seeds):
    for epochs, seed in enumerate(seeds, 1):
        data = ccl.create("dataset", "torch", train=Noisy(seed), test=Noisy(seed))
        fit(data, tmp_path / "run", epochs=epochs, resume=epochs > 1)


def test_a_resume_with_another_table_of_a_condition_is_refused(tmp_path):
    values = np.arange(32.0).reshape(16, 2)
    condition = {"use": "encoder", "file": str(tmp_path / "z.npy")}
    soft = ccl.objective("soft_infonce", kernel=ccl.kernel("rbf", scale="median"))

    def train(table, **options):
        np.save(tmp_path / "z.npy", table)
        fit(own(), tmp_path / "run", objective=soft, condition=condition, **options)

    train(values)
    before = content(tmp_path / "run")
    with pytest.raises(OtherData, match="condition 'condition' has another table"):
        train(np.where(values == 7, 8, values), resume=True)
    assert content(tmp_path / "run") == before
    train(values * (1 + 1e-6), resume=True)  # as another device rounds
