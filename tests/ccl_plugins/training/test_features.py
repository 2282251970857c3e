from __future__ import annotations

import pytest
import torch
from support.training_fakes import FakeDataset, FakeMethod, FakeTransform
from torch.nn.functional import normalize

from ccl_plugins.files import mapped
from ccl_plugins.metadata import fitted
from ccl_plugins.methods import MoCoV2
from ccl_plugins.training import ranks
from ccl_plugins.training.features import embed_split, frozen_features
from ccl_plugins.training.tables import Embeddings

SPLIT = FakeDataset(20)("train")


class OneByOne:
    """A split that is not in memory."""

    metadata = SPLIT.metadata

    def __len__(self) -> int:
        return len(SPLIT)

    def __getitem__(self, index: int) -> object:
        return SPLIT[index]


def test_features_are_un_augmented_and_in_order() -> None:
    method = FakeMethod()
    method.train()
    found = frozen_features(method, SPLIT, FakeTransform(), batch_size=7)
    assert method.backbone.training
    torch.testing.assert_close(method.backbone[2].running_mean, torch.zeros(8))
    method.eval()
    with torch.no_grad():
        torch.testing.assert_close(found.features, method.encode(SPLIT.images / 255))


def test_a_split_need_not_be_in_memory() -> None:
    method, views = FakeMethod(), FakeTransform()
    expected = frozen_features(method, SPLIT, views)
    found = frozen_features(method, OneByOne(), views, batch_size=7)
    torch.testing.assert_close(found.features, expected.features)


def test_metadata_comes_as_tensors_with_words_in_sorted_order() -> None:
    found = frozen_features(FakeMethod(), SPLIT, FakeTransform()).metadata
    assert found["word"].tolist() == (SPLIT.metadata["label"] % 2).tolist()
    assert found["label"].dtype == torch.long


def test_embeddings_are_on_the_sphere() -> None:
    method = FakeMethod()
    found = embed_split(method, SPLIT, FakeTransform(), batch_size=6)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(20))
    assert not found.requires_grad


def test_keys_of_a_split_are_the_momentum_encoders_of_each_image_alone() -> None:
    backbone = FakeMethod().backbone
    backbone.num_features = 8
    method = MoCoV2(hidden=8, dim=4, queue_size=8, backbone=backbone)
    for parameter in method.key_encoder.parameters():
        parameter.data.mul_(-0.5)
    found = embed_split(method, SPLIT, FakeTransform(), batch_size=6, of="key")
    method.eval()
    expected = normalize(method.key_encoder(SPLIT.images / 255), dim=1)
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, embed_split(method, SPLIT, FakeTransform()))
    with pytest.raises(ValueError, match="FakeMethod has no momentum encoder"):
        embed_split(FakeMethod(), SPLIT, FakeTransform(), of="key")


def test_features_of_a_split_are_the_backbones_own() -> None:
    method = FakeMethod()
    found = embed_split(method, SPLIT, FakeTransform(), batch_size=6, of="features")
    torch.testing.assert_close(found, frozen_features(method, SPLIT, FakeTransform()).features)


def test_large_features_are_in_a_file_without_a_name(tmp_path, monkeypatch) -> None:
    method = FakeMethod()
    expected = frozen_features(method, SPLIT, FakeTransform())
    monkeypatch.setattr(mapped, "LARGE", 0)
    found = frozen_features(method, SPLIT, FakeTransform(), batch_size=7, folder=tmp_path)
    torch.testing.assert_close(found.features, expected.features)
    assert mapped.MappedFile.of(found.features) is not None
    assert not [*tmp_path.iterdir()]


def test_large_embeddings_are_in_a_file_that_other_processes_write_to(tmp_path, monkeypatch):
    method = FakeMethod()
    expected = embed_split(method, SPLIT, FakeTransform())
    monkeypatch.setattr(mapped, "LARGE", 0)
    found = embed_split(method, SPLIT, FakeTransform(), file=tmp_path / "projections")
    torch.testing.assert_close(found, expected)
    assert (tmp_path / "projections").stat().st_size == expected.nbytes


def test_a_process_without_samples_knows_the_width_of_embeddings(monkeypatch) -> None:
    monkeypatch.setattr(ranks, "chunk", lambda size: range(size, size))
    assert embed_split(FakeMethod(), SPLIT, FakeTransform()).shape == (0, 4)


def test_a_condition_reads_embeddings_in_blocks_and_asks_for_the_nearest_centroid(monkeypatch):
    monkeypatch.setattr(mapped, "LARGE", 0)
    monkeypatch.setattr(mapped, "BLOCK", 100)
    monkeypatch.setattr(fitted, "NUMBERS", 12)
    x, centroids = torch.randn(30, 5), torch.randn(4, 5)
    for embed in (fitted.Embeddings(lambda: x), Embeddings(lambda: x, "cpu")):
        parts = [*embed.blocks()]
        assert len(parts) == 6
        torch.testing.assert_close(torch.cat(parts), embed())
        assert embed.nearest(centroids).equal(torch.cdist(x, centroids).argmin(1))
