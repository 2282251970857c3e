from __future__ import annotations

import pytest
import torch
from support.training_fakes import FakeDataset, FakeMethod, FakeTransform
from torch.nn.functional import normalize

from ccl_plugins.methods import MoCoV2
from ccl_plugins.training.features import embed_split, frozen_features

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
