"""Paths in a record are shortened; names are not."""

from __future__ import annotations

import pytest

from ccl_plugins.experiments.paths import shorten, without_paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/data/cifar", "cifar"),
        ("/home/alice/My Drive/images.csv", "images.csv"),
        ("/data/", "data"),
        ("~/data/cifar", "cifar"),
        ("../alice/cifar", "cifar"),
        ("./data/cifar", "cifar"),
        (r"C:\Users\alice\cifar", "cifar"),
        ("D:/alice/cifar", "cifar"),
        (r"\\server\share\cifar", "cifar"),
        ("file:///home/alice/cifar", "cifar"),
        ("s3://secret-bucket/cifar", "cifar"),
        ("local-dir:/home/alice/weights", "weights"),
        ("the share of /home/alice/cifar that is right", "the share of cifar that is right"),
        ("mean of '/home/alice/cifar'", "mean of 'cifar'"),
    ],
)
def test_a_path_is_shortened(text, expected):
    assert shorten(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "objective:ccl-plugins/infonce",
        "hf-hub:timm/resnet18.a1_in1k",
        "uoft-cs/cifar10",
        "linear/top1",
        "a cat and/or a dog",
        "images.csv",
        r"\d+",
        "0 to 1 / second",
        "",
    ],
)
def test_another_text_is_not(text):
    assert shorten(text) == text


def test_a_relative_path_of_what_is_there_is_shortened(tmp_path, monkeypatch):
    (tmp_path / "alice" / "cifar").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert shorten("alice/cifar") == "cifar"
    assert shorten("bob/cifar") == "bob/cifar"


def test_the_places_of_paths_are_told():
    record = {
        "dataset": {"use": "dataset:ccl-plugins/mixed", "of": [{"root": "/a/b"}, {"root": "c"}]},
        "fit": {"epochs": 3, "lr": 0.1, "compile": False, "clip": None},
    }
    found, places = without_paths(record)
    assert places == ["dataset.of.root"]
    assert found == {
        **record,
        "dataset": {**record["dataset"], "of": [{"root": "b"}, {"root": "c"}]},
    }
