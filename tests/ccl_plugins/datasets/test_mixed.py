"""Several data sets in one run: their columns fit together, or it is said why not."""

from __future__ import annotations

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.datasets import ColorDigits, Mixed, Sprites, TorchDataset


def own(size=4, **columns):
    images = torch.arange(size * 12).reshape(size, 3, 2, 2).to(torch.uint8)
    options = {k: columns.pop(k) for k in ("text", "group", "value_types") if k in columns}
    table = {"label": [i % 2 for i in range(size)], **columns}
    return TorchDataset(
        list(images), list(images[:3]), table, {k: v[:3] for k, v in table.items()}, **options
    )


def test_samples_come_one_data_set_after_another():
    digits, shapes = ColorDigits(), Sprites(train=30, test=20)
    mixed = Mixed({"digits": digits, "shapes": shapes})
    for split, size in (("train", 30), ("test", 20)):
        found, first, second = mixed(split), digits(split), shapes(split)
        assert len(found) == len(first) + size
        assert torch.equal(found[5][0], first[5][0])
        assert torch.equal(found[len(first) + 3][0], second[3][0])
        assert found.metadata["source"].bincount().tolist() == [len(first), size]
        assert found.vocabulary["source"] == ["digits", "shapes"]
        assert found.vocabulary["label"] == [
            *(f"digits/{digit}" for digit in range(10)),
            *(f"shapes/{name}" for name in ("triangle", "ell", "tee")),
        ]
        ids = torch.cat([first.metadata["label"], 10 + second.metadata["label"]])
        assert torch.equal(found.metadata["label"], ids)
        assert found[len(first)][1] == ids[len(first)]


@pytest.mark.parametrize("apart", [["label"], []])
def test_images_without_classes_are_mixed_with_others(tmp_path, apart):
    from PIL import Image

    for folder, names in (("classes", ["a/0", "a/1", "b/0", "b/1"]), ("loose", ["0", "1", "2"])):
        for split in ("train", "test"):
            for i, name in enumerate(names):
                file = tmp_path / folder / split / f"{name}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (4, 4), (40 * i, len(split), 0)).save(file)
    of = {
        name: ccl.create("dataset", "image_folder", root=tmp_path / name)
        for name in ("classes", "loose")
    }
    found = Mixed(of, apart)("train")
    assert found.metadata["label"].tolist() == [0, 0, 1, 1, -1, -1, -1]


def test_several_samples_are_read_in_one_call_of_each_data_set_that_has_one():
    shapes = Sprites(train=30, test=20)
    mixed, digits = Mixed({"digits": ColorDigits(), "shapes": shapes})("train"), ColorDigits()
    n, wanted = len(digits("train")), [9, 4, 9]
    places = [n + 3, *wanted, n + 8, 0]
    found = mixed.__getitems__(places)
    for index, (image, label) in zip(places, found, strict=True):
        assert torch.equal(image, mixed[index][0])
        assert label == mixed[index][1]
    assert not hasattr(Mixed({"a": own(), "b": own()})("train"), "__getitems__")


def test_columns_that_a_data_set_lacks_are_missing():
    mixed = Mixed({"digits": ColorDigits(), "shapes": Sprites(train=30, test=20)})
    columns, n = mixed("train").metadata, len(ColorDigits()("train"))
    assert (columns["holes"][n:] == -1).all()
    assert columns["place"][:n].isnan().all()
    assert torch.equal(columns["color"][:n], ColorDigits()("train").metadata["color"])
    assert not columns["color"].isnan().any()
    assert mixed.schema()["source"] == "categorical"
    assert columns.keys() == mixed.schema().keys()


def test_classes_with_words_are_one_if_the_words_are():
    a = own(site=["north", "south", "north", None], label=["cat", "dog"] * 2)
    b = own(site=["west", "north", "west", "west"], label=["dog", "owl"] * 2)
    both = Mixed({"a": a, "b": b}, apart=[])("train")
    assert both.vocabulary["site"] == ["north", "south", "west"]
    assert both.metadata["site"].tolist() == [0, 1, 0, -1, 2, 0, 2, 2]
    assert both.vocabulary["label"] == ["cat", "dog", "owl"]
    assert both.metadata["label"].tolist() == [0, 1, 0, 1, 1, 2, 1, 2]
    apart = Mixed({"a": a, "b": b}, apart=["label", "site"])("test")
    assert apart.vocabulary["site"] == ["a/north", "a/south", "b/north", "b/west"]
    assert apart.metadata["site"].tolist() == [0, 1, 0, 3, 2, 3]


def test_ids_without_words_are_apart_only_where_it_is_said():
    a, b = own(plate=[0, 1, 2, 0]), own(plate=[2, 2, 1, 0])
    found = Mixed({"a": a, "b": b})("train").metadata
    assert found["plate"].tolist() == [0, 1, 2, 0, 2, 2, 1, 0]
    assert found["label"].tolist() == [0, 1, 0, 1, 2, 3, 2, 3]


def test_texts_and_groups_are_those_that_all_have():
    a = own(
        words=["w"] * 4,
        more=["x"] * 4,
        patient=[0, 0, 1, 1],
        text=["words", "more"],
        group="patient",
    )
    b = own(words=["v"] * 4, patient=[0, 1, 1, 1], text=["words"], group="patient")
    mixed = Mixed({"a": a, "b": b}, apart=["label", "patient"])
    found = mixed("train")
    assert mixed.texts() == ["words"]
    assert found.texts == {"words": ["w"] * 4 + ["v"] * 4}
    assert found.group == "patient"
    assert found.metadata["patient"].tolist() == [0, 0, 1, 1, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        (own(age=["a", "b", "a", "b"]), {}, "'age' is continuous in a and categorical in b"),
        (own(age=[[0.5, 1.5]] * 4), {}, "'age' has rows of different shapes"),
        (
            own(place=["x"] * 4),
            {},
            r"'place' has words in b but only ids in a.*apart=\['label', 'place'\]",
        ),
        (own(source=[1] * 4), {}, "b already has a column 'source': give column="),
        (own(patient=[1] * 4, group="patient"), {}, "must have one of the same name, or none"),
        (own(), {"apart": ["age"]}, "apart names 'age', which is not a column of class ids"),
    ],
    ids=["types", "shapes", "words", "source", "groups", "apart"],
)
def test_columns_that_do_not_fit_are_refused(other, options, message):
    mixed = Mixed({"a": own(age=[0.5, 1.5, 2.5, 3.5], place=[0, 1, 0, 1]), "b": other}, **options)
    with pytest.raises(ValueError, match=message):
        mixed("train")


def test_one_data_set_is_no_mixture():
    with pytest.raises(ValueError, match="two data sets or more, not 1"):
        Mixed({"a": own()})


def test_the_source_is_a_condition_and_gives_shares(tmp_path):
    (tmp_path / "mixed.toml").write_text(
        """
backbone = "lenet5"
method = {use = "simclr", hidden = 8, dim = 4, batch_norm = false}
transform = {use = "simclr", size = 32, jitter = 0.0, gray = 0.0, blur = 0.0}
objective = {use = "fair_cclk", kernel = "delta"}
condition = {use = "column", name = "source"}
sampler = {use = "weighted", weights = [1, 3]}
evaluate = [{use = "knn", k = 3}]
fit = {epochs = 1, batch_size = 16, workers = 1}

[dataset]
use = "mixed"

[dataset.of]
digits = {use = "subset", of = "color_digits", train = 40, test = 20}
shapes = {use = "sprites", train = 24, test = 12}
"""
    )
    run = ccl.Pipeline.from_toml(tmp_path / "mixed.toml").fit(out=tmp_path / "run", progress=False)
    assert set(run.evaluate()) == {"knn/top1"}
