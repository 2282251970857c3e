"""The how-to page about data, and the scripts that write tables of files laid out as the data sets are."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import tomllib
from pathlib import Path

import pytest
import torch
from support.image_samples import write_image

import ccl_plugins as ccl

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "datasets.md").read_text(encoding="utf-8")


def follow(script):
    """Run a script of examples/recipes/tables here, and open the data set and condition that it names."""
    source = (ROOT / "examples" / "recipes" / "tables" / f"{script}.py").read_text("utf-8")
    exec(compile(source, script, "exec"), {})
    said = re.findall(r"^ {4}.*\n", ast.get_docstring(ast.parse(source)) + "\n", re.MULTILINE)
    choices = tomllib.loads(textwrap.dedent("".join(said)))
    options = dict(choices["dataset"])
    return ccl.create("dataset", options.pop("use"), **options), choices["condition"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_s_code_runs():
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "datasets.md", "exec"), names)
    assert names["pipeline"].dataset("test").samples.shape == (12, 5)


def test_cub(here):
    root = here / "CUB_200_2011"
    birds = {"1": "001.Albatross/a.jpg", "2": "002.Auk/b.jpg", "3": "002.Auk/c.jpg"}
    for path in birds.values():
        write_image(root / "images" / path)
    (root / "attributes").mkdir()
    texts = {
        "images.txt": [f"{i} {path}" for i, path in birds.items()],
        "classes.txt": ["1 001.Albatross", "2 002.Auk"],
        "image_class_labels.txt": ["1 1", "2 2", "3 2"],
        "train_test_split.txt": ["1 1", "2 0", "3 1"],
        "attributes/image_attribute_labels.txt": [
            f"{i} {a} {int(a % 3 == int(i) % 3)} 3 27.7" + (" 0" if a == 10 else "")
            for i in birds
            for a in range(1, 313)
        ],
    }
    for name, content in texts.items():
        (root / name).write_text("\n".join(content) + "\n")
    dataset, condition = follow("cub")
    train = dataset("train")
    assert (len(train), len(dataset("test"))) == (2, 1)
    assert train.vocabulary["label"] == ["001.Albatross", "002.Auk"]
    expected = torch.tensor([[float(a % 3 == i % 3) for a in range(1, 201)] for i in (1, 3)])
    torch.testing.assert_close(train.metadata["attributes"], expected)
    assert dataset.schema()["attributes"] == "multi_label"
    assert condition["columns"] == ["attributes"]
    assert train[1][0].size == (8, 8)


def test_ut_zappos(here):
    root = here / "ut-zap50k"
    (root / "ut-zap50k-data").mkdir(parents=True)
    header = "CID,Category,SubCategory,HeelHeight,Insole,Closure,Gender,Material,ToeStyle"
    rows = [
        f"{i}-{i + 1},Shoes,{('Oxfords', 'Loafers')[i % 2]},,Padded,Lace up,Men,Leather;Suede,Round"
        for i in range(20)
    ]
    (root / "ut-zap50k-data" / "meta-data.csv").write_text("\n".join([header, *rows]))
    for i in range(20):
        write_image(root / "ut-zap50k-images-square" / "Shoes" / "Brand" / f"{i}.{i + 1}.jpg")
    dataset, condition = follow("ut_zappos")
    train = dataset("train")
    assert (len(train), len(dataset("test"))) == (14, 6)
    assert list(dataset.schema()) == ["label", *condition["columns"]]
    assert train.vocabulary["Material"] == ["Leather;Suede"]
    assert train.vocabulary["HeelHeight"] == ["not given"]


def test_wider_is_the_or_over_boxes(here):
    root = here / "WIDER"
    (root / "Anno").mkdir(parents=True)
    absent = [-1] * 14
    boxes = {
        "train/0--Parade/a.jpg": [[1, *absent[1:]], [0, 1, *absent[2:]]],
        "val/1--Riot/b.jpg": [],
        "test/1--Riot/c.jpg": [[0] * 13 + [1]],
    }
    for part, names in (("trainval", [*boxes][:2]), ("test", [*boxes][2:])):
        found = {
            "attribute_id_map": {str(i): f"a{i}" for i in range(14)},
            "scene_id_map": {"0": "Parade", "1": "Riot"},
            "images": [
                {
                    "file_name": name,
                    "scene_id": int("1--" in name),
                    "targets": [{"bbox": [0, 0, 1, 1], "attribute": box} for box in boxes[name]],
                }
                for name in names
            ],
        }
        (root / "Anno" / f"wider_attribute_{part}.json").write_text(json.dumps(found))
    for name in boxes:
        write_image(root / "Image" / name)
    dataset, _ = follow("wider")
    train, test = dataset("train"), dataset("test")
    assert train.metadata["attributes"].tolist() == [[1.0, 1.0, *[0.0] * 12], [0.0] * 14]
    assert test.metadata["attributes"].tolist() == [[0.0] * 13 + [1.0]]
    assert [train.vocabulary["label"][i] for i in train.metadata["label"]] == ["Parade", "Riot"]


def test_imagenet_100(here):
    (here / "imagenet100.txt").write_text("n02\nn01\n")
    for folder in ("train", "val"):
        for name in ("n01", "n02", "n03"):
            write_image(here / "imagenet" / folder / name / "a.JPEG")
    dataset, _ = follow("imagenet100")
    assert dataset("train").vocabulary == {"label": ["n01", "n02"]}
    assert dataset("test").metadata["label"].tolist() == [1, 0]
    assert dataset("test")[0][0].mode == "RGB"
