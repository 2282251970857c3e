"""Whatever a file of the user holds, it is read, or one line names it."""

from __future__ import annotations

import builtins
import gzip
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from scipy import sparse
from support.resuming import assert_equal

import ccl_plugins as ccl
from ccl_plugins.commands.base import message, reporting_mistakes
from ccl_plugins.conditions import Attributes, Encoder, Saved, WordNet
from ccl_plugins.datasets import Features, ImageTable
from ccl_plugins.datasets.color_mnist import read_idx
from ccl_plugins.files.arrays import read_npy
from ccl_plugins.files.checkpoints import read_checkpoint, write_checkpoint
from ccl_plugins.files.tables import read_table
from ccl_plugins.files.tensors import write_tensors
from ccl_plugins.kernels import Precomputed
from ccl_plugins.metadata.fitted import save_table
from ccl_plugins.networks.timm_models import load_weights
from ccl_plugins.protocols import Table
from ccl_plugins.training.tables import Tables
from ccl_plugins.transforms import TokenTransform

N = 6
ROWS = "image,label,id,age\n" + "".join(f"{i}.png,{'ab'[i % 2]},00{i},{i}.5\n" for i in range(N))
NOUNS = "  1 a line of the license\n" + "".join(
    f"0000000{i} 05 n 01 thing{i} 0 001 @ 0000000{i + 1} n 0000 | a thing  \n" for i in range(4)
)
NOUNS += "00000004 05 n 01 thing4 0 000 | the root  \n"


class Split:
    """Samples with a label, as conditions read them."""

    metadata = {"label": [f"n0000000{i % 3}" for i in range(N)]}  # noqa: RUF012  # a constant
    images = torch.zeros(N, 1, 2, 2)

    def __len__(self) -> int:
        return N


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def vectors(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'table' is not installed")
    from pyarrow import parquet

    columns = {"z": numbers(N, 3).tolist(), "id": [*range(N)]}
    parquet.write_table(pyarrow.table(columns), path)


def tokenizer(path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the extra 'text' is not installed")
    words = tokenizers.models.WordLevel({"a": 0, "text": 1, "?": 2}, unk_token="?")
    tokenizers.Tokenizer(words).save(str(path))


def features(path: Path) -> Any:
    split = {"features": str(path), "label": [0, 1] * (N // 2)}
    return Features(split, test=split)("train").samples


def labels(path: Path) -> Any:
    split = {"features": numbers(N, 2).tolist(), "label": str(path)}
    return Features(split, test=split)("train").targets


def fit(condition: Any) -> Any:
    return condition.fit(Split(), None, None)


def looked_up(path: Path) -> Any:
    return Precomputed(str(path))(torch.arange(4), torch.arange(4))


def weights(path: Path) -> Any:
    model = timm.layers.Mlp(3, 2)
    load_weights(model, path)
    return model.state_dict()


def composed(path: Path) -> Any:
    with reporting_mistakes(str(path)):
        return ccl.Pipeline.from_toml(path).to_dict()["objective"]


TOML = """dataset = "color_digits"
backbone = "lenet5"
objective = {use = "infonce", temperature = 0.5}
[fit]
epochs = 2
"""
SAFE = {"features": torch.zeros(N, 2), "label": torch.zeros(N, dtype=torch.long)}
KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "x.npy": (lambda path: np.save(path, numbers(N, 3)), features),
    "y.npy": (lambda path: np.save(path, np.arange(N) % 2), labels),
    "x.safetensors": (
        lambda path: write_tensors(path, SAFE, {}),
        lambda path: Features(path, test=path)("train").metadata,
    ),
    "k.npz": (lambda path: np.savez_compressed(path, k=np.eye(4)), looked_up),
    "graph.npz": (lambda path: sparse.save_npz(path, sparse.eye(4, format="csr")), looked_up),
    "birds.csv": (
        lambda path: path.write_text(ROWS),
        lambda path: ImageTable(path, test=path).schema(),
    ),
    "birds.tsv": (lambda path: path.write_text(ROWS.replace(",", "\t")), read_table),
    "z.parquet": (vectors, read_table),
    "clip.parquet": (vectors, lambda path: fit(Encoder(file=path, missing="ignore"))),
    "clip.npy": (lambda path: np.save(path, numbers(N, 3)), lambda path: fit(Encoder(file=path))),
    "parts.csv": (
        lambda path: path.write_text("wing,tail\n" + "0,1\n1,\n" * (N // 2)),
        lambda path: fit(Attributes(file=path, missing="ignore")),
    ),
    "saved.safetensors": (
        lambda path: save_table(path, Table(torch.arange(N)), "categorical"),
        lambda path: fit(Saved(path)).values,
    ),
    "edges.csv": (
        lambda path: path.write_text("parent,child\n" + "n0,n00000001\nn0,n00000002\nn0,n00000000"),
        lambda path: fit(WordNet(level=2, source=str(path))),
    ),
    "data.noun": (
        lambda path: path.write_text(NOUNS),
        lambda path: fit(WordNet(level=1, source=str(path.parent))),
    ),
    "w.pth": (lambda path: torch.save(timm.layers.Mlp(3, 2).state_dict(), path), weights),
    "x.toml": (lambda path: path.write_text(TOML), composed),
    "x.idx1-ubyte.gz": (
        lambda path: path.write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\4abcd", mtime=0)),
        read_idx,
    ),
    "tokens.json": (
        tokenizer,
        lambda path: TokenTransform(path=path)("a text"),
    ),
    "step.ckpt": (lambda path: write_checkpoint(path, {"step": 3}), read_checkpoint),
}
CHECKED = (
    "x.safetensors",
    "saved.safetensors",
    "k.npz",
    "graph.npz",
    "x.idx1-ubyte.gz",
    "step.ckpt",
)
"""Files with a checksum of their own: what is read is what was written."""


def told(read: Callable[[Path], Any], path: Path) -> Any:
    """What is read, or the line that says why nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(path)
        except (ValueError, OSError) as error:
            said = message(error)
            assert path.name in said, said
            assert said.isprintable(), said
            return None


@pytest.mark.parametrize("name", KINDS)
def test_a_file_with_odd_bytes_is_read_or_named(name, tmp_path):
    write, read = KINDS[name]
    path = tmp_path / name
    write(path)
    whole, right = path.read_bytes(), told(read, path)
    assert right is not None, "it can be read"
    draw = random.Random(name)
    size = len(whole)
    changed = [whole[:end] for end in (0, 1, 3, *draw.sample(range(size), 8), size - 1)]
    for _ in range(90):
        content, most = bytearray(whole), draw.choice((size, min(size, 128)))  # of a header, more
        for _ in range(1 if name in CHECKED else draw.choice((1, 1, 1, 4))):
            at = draw.randrange(most)
            content[at] = draw.choice((content[at] ^ 1 << draw.randrange(8), 0, 32, 125, 255))
        changed.append(bytes(content))
    for content in changed:
        path.write_bytes(content)
        found = told(read, path)
        if name in CHECKED and found is not None:
            assert_equal(found, right)


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_in_place_of_a_file_is_named(name, tmp_path):
    path = tmp_path / name
    path.mkdir()
    assert told(KINDS[name][1], path) is None


def tabled(condition: Any) -> Any:
    tables = Tables({"z": condition}, N)
    tables.refresh(0, Split(), lambda: None)
    return tables["z"].values


def written(path: Path, **columns: Any) -> Path:
    if path.suffix == ".npy":
        np.save(path, *columns.values())
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        save_file(columns, path, {"value_type": "categorical"})
    return path


ODD = {
    "words": np.array(["a"] * N),
    "objects": np.array([{}] * N),
    "complex": np.ones((N, 2), complex),
    "dates": np.zeros(N, "M8[s]"),
    "one number": np.array(3.0),
    "three axes": np.zeros((N, 2, 2)),
    "no rows": np.zeros((0, 2)),
    "too few rows": np.zeros((N - 1, 2)),
    "not finite": np.full((N, 2), np.inf),
    "too large": np.full((N, 2), 1e300),
}


@pytest.mark.parametrize("what", ODD)
def test_values_that_are_no_features_are_told_with_their_file(what, tmp_path):
    path = written(tmp_path / "x.npy", x=ODD[what])
    for read in (features, looked_up, lambda path: tabled(Encoder(file=path))):
        assert told(read, path) is None


@pytest.mark.parametrize("what", sorted({*ODD} - {"not finite", "too large"}))
def test_values_that_are_no_labels_are_told_with_their_file(what, tmp_path):
    path = written(tmp_path / "y.npy", x=ODD[what])
    assert told(labels, path) is None


@pytest.mark.parametrize(
    "values",
    [
        [0.5] * N,
        [float("nan")] + [1.0] * (N - 1),
        [-3] * N,
        [1] * (N - 1),
        [[[1]]] * N,
    ],
    ids=str,
)
def test_values_that_are_no_condition_are_told_with_their_file(values, tmp_path):
    path = written(tmp_path / "z.safetensors", values=torch.tensor(values))
    for read in (lambda path: tabled(Saved(path)), lambda path: tabled(Attributes(file=path))):
        found = told(read, path)
        assert found is None


def test_a_class_of_one_sample_is_told_with_the_file_of_the_labels(tmp_path):
    path = written(tmp_path / "y.npy", label=np.array([0, 0, 1, 1, 1, 2]))
    split = {"features": numbers(N, 2).tolist(), "label": str(path)}
    with pytest.raises(ValueError, match=r"y\.npy: class 2 has one sample"):
        Features(split, test_fraction=0.5)("train")


@pytest.mark.parametrize("name", ["x.npy", "birds.csv", "k.npz", "data.noun"])
def test_a_file_that_may_not_be_read_is_named(name, tmp_path, monkeypatch):
    write, read = KINDS[name]
    path = tmp_path / name
    write(path)
    opened = builtins.open

    def refuse(file, *given, **more):
        if str(file) == str(path):
            raise PermissionError(13, "Permission denied")
        return opened(file, *given, **more)

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    with pytest.raises(OSError, match=f"Permission denied: '.*{name}'"):
        read(path)


@pytest.mark.parametrize("large", [False, True])
def test_an_array_that_is_longer_than_its_header_says_is_refused(large, tmp_path, monkeypatch):
    """As two arrays that were written one after the other, of which the second would be lost."""
    monkeypatch.setattr("ccl_plugins.files.mapped.LARGE", 0 if large else 1 << 28)
    path = written(tmp_path / "x.npy", x=numbers(N, 2))
    assert torch.equal(read_npy(path), torch.from_numpy(numbers(N, 2)))
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(
        ValueError, match=r"x\.npy is no array of numbers: 176 bytes follow its array"
    ):
        read_npy(path)


def test_the_indices_of_a_graph_are_checked_before_they_are_followed(tmp_path):
    given = {"format": b"csr", "shape": [4, 4], "data": np.ones(4), "indices": np.arange(4)}
    path = written(tmp_path / "graph.npz", **given, indptr=np.array([0, 10**9, 2, 3, 4]))
    with pytest.raises(ValueError, match=r"graph\.npz is no sparse matrix: indptr must be"):
        looked_up(path)
