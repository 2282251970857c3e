from __future__ import annotations

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from support.condition_splits import Split, fit
from timm.data import create_transform, resolve_data_config
from torchvision.transforms.functional import to_pil_image

from ccl_plugins.conditions import CLIP, Clusters, Encoder
from ccl_plugins.conditions import encoder as module
from ccl_plugins.files.fingerprints import of_split

MODEL = "resnet10t"


class Images(Split):
    def __init__(self, n=6, channels=3, seed=0, pillow=False):
        generator = torch.Generator().manual_seed(seed)
        shape = (n, channels, 20, 24)
        self.images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        self.pillow = pillow
        super().__init__(label=torch.arange(n), name=[f"{i}.png" for i in range(n)])

    def __getitem__(self, i):
        return (to_pil_image(self.images[i]) if self.pillow else self.images[i]), 0


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(0)
    path = tmp_path / "weights.safetensors"
    save_file(timm.create_model(MODEL, num_classes=7).state_dict(), path)
    return path


@pytest.fixture
def make(tmp_path, weights):
    def make(**given):
        usual = {"pretrained": False, "checkpoint_path": weights, "image_size": 32}
        return Encoder(MODEL, cache=tmp_path / "cache", **{**usual, **given})

    return make


@pytest.fixture
def extractions(monkeypatch):
    found = []
    extract = module.extract
    monkeypatch.setattr(
        module, "extract", lambda *a, **k: found.append(1) or extract(*a, **k), raising=True
    )
    return found


def test_features_are_those_of_timm_with_its_own_preparation(make, weights):
    model = timm.create_model(MODEL, num_classes=0).eval()
    loaded = timm.models.load_state_dict(str(weights))
    model.load_state_dict({k: v for k, v in loaded.items() if not k.startswith("fc.")})
    config = resolve_data_config({}, model=model)
    transform = create_transform(**{**config, "input_size": (3, 32, 32)})
    split = Images()
    with torch.no_grad():
        pictures = torch.stack([transform(to_pil_image(image)) for image in split.images])
        expected = model(pictures)
    found = fit(make(batch_size=4), split)
    torch.testing.assert_close(found, expected)
    assert found.shape == (6, 512)
    assert not found.is_inference()


def test_gray_images_and_pictures_are_taken_too(make):
    found = [fit(make(), Images(channels=1, pillow=pillow)) for pillow in (False, True)]
    torch.testing.assert_close(*found)


def test_features_can_be_of_unit_length_and_of_the_last_layer(make):
    lengths = fit(make(normalize=True), Images()).norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones(6))
    options = {"num_classes": 7}
    with pytest.raises(ValueError, match="num_classes"):
        fit(make(head=True, options=options), Images())
    head = make(head=True, checkpoint_path=None)
    assert fit(head, Images()).shape == (6, 1000)


def test_a_second_run_reads_what_the_first_extracted(make, extractions):
    first = fit(make(), Images())
    torch.testing.assert_close(fit(make(normalize=True, batch_size=2), Images()).shape, first.shape)
    torch.testing.assert_close(fit(make(), Images()), first)
    assert len(extractions) == 1


def test_other_images_weights_and_preparation_are_other_features(make, extractions):
    fit(make(), Images())
    fit(make(), Images(seed=1))
    fit(make(checkpoint_path=None), Images())
    fit(make(image_size=64), Images())
    assert len(extractions) == 4


@pytest.mark.parametrize("damage", ["truncated", "another", "changed"])
def test_a_damaged_or_stale_cache_is_noticed_and_made_anew(make, tmp_path, extractions, damage):
    first = fit(make(), Images())
    (file,) = (tmp_path / "cache").iterdir()
    data = file.read_bytes()
    if damage == "another":
        save_file({"values": torch.zeros(6, 512)}, file, {"dataset": "of others"})
    else:
        file.write_bytes(data[:-9] if damage == "truncated" else data[:-4] + b"\0\0\0\1")
    with pytest.warns(UserWarning, match="computed again"):
        torch.testing.assert_close(fit(make(), Images()), first)
    torch.testing.assert_close(fit(make(), Images()), first)
    assert len(extractions) == 2
    assert len([*(tmp_path / "cache").iterdir()]) == 1


def test_the_cache_is_where_the_environment_says(tmp_path, monkeypatch, weights):
    monkeypatch.setenv("CCL_CACHE", str(tmp_path / "here"))
    fit(Encoder(MODEL, False, weights, image_size=32), Images())
    assert [p.suffix for p in (tmp_path / "here").iterdir()] == [".safetensors"]


def test_features_come_from_files_too(tmp_path):
    features, split = torch.rand(6, 3), Images()
    np.save(tmp_path / "f.npy", features.numpy())
    save_file({"clip": features}, tmp_path / "f.safetensors")
    for name in ("f.npy", "f.safetensors"):
        torch.testing.assert_close(fit(Encoder(file=tmp_path / name), split), features)
    torch.testing.assert_close(fit(CLIP(file=tmp_path / "f.npy"), split), features)


def test_a_parquet_file_is_matched_by_name(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = ["5.png", "0.png", "1.png"]
    table = pa.table({"name": names, "clip": [[5.0, 1.0], [0.0, 2.0], [1.0, 3.0]]})
    parquet.write_table(table, tmp_path / "f.parquet")
    found = fit(Encoder(file=tmp_path / "f.parquet", key="name", missing="drop"), Images())
    expected = torch.full((6, 2), torch.nan)
    expected[[5, 0, 1]] = torch.tensor([[5.0, 1], [0, 2], [1, 3]])
    torch.testing.assert_close(found, expected, equal_nan=True)
    with pytest.raises(ValueError, match="no column 'file'; it has name, "):
        fit(Encoder(file=tmp_path / "f.parquet", key="file"), Images())
    with pytest.raises(ValueError, match="column 'name' holds words"):
        fit(Encoder(file=tmp_path / "f.parquet"), Images(3))


@pytest.mark.parametrize("numbers", [[5.0, 0.5, 1.5], [5, 0, 1], [5, None, 1]])
def test_numbers_of_a_table_are_features_and_those_without_a_row_are_missing(tmp_path, numbers):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"name": ["5.png", "0.png", "1.png"], "x": numbers, "y": [1.0, 2.0, 3.0]})
    parquet.write_table(table, tmp_path / "f.parquet")
    found = fit(Encoder(file=tmp_path / "f.parquet", key="name", missing="drop"), Images())
    expected = torch.full((6, 2), torch.nan)
    given = [torch.nan if x is None else x for x in numbers]
    expected[[5, 0, 1]] = torch.tensor([given, [1, 2, 3]]).float().T
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_features_of_another_data_set_are_refused(tmp_path):
    save_file(
        {"values": torch.rand(6, 3)}, tmp_path / "f.safetensors", {"dataset": of_split(Images())}
    )
    assert fit(Encoder(file=tmp_path / "f.safetensors"), Images()).shape == (6, 3)
    with pytest.raises(ValueError, match="belongs to another data set"):
        fit(Encoder(file=tmp_path / "f.safetensors"), Images(seed=1))
    np.save(tmp_path / "f.npy", torch.rand(6, 3).numpy())
    with pytest.raises(ValueError, match="6 rows, but the data set has 5 samples"):
        fit(Encoder(file=tmp_path / "f.npy"), Images(5))
    with pytest.raises(ValueError, match=r"\.safetensors or \.parquet, not be named 'f.csv'"):
        fit(Encoder(file="f.csv"), Images())


def test_the_cache_file_itself_can_be_brought(make, tmp_path):
    features = fit(make(), Images())
    (file,) = (tmp_path / "cache").iterdir()
    torch.testing.assert_close(fit(Encoder(file=file), Images()), features)
    with pytest.raises(ValueError, match="another data set"):
        fit(Encoder(file=file), Images(seed=1))


def test_what_is_no_image_is_named(make):
    with pytest.raises(ValueError, match=r"images of 1 or 3 channels; sample 0 has shape \(4,"):
        fit(make(), Images(channels=4))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give name=, a model of timm, or file="),
        ({"name": MODEL, "file": "f.npy"}, "give name="),
        ({"name": "resnet10"}, "no model 'resnet10'. Did you mean"),
        ({"file": "f.npy", "missing": "own"}, "condition is continuous: missing='ignore'"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(given, message):
    with pytest.raises(ValueError, match=message):
        Encoder(**given)


def test_clip_is_a_tower_with_its_projection():
    clip = CLIP()
    assert clip.head
    assert timm.get_pretrained_cfg(clip.name).num_classes == 512
    with pytest.raises(ValueError, match="not a CLIP tower"):
        CLIP("resnet50")
    with pytest.raises(ValueError, match="not a CLIP tower"):
        CLIP("vit_base_patch16_clip_224.openai_ft_in1k")


def test_a_clip_tower_gives_clusters(tmp_path):
    options = {"embed_dim": 64, "depth": 1, "num_heads": 2}
    clip = CLIP(pretrained=False, options=options, cache=tmp_path)
    assert fit(clip, Images()).shape == (6, 512)
    assert fit(Clusters(2, of=clip), Images()).values.unique().numel() == 2
