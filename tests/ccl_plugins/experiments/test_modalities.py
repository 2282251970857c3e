"""Views of several modalities in a pipeline: their short form, their record, and what is refused."""

from __future__ import annotations

import sys
import tomllib
from itertools import pairwise

import pytest
from support.captions import TEXT, VIEWS, Captioned, Plain, pipeline

import ccl_plugins as ccl
from ccl_plugins.backbones import TextTransformer
from ccl_plugins.cli import main
from ccl_plugins.experiments.export import _images
from ccl_plugins.methods import Dual
from ccl_plugins.objectives import InfoNCE

TOML = """
dataset = {use = "features", train = "train.safetensors", test = "test.safetensors"}
transform = {image = "noise", age = {use = "column", name = "age", std = 0.1}}
backbone = {use = "mlp", in_features = 4, hidden = [8]}
objective = "infonce"
method = {use = "dual", dim = 4, towers = {age = {use = "mlp", in_features = 1, hidden = [4]}}}
evaluate = ["knn"]
fit = {epochs = 1, batch_size = 16, workers = 0}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    import torch
    from safetensors.torch import save_file

    for split, n in (("train", 32), ("test", 8)):
        columns = {"label": torch.arange(n) % 2, "age": torch.linspace(0, 1, n)}
        save_file({"features": torch.randn(n, 4), **columns}, f"{split}.safetensors")
    (tmp_path / "a.toml").write_text(TOML)
    return tmp_path / "a.toml"


def test_a_table_without_use_is_short_for_views_of_modalities(file):
    found = ccl.Pipeline.from_toml(file)
    assert found.choices["transform"].spec.name == "modalities"
    assert [*found.choices["transform"].params["of"]] == ["image", "age"]
    long = {"use": "modalities", "of": tomllib.loads(TOML)["transform"]}
    assert found == ccl.Pipeline.from_dict({**tomllib.loads(TOML), "transform": long})


def test_the_record_and_its_toml_give_the_same_pipeline(file):
    found = ccl.Pipeline.from_toml(file)
    assert ccl.Pipeline.from_dict(found.to_dict()) == found
    (file.parent / "b.toml").write_text(found.to_dict().to_toml())
    again = ccl.Pipeline.from_toml(file.parent / "b.toml")
    assert again == found
    assert again.transform.modalities == found.transform.modalities == ("image", "image", "age")


def test_the_views_of_a_modality_can_be_set(file):
    changes = [(("transform", "image", "count"), 1), (("transform", "age", "std"), 0.5)]
    found = ccl.Pipeline.from_toml(file, changes=changes)
    assert found.transform.modalities == ("image", "age")
    assert found.transform.of["age"].std == 0.5
    changes = [(("method", "towers", "age", "hidden"), [6])]
    found = ccl.Pipeline.from_toml(file, changes=changes)
    assert found.build().method.towers["age"].num_features == 6


def test_attributes_beside_vectors_train_from_a_file(file):
    run = ccl.Pipeline.from_toml(file).fit(out=file.parent / "run", progress=False)
    assert run.evaluate().keys() == {"knn/top1"}
    assert ccl.load(file.parent / "run").features("test").towers is None, "there is no text"


def test_towers_with_equal_records_are_networks_of_their_own(file):
    tower = {"use": "mlp", "in_features": 4, "hidden": [8]}
    found = ccl.Pipeline.from_dict(
        {
            **tomllib.loads(TOML),
            "transform": {"image": "noise", "other": "noise", "third": "noise"},
            "method": {"use": "dual", "towers": {"other": tower, "third": tower}},
        }
    )
    method = found.build().method
    networks = [method.backbone, *method.towers.values()]
    assert len({id(network) for network in networks}) == 3
    weights = [network.layers[0].weight for network in networks]
    assert not any((a == b).all() for a, b in pairwise(weights))


def test_views_of_images_alone_may_be_written_as_a_modality():
    found = pipeline(transform={"image": Plain(2)}, method="simclr")
    assert found.build().transform.count == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"method": "simclr"},
            r"several modalities \(image, text\), and the method simclr has one network: give method ="
            r' {use = "dual", towers = {text = ...}}',
        ),
        (
            {"transform": Plain(2)},
            "dual has a tower for 'text', and the views are of image: give transform =",
        ),
        (
            {"transform": {**VIEWS, "size": {"use": "column", "name": "weight"}}},
            "views are of image, text, size, and the method dual has no tower for 'size'",
        ),
        (
            {"transform": {"image": Plain(), "text": {"use": "tokens", "length": 20}}},
            "takes texts of up to 16 tokens, but its views make texts of up to 20 tokens: give it length ="
            " 20",
        ),
        (
            {"method": {"use": "dual", "towers": {"text": {**TEXT, "vocabulary": 100}}}},
            "takes token ids below 100, but its views make token ids below 257: give it vocabulary = 257",
        ),
        (
            {
                "transform": {
                    "image": Plain(),
                    "text": {"use": "tokens", "column": "title", "length": 16},
                }
            },
            "TokenTransform, reads texts in the column 'title', and the texts of the data set are"
            " 'caption'",
        ),
        (
            {
                "transform": {
                    "image": Plain(),
                    "text": {"use": "tokens", "column": "label", "length": 16},
                }
            },
            "reads texts in the column 'label', and the texts of the data set are 'caption'",
        ),
        (
            {"transform": {"image": Plain(), "text": {"use": "column", "name": "height"}}},
            "ColumnTransform, reads the column 'height', and the data set has 'label', 'attributes', 'weig",
        ),
        (
            {"transform": {"image": Plain(), "text": {"use": "column", "name": "label"}}},
            "reads a multi_label or continuous column, and 'label' is categorical",
        ),
        (
            {"transform": "tokens"},
            "TokenTransform reads the column 'caption' and not the image: give transform =",
        ),
        ({"transform": {"text": "tokens"}}, "needs one of the image"),
        (
            {
                "transform": {"image": Plain(), "other": {"use": "simclr", "size": 32}},
                "method": {
                    "use": "dual",
                    "towers": {"other": {"use": "timm", "name": "vit_tiny_patch16_224"}},
                },
            },
            "224x224 pixels, not of 32x32",
        ),
        (
            {"condition": {"use": "clusters", "of": "key", "k": 2}, "objective": "cl_infonce"},
            "reads keys of a momentum encoder, and dual has none",
        ),
        (
            {
                "transform": {"image": Plain(), "text": {"use": "column", "name": "attributes"}},
                "method": {"use": "dual", "towers": {"text": {"use": "mlp", "in_features": 3}}},
                "evaluate": ["cross_retrieval"],
            },
            "compares images with texts, and the views are of image, text: give transform =",
        ),
    ],
)
def test_parts_that_do_not_go_together_are_refused_when_composed(changes, message):
    with pytest.raises(ValueError, match=message):
        pipeline(**changes)


def test_a_split_of_ones_own_without_the_texts_is_refused_before_training(tmp_path):
    class Silent(Captioned):
        texts = None

    with pytest.raises(
        ValueError, match=r"has no column 'title' for a transform: it has texts 'caption'"
    ):
        pipeline(
            dataset=Silent(),
            transform={**VIEWS, "text": {"use": "tokens", "column": "title", "length": 16}},
        ).fit(out=tmp_path / "run", progress=False)


def test_texts_that_are_cut_are_a_warning_before_training(tmp_path):
    views = {"image": Plain(), "text": {"use": "tokens", "length": 8}}
    with pytest.warns(UserWarning, match="cuts 24 of 24 texts of 'caption' at length=8"):
        pipeline(transform=views).fit(out=tmp_path / "run", progress=False)


def test_a_tower_that_cannot_take_its_views_is_named_before_training(tmp_path):
    views = {"image": Plain(), "text": {"use": "column", "name": "attributes"}}
    mlp = {"use": "mlp", "in_features": 5, "hidden": [4]}
    with pytest.raises(ValueError, match="give it in_features=3"):
        pipeline(transform=views, method={"use": "dual", "towers": {"text": mlp}}).fit(
            out=tmp_path / "run", progress=False
        )
    assert not (tmp_path / "run").exists()


class Alone(InfoNCE):
    """Compares the samples of a batch alone."""

    reads_queue = False


def test_a_queue_that_nothing_reads_is_a_warning_and_none_is_not():
    dual = {"use": "dual", "towers": {"text": TEXT}}
    with pytest.warns(
        UserWarning, match="does not compare with a queue, so that of dual has no effect"
    ):
        pipeline(method={**dual, "queue_size": 32}, objective=Alone())
    pipeline(method=dual, objective=Alone())


def test_a_method_with_towers_of_its_own_takes_several_modalities():
    class Mine(Dual):
        """Dual with a tower that it makes itself."""

        def __init__(self, dim: int = 8, *, backbone, modalities=None) -> None:
            tower = TextTransformer(vocabulary=257, length=16, width=16, depth=1, heads=2)
            super().__init__({"text": tower}, dim=dim, backbone=backbone, modalities=modalities)

    found = pipeline(method=ccl.local("method", Mine))
    assert found.build().method.modalities == ("image", "text")


def test_partners_and_conditions_go_with_two_towers(tmp_path):
    run = pipeline(
        condition={"use": "column", "name": "weight"},
        sampler={"use": "conditional_pair", "nearest": 3},
        objective={"use": "fair_cclk", "kernel": "rbf"},
        evaluate=[],
        fit={"epochs": 1, "batch_size": 8, "workers": 0},
    ).fit(out=tmp_path / "run", progress=False)
    assert all(weight.isfinite().all() for weight in run.parts.method.parameters())


def test_the_size_of_the_image_views_reaches_an_export():
    views = ccl.create(
        "transform", "modalities", of={"image": {"use": "simclr", "size": 24}, "text": "tokens"}
    )
    assert _images(views)["input_size"] == [3, 24, 24]


def test_a_package_that_is_not_installed_is_one_line_of_the_command(file, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    status = main(["train", str(file), "--out", "runs", "--set", "transform.text=tokens"])
    assert status == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert 'need the package tokenizers: pip install "ccl-plugins[text]"' in lines[0]
