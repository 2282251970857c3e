"""A pipeline on vectors in files, which trains in a second, and the files that it reads."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

TOML = """
dataset = {use = "features", train = "train.safetensors", test = "test.safetensors"}
backbone = {use = "mlp", in_features = 4, hidden = [8]}
method = {use = "simclr", hidden = 8, dim = 4}
transform = "noise"
objective = "infonce"
evaluate = ["knn"]
fit = {epochs = 1, batch_size = 16, workers = 0}
"""


def write_data(folder):
    for split, n in (("train", 32), ("test", 8)):
        columns = {"label": torch.arange(n) % 2, "age": torch.linspace(0, 1, n)}
        save_file({"features": torch.randn(n, 4), **columns}, folder / f"{split}.safetensors")


@pytest.fixture
def in_a_folder_with_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
