"""The colors of patches, and the runs that have them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from support.training_fakes import FakeDataset
from torchvision.transforms.v2 import functional as pixels

import ccl_plugins as ccl
from ccl_plugins.figures import Patches
from ccl_plugins.figures.patches import colors, patches, picture
from ccl_plugins.protocols import DoesNotApply

VIT = {"embed_dim": 16, "depth": 1, "num_heads": 2, "img_size": 32, "patch_size": 8}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with a vision transformer and one without patches."""
    folder, found = tmp_path_factory.mktemp("runs"), {}
    vit = ccl.backbone("timm", name="vit_tiny_patch16_224", options=VIT, features="mean")
    for title, backbone in (("vit", vit), ("lenet5", "lenet5")):
        pipeline = ccl.Pipeline(
            dataset=FakeDataset(16),
            backbone=backbone,
            method=ccl.method("simclr", hidden=8, dim=8),
            transform=ccl.transform("simclr", size=32),
            objective="infonce",
            evaluate=[{"use": "knn", "k": 3}],
        )
        found[title] = pipeline.fit(
            out=folder / title, epochs=1, batch_size=8, workers=0, progress=False
        )
    return found


def test_colors_are_the_first_three_principal_components_from_0_to_1():
    features = torch.randn(2, 3, 4, 8, generator=torch.Generator().manual_seed(0))
    found = colors(features)
    assert found.shape == (2, 3, 4, 3)
    flat = found.flatten(0, 2)
    torch.testing.assert_close(flat.amin(0), torch.zeros(3).double())
    torch.testing.assert_close(flat.amax(0), torch.ones(3).double())
    expected = PCA(3, svd_solver="full").fit_transform(features.double().flatten(0, 2).numpy())
    correlated = np.corrcoef(flat.numpy().T, expected.T)[:3, 3:]
    np.testing.assert_allclose(np.abs(correlated), np.eye(3), atol=1e-9)


def test_colors_do_not_depend_on_the_sign_of_a_direction_or_on_scale():
    features = torch.randn(1, 4, 4, 5, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(colors(3 * features + 1), colors(features))


def test_features_of_less_than_three_directions_have_no_other_colors():
    one = torch.arange(4.0).reshape(1, 2, 2, 1)
    found = colors(one)
    torch.testing.assert_close(found[..., 0], one[..., 0].double() / 3)
    assert not found[..., 1:].any()
    assert not colors(torch.ones(1, 2, 2, 8)).any()
    assert not colors(one * torch.tensor([1.0, 2.0, 0.0, 0.0]))[..., 1:].any()


def test_a_map_has_a_place_for_each_patch_beside_its_image(runs):
    figure = Patches([0, 5])({"vit": runs["vit"]})
    drawn = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    assert [each.shape for each in drawn] == [(32, 32, 3), (4, 4, 3)] * 2
    split = runs["vit"].splits[1]
    expected = colors(patches(runs["vit"], [split[0][0], split[5][0]]))
    np.testing.assert_allclose(np.stack(drawn[1::2]), expected.numpy())
    seen = pixels.resize(split[5][0], [32]).permute(1, 2, 0).double().numpy() / 255
    np.testing.assert_allclose(drawn[2], seen, atol=1e-6)


def test_an_image_of_a_transform_without_statistics_is_stretched():
    class Plain:
        def plain(self, image):
            return image

    drawn = picture(Plain(), torch.tensor([[[-1.0, 3.0]]]))
    assert drawn.tolist() == [[[0.0] * 3, [1.0] * 3]]


def test_the_patches_of_a_run_average_to_its_features(runs):
    images = [runs["vit"].splits[1][i][0] for i in range(3)]
    found = patches(runs["vit"], images)
    torch.testing.assert_close(found.mean((1, 2)), runs["vit"].encode(images, device="cpu"))


def test_a_run_without_patches_is_left_out_or_named(runs):
    assert len(Patches()(runs).axes) == 2 * 4
    with pytest.raises(DoesNotApply, match=r"lenet5 has no patches, which this figure draws"):
        Patches()({"lenet5": runs["lenet5"]})


def test_an_image_that_is_not_there_is_refused(runs):
    size = len(runs["vit"].splits[1])
    with pytest.raises(ValueError, match=f"images must be from 0 to {size - 1}, not {size}"):
        Patches([0, size])({"vit": runs["vit"]})
