from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ccl_plugins.backbones import MLP
from ccl_plugins.datasets import Features
from ccl_plugins.transforms import NoiseTransform


def blobs(size=60, width=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(size) % 3
    features = torch.randn(size, width, generator=generator)
    features[:, 0] += 4 * label
    return {"features": features, "label": label, "group": ["xy"[i % 2] for i in range(size)]}


def test_vectors_come_from_arrays_and_from_files_alike(tmp_path):
    train, test = blobs(), blobs(seed=1)
    ids = [
        {**t, "group": torch.tensor([w == "y" for w in t["group"]]).long()} for t in (train, test)
    ]
    paths = {}
    for name, column in ids[0].items():
        np.save(tmp_path / f"{name}.npy", column.numpy())
        paths[name] = str(tmp_path / f"{name}.npy")
    save_file(ids[1], tmp_path / "test.safetensors")
    from_files = Features(paths, tmp_path / "test.safetensors")
    from_arrays = Features(train, test)
    schema = {"label": "categorical", "group": "categorical"}
    assert from_files.schema() == from_arrays.schema() == schema
    for split in ("train", "test"):
        a, b = from_arrays(split), from_files(split)
        torch.testing.assert_close(a.samples, b.samples)
        torch.testing.assert_close(a.metadata, b.metadata)
    assert from_arrays("train").vocabulary == {"group": ["x", "y"]}
    vector, target = from_arrays("train")[4]
    torch.testing.assert_close(vector, train["features"][4])
    assert target == 1


def test_standardized_features_have_the_training_split_s_scale():
    train, test = blobs(), blobs(seed=1)
    train["features"][:, 3] = 1000.1
    dataset = Features(train, test, standardize=True)
    x = dataset("train").samples
    assert not x[:, 3].any()
    torch.testing.assert_close(x.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    scale = torch.tensor([1.0, 1, 1, 0, 1, 1])
    torch.testing.assert_close(x.std(0, correction=0), scale)
    mean, deviation = train["features"][:, 0].mean(), train["features"][:, 0].std(correction=0)
    expected = (test["features"][:, 0] - mean) / deviation
    torch.testing.assert_close(dataset("test").samples[:, 0], expected)


def test_a_fraction_can_be_held_out():
    dataset = Features(blobs(), test_fraction=0.2)
    train, test = dataset("train"), dataset("test")
    assert train.targets.bincount().tolist() == [16] * 3
    assert test.targets.bincount().tolist() == [4] * 3
    rows = torch.cat([train.samples, test.samples])
    assert len(rows.unique(dim=0)) == 60


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": torch.full((60, 2), torch.nan)}, "not finite in 60 rows, first in row 0"),
        ({"features": torch.zeros(60)}, r"\(N, f\), not of shape \(60,\)"),
        ({"features": [["a"]] * 60}, "features must hold numbers, not"),
        ({"features": torch.zeros(59, 6)}, r"59 samples, but rows in \{'label': 60"),
        ({"features": torch.zeros(60, 5)}, "train has 5 features, test 6"),
        ({"more": [1] * 60}, "train has the columns"),
        ({"group": [1.5, *["x"] * 59]}, "'group' holds words, but 1.5 in row 0"),
    ],
)
def test_splits_that_are_not_right_are_told_where(changes, message):
    with pytest.raises(ValueError, match=message):
        Features({**blobs(), **changes}, blobs())("train")


def test_sources_that_are_not_right_are_quoted(tmp_path):
    with pytest.raises(ValueError, match="must have 'label', but this one has"):
        Features({"features": torch.zeros(2, 2)}, test_fraction=0.5).schema()
    with pytest.raises(ValueError, match="give test or test_fraction"):
        Features(blobs())
    path = tmp_path / "x.safetensors"
    with pytest.raises(FileNotFoundError, match=r"no file .*x\.safetensors"):
        Features(path, test_fraction=0.5).schema()
    save_file({"features": torch.ones(3, 2), "label": torch.arange(3)}, path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match=r"x\.safetensors is damaged"):
        Features(path, test_fraction=0.5).schema()
    with pytest.raises(ValueError, match=r"end in \.safetensors, but this is 'x\.npz'"):
        Features("x.npz", test_fraction=0.5).schema()


def test_noise_has_its_size_and_leaves_out_its_share():
    views = NoiseTransform(std=0.5, drop=0.25, count=3)
    torch.manual_seed(0)
    x = torch.ones(20000)
    drawn = views(x)
    assert [view.shape for view in drawn] == [x.shape] * 3
    assert not torch.equal(drawn[0], drawn[1])
    kept = drawn[0][drawn[0] != 0]
    # 5 standard errors of 20,000 draws.
    assert abs(len(kept) / len(x) - 0.75) < 5 * (0.75 * 0.25 / 20000) ** 0.5
    assert abs(kept.mean() - 1) < 5 * 0.5 / 15000**0.5
    assert abs(kept.std() - 0.5) < 5 * 0.5 / 30000**0.5
    still = NoiseTransform(std=0.0, drop=0.0)(torch.arange(3))
    torch.testing.assert_close(still, [torch.arange(3.0)] * 2)
    torch.testing.assert_close(views.plain(x[:6].reshape(2, 3)), torch.ones(2, 3))


def test_a_perceptron_has_the_widths_it_is_given():
    model = MLP(6, hidden=[8, 5])
    assert model(torch.randn(4, 6)).shape == (4, model.num_features) == (4, 5)
    assert MLP(12)(torch.randn(4, 3, 2, 2)).shape == (4, 256)
    weights = 6 * 8 + 8 * 5 + 2 * (8 + 5)
    assert sum(p.numel() for p in model.parameters()) == weights
    plain = MLP(6, hidden=[8], batch_norm=False)
    assert plain(torch.randn(1, 6)).shape == (1, 8)


def test_a_perceptron_says_which_length_it_was_given():
    with pytest.raises(
        ValueError, match=r"MLP\(in_features=6\) got \(4, 7\): give it in_features=7"
    ):
        MLP(6)(torch.randn(4, 7))
    with pytest.raises(ValueError, match="1 or more"):
        MLP(6, hidden=[0])


@pytest.mark.parametrize("scale", [1.0, 1e60, 1e-60])
def test_features_far_from_0_are_standardized_before_they_are_rounded(scale):
    near = blobs()
    near["features"] = near["features"].double()
    far = {**near, "features": scale * (near["features"] + 1e9)}
    x = Features(far, test_fraction=0.5, standardize=True)("train").samples
    expected = Features(near, test_fraction=0.5, standardize=True)("train").samples
    torch.testing.assert_close(x, expected, atol=1e-5, rtol=0)


def test_features_that_float32_merges_or_cannot_hold_are_told_to_be_standardized():
    table = blobs()
    table["features"] = table["features"].double() + 1e9
    with pytest.warns(UserWarning, match=r"only numbers 64 apart: standardize=True"):
        Features(table, test_fraction=0.5)("train")
    table["features"][4, 1] = 1e60
    refused = pytest.raises(
        ValueError, match=r"above 3.4e38.* \(standardize=True .* first in row 4"
    )
    with pytest.warns(UserWarning, match="apart"), refused:
        Features(table, test_fraction=0.5)("train")
