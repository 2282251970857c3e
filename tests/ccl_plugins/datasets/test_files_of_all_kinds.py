"""Files as people have them: turned photos, loops of links, odd columns, other byte orders, ``~``."""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import os
import random
import shutil
import struct
import warnings

import numpy as np
import pyarrow
import pytest
import safetensors.torch
import torch
from PIL import Image
from pyarrow import parquet
from support.condition_splits import Split, fit

import ccl_plugins as ccl
from ccl_plugins.conditions import Attributes, Saved, WordNet
from ccl_plugins.datasets import ColorMNIST, Features, ImageFolder, ImageTable
from ccl_plugins.datasets.image_files import UnreadableImage, read_image
from ccl_plugins.files.arrays import as_numbers, read_npy
from ccl_plugins.files.fingerprints import of_split
from ccl_plugins.files.tables import read_table
from ccl_plugins.networks import timm_models


def folder_of_images(root, classes=("cat", "dog"), each=3):
    for name in classes:
        (root / name).mkdir(parents=True)
        for i in range(each):
            Image.new("RGB", (4, 4), (60 * i, 0, 0)).save(root / name / f"{i}.png")
    return root


@pytest.mark.parametrize("kind", ["loop", "long name", "folder", "gone"])
def test_what_cannot_be_opened_is_skipped_and_named(tmp_path, kind):
    folder = folder_of_images(tmp_path / "images")
    names = [f"{name}/{i}.png" for name in ("cat", "dog") for i in range(3)]
    bad = {"long name": "x" * 300 + ".png"}.get(kind, "bad.png")
    if kind == "loop":
        (folder / bad).symlink_to(folder / bad)
    elif kind == "folder":
        (folder / bad).mkdir()
    with (tmp_path / "images.csv").open("w", newline="") as file:
        rows = [(name, name[:3], "train") for name in names[:-1]]
        csv.writer(file).writerows(
            [("image", "label", "split"), *rows, (bad, "cat", "train"), (names[-1], "dog", "test")]
        )
    table = ImageTable(tmp_path / "images.csv", root=folder, split="split", on_error="skip")
    with pytest.warns(UserWarning, match=r"1 of 6 images .* cannot be used: .*\(row 7\): "):
        split = table("train")
    assert len(split) == 5
    assert [skipped.row for skipped in split.skipped] == [5]


ODD = {
    "time": pyarrow.array([datetime.datetime(2024, 1, 1)] * 4),
    "day": pyarrow.array([datetime.date(2024, 1, 1)] * 4),
    "bytes": pyarrow.array([b"\xff\x00"] * 4),
    "struct": pyarrow.array([{"a": 1}] * 4),
    "map": pyarrow.array([[("a", 1)]] * 4, pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    "ragged": pyarrow.array([[1], [1, 2], [], None]),
    "words": pyarrow.array([["a"], ["b", "c"], [], None]),
    "null": pyarrow.nulls(4),
    "length": pyarrow.array([datetime.timedelta(1)] * 4),
}
PLAIN = {
    "price": pyarrow.array([decimal.Decimal("1.5"), None, decimal.Decimal(2), decimal.Decimal(0)]),
    "kind": pyarrow.array(["a", "b", None, "a"]).dictionary_encode(),
    "large": pyarrow.array(["a", "b", None, "a"], pyarrow.large_string()),
    "vector": pyarrow.array([[1.0, 2.0]] * 4),
    "half": pyarrow.array(np.ones(4, np.float16)),
}


@pytest.fixture
def odd_table(tmp_path):
    folder = folder_of_images(tmp_path, each=2)
    files = [f"{name}/{i}.png" for name in ("cat", "dog") for i in range(2)]
    table = {"image": files, "label": ["cat", "cat", "dog", "dog"], **ODD, **PLAIN}
    parquet.write_table(pyarrow.table(table), folder / "images.parquet")
    return folder / "images.parquet"


def test_columns_of_odd_types_stop_nothing_unless_they_are_read(odd_table):
    dataset = ImageTable(odd_table, test_fraction=0.5)
    assert dataset.schema() == {
        "label": "categorical",
        "price": "continuous",
        "kind": "categorical",
        "large": "categorical",
        "vector": "continuous",
        "half": "continuous",
    }
    split = dataset("train")
    assert split.vocabulary["kind"] == ["a", "b"]
    assert split.metadata["vector"].shape == (2, 2)
    columns = read_table(odd_table)
    assert columns["price"] == [1.5, None, 2.0, 0.0]
    assert columns.left_out.keys() == ODD.keys()
    with pytest.raises(ValueError, match=r"'time' of the table holds neither .* but timestamp"):
        ImageTable(odd_table, test_fraction=0.5, columns=["time"]).schema()


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", ">u2", "<f4", "f2", "longdouble", "?"])
def test_arrays_of_any_byte_order_are_read(tmp_path, dtype):
    array = np.array([[0, 1], [1, 0]]).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    for found in (read_npy(tmp_path / "x.npy"), as_numbers(array.astype(">f4"), "x")):
        assert found.double().tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_a_tilde_is_the_home_folder_wherever_a_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder_of_images(tmp_path / "images")
    assert len(ImageFolder("~/images", test_fraction=0.4)("train")) == 3
    with (tmp_path / "images.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ("image", "label"),
                *((f"~/images/{n}/{i}.png", n) for n in ("cat", "dog") for i in range(3)),
            ]
        )
    assert len(ImageTable("~/images.csv", root="~/images", test_fraction=0.4)("train")) == 3
    safetensors.torch.save_file(
        {"features": torch.randn(6, 2), "label": torch.arange(6) % 2}, tmp_path / "x.safetensors"
    )
    assert len(Features("~/x.safetensors", test_fraction=0.4)("train")) == 3
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        ColorMNIST("~")("train")
    for condition in (Saved("~/x.safetensors"), Attributes(file="~/x.safetensors")):
        assert condition.file == tmp_path / "x.safetensors"
    (tmp_path / "tree.csv").write_text("parent,child\nanimal,cat\nanimal,dog\n")
    ids = fit(WordNet(level=2, source="~/tree.csv"), Split(label=["cat", "dog"]))
    assert ids.tolist() == [0, 1]
    model = timm_models.create_model("resnet10t", False, {})
    torch.save(model.state_dict(), tmp_path / "w.pt")
    timm_models.load_weights(model, "~/w.pt")


class Columnar:
    """Dictionaries, stored by column as Hugging Face's data sets are; reading an image is counted."""

    column_names = ("image", "label")

    def __init__(self, n=6):
        self.label = [["cat", "dog"][i % 2] for i in range(n)]
        self.read = 0

    def __len__(self):
        return len(self.label)

    def __getitem__(self, key):
        if key == "label":
            return self.label
        self.read += 1
        return {"image": Image.new("RGB", (4, 4), (key, 0, 0)), "label": self.label[key]}


def test_dictionaries_are_named_at_the_first_item_with_a_cure_that_works():
    train, test = Columnar(), Columnar()
    with pytest.raises(
        TypeError, match=r"^train\[0\] is a dictionary with 'image', 'label'"
    ) as error:
        ccl.create("dataset", "torch", train=train, test=test)
    cure = str(error.value).split("give ")[1]
    train.read = 0
    split = eval(cure, {"ccl": ccl, "train": train, "test": test})("train")
    assert train.read == 0, "labels are read without images"
    assert split.vocabulary["label"] == ["cat", "dog"]
    image, target = split[3]
    assert (image.getpixel((0, 0)), target) == ((3, 0, 0), 1)
    in_lists = [{"img": torch.zeros(3, 4, 4, dtype=torch.uint8), "fine_label": 2}] * 4
    dataset = ccl.create(
        "dataset", "torch", train=in_lists, test=in_lists, image="img", label="fine_label"
    )
    assert dataset("train").targets.tolist() == [2] * 4


def test_dictionaries_with_labels_from_elsewhere_are_named_when_the_first_is_read():
    samples = [{"image": 0, "label": 1}] * 4
    dataset = ccl.create(
        "dataset", "torch", train=samples, test=samples,
        metadata={"label": [0, 1, 0, 1]}, test_metadata={"label": [0, 1, 0, 1]},
    )  # fmt: skip
    with pytest.raises(
        TypeError, match=r"sample 0 is a dictionary .* image='image', label='label'"
    ):
        dataset("train")[0]


def test_a_wrong_key_is_named_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"sample 0 has no 'img', but 'image', 'label'"):
        ccl.create(
            "dataset", "torch", train=Columnar(), test=Columnar(), image="img", label="label"
        )("train")[0]
    with pytest.raises(ValueError, match="give image=, the key of the image"):
        ccl.create("dataset", "torch", train=Columnar(), test=Columnar(), label="label")
    pairs = [(torch.zeros(3, 4, 4), 0)] * 2
    with pytest.raises(ValueError, match="sample 0 is a tuple, not a dictionary"):
        ccl.create("dataset", "torch", train=pairs, test=pairs, image="image", label="label")


def test_an_image_with_broken_data_of_any_part_is_named_or_read(tmp_path):
    """Pillow raises errors of many types, such as struct.error for broken EXIF data."""
    file = tmp_path / "0.jpg"
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8))
    exif = image.getexif()
    exif[0x0112], exif[0x010E] = 6, "abc"
    for ending, options in (("jpg", {"exif": exif}), ("tif", {"exif": exif}), ("png", {})):
        image.save(file, {"jpg": "JPEG", "tif": "TIFF", "png": "PNG"}[ending], **options)
        whole = file.read_bytes()
        for seed in range(100):
            draw = random.Random(seed)
            content = bytearray(whole)
            for _ in range(draw.choice([1, 3, 10])):
                content[draw.randrange(min(len(content), 400))] ^= 1 << draw.randrange(8)
            file.write_bytes(content)
            with warnings.catch_warnings(), contextlib.suppress(UnreadableImage):
                warnings.simplefilter("ignore")  # Pillow's, of corrupt EXIF data
                read_image(str(file), "RGB")


def test_an_error_of_a_decoder_of_any_type_is_an_unreadable_image(tmp_path, monkeypatch):
    Image.new("RGB", (2, 2)).save(tmp_path / "0.png")

    def broken(image):
        raise struct.error("required argument is not an integer")

    monkeypatch.setattr("PIL.Image.Image.getexif", broken)
    with pytest.raises(UnreadableImage, match="error: required argument"):
        read_image(str(tmp_path / "0.png"), "RGB")


def test_a_pipe_among_the_images_is_left_out_and_not_waited_for(tmp_path):
    root = folder_of_images(tmp_path / "images")
    os.mkfifo(root / "cat" / "9.png")
    shutil.copytree(root, tmp_path / "both" / "test", ignore=shutil.ignore_patterns("9.png"))
    root.rename(tmp_path / "both" / "train")
    with pytest.warns(UserWarning, match=r"cat/9\.png: it is not a file"):
        split = ImageFolder(root=tmp_path / "both", on_error="skip")("train")
    assert len(split) == 6


def test_file_names_that_are_not_utf_8_have_a_fingerprint(tmp_path):
    root = folder_of_images(tmp_path / "images")
    name = os.fsencode(root / "cat") + b"/\xff.png"
    shutil.copy(root / "cat" / "0.png", name)
    split = ImageFolder(root=root, test_fraction=0.5, seed=0)("train")
    split.paths[0] = os.fsdecode(name)
    assert of_split(split) == of_split(split)


def test_files_that_are_read_otherwise_are_other_images(tmp_path):
    root = folder_of_images(tmp_path / "images")
    read = ({}, {"mode": "L"}, {"levels": (0, 100)}, {"levels": (0, 200)})
    splits = [ImageFolder(root=root, test_fraction=0.5, **each)("train") for each in read]
    assert len({of_split(split) for split in splits}) == len(read)
    listed = ImageFolder(root=root, test_fraction=0.5, levels=[0.0, 200.0])("train")
    assert of_split(listed) == of_split(splits[-1])
