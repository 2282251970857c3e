"""Data sets of Hugging Face: their features are the schema, and images are read as they are needed."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile
import torch
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, List, Value
from PIL import Image as Picture
from support.image_samples import write_image
from torch.utils import data

import ccl_plugins as ccl
from ccl_plugins.datasets import HuggingFace
from ccl_plugins.datasets.hf import DecodedImages
from ccl_plugins.training.loader import Items

FEATURES = Features(
    {
        "photo": Image(),
        "fine_label": ClassLabel(names=["cat", "dog", "owl"]),
        "site": ClassLabel(names=["north", "south"]),
        "tags": List(ClassLabel(names=["wet", "dark", "far"])),
        "flags": List(Value("bool"), length=2),
        "age": Value("float32"),
        "year": Value("int32"),
        "place": List(Value("float64"), length=2),
        "caption": Value("string"),
        "taken": Value("timestamp[s]"),
    }
)
SIZES = {"train": 24, "validation": 12}


def rows(size, seed=0):
    generator = np.random.default_rng(seed)
    return {
        "photo": list(generator.integers(0, 256, (size, 8, 8, 3), dtype=np.uint8)),
        "fine_label": [i % 3 for i in range(size)],
        "site": [None if i == 5 else i % 2 for i in range(size)],
        "tags": [[], [0], [0, 2], None] * (size // 4),
        "flags": [[True, False]] * size,
        "age": generator.random(size).astype("float32"),
        "year": [2000 + i % 4 for i in range(size)],
        "place": generator.random((size, 2)),
        "caption": [f"image {i}" for i in range(size)],
        "taken": [1_000_000 + i for i in range(size)],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = {name: Dataset.from_dict(rows(size, size), FEATURES) for name, size in SIZES.items()}
    DatasetDict(made).save_to_disk(path := tmp_path_factory.mktemp("hf") / "animals")
    return path


def animals(folder, **more):
    return HuggingFace(folder, test="validation", label="fine_label", **more)


def test_the_features_are_the_schema(folder):
    dataset = animals(folder, text=["caption"])
    assert dataset.schema() == {
        "label": "categorical",
        "site": "categorical",
        "tags": "multi_label",
        "flags": "multi_label",
        "age": "continuous",
        "year": "categorical",
        "place": "continuous",
    }
    assert dataset.texts() == ["caption"]
    train, test = dataset("train"), dataset("test")
    assert (len(train), len(test)) == (24, 12)
    assert train.vocabulary["label"] == ["cat", "dog", "owl"]
    assert train.vocabulary["site"] == ["north", "south"]
    assert train.metadata["site"][4:7].tolist() == [0, -1, 0]
    assert train.metadata["tags"][:3].tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 1]]
    assert train.metadata["tags"][3].isnan().all()
    assert train.metadata["age"].dtype == torch.float32
    np.testing.assert_allclose(test.metadata["place"], rows(12, 12)["place"], rtol=1e-6)
    assert test.texts["caption"][3] == "image 3"


def test_images_are_those_of_the_rows_one_by_one_and_together(folder):
    for split, size in (("train", 24), ("test", 12)):
        expected = rows(size, size)["photo"]
        found = animals(folder)(split)
        for index, (image, label) in enumerate(found):
            np.testing.assert_array_equal(np.asarray(image), expected[index])
            assert label == index % 3
        several = found.__getitems__([7, 2])
        np.testing.assert_array_equal(np.stack([x for x, _ in several]), [expected[7], expected[2]])
        assert [label for _, label in several] == [1, 2]
    assert np.asarray(animals(folder, mode="L")("train")[0][0]).shape == (8, 8)


def test_a_part_may_be_held_out_with_groups(folder):
    dataset = HuggingFace(
        folder, label="fine_label", test_fraction=0.5, group="year", columns=["year"]
    )
    train, test = dataset("train"), dataset("test")
    assert len(train) + len(test) == 24
    assert not {*train.metadata["year"].tolist()} & {*test.metadata["year"].tolist()}
    assert train.group == "year"
    photos = [np.asarray(image) for split in (train, test) for image, _ in split]
    assert len({photo.tobytes() for photo in photos}) == 24


def test_a_single_data_set_is_its_train_split(folder, tmp_path):
    Dataset.from_dict(rows(12), FEATURES).save_to_disk(tmp_path / "one")
    found = HuggingFace(tmp_path / "one", label="fine_label", test_fraction=0.25)
    assert (len(found("train")), len(found("test"))) == (9, 3)
    with pytest.raises(ValueError, match=r"no split 'test', but 'train'.* test_fraction"):
        HuggingFace(tmp_path / "one", label="fine_label")("train")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": "test"}, "no split 'test', but 'train', 'validation'"),
        ({"label": "class"}, "no column 'class'"),
        ({"image": "caption"}, "image must be one of .*'photo', not 'caption'"),
        ({"columns": ["taken"]}, "'taken' .* neither words nor numbers, but timestamp"),
        ({"columns": ["caption"], "text": ["caption"]}, "'caption' is named in text and"),
        ({"text": ["words"]}, "no column 'words'"),
    ],
)
def test_what_is_not_there_is_named(folder, changes, message):
    with pytest.raises(ValueError, match=message):
        HuggingFace(folder, **{"test": "validation", "label": "fine_label"} | changes)("train")


def test_words_are_classes_if_they_are_asked_for(folder):
    train = animals(folder, columns=["caption"])("train")
    assert train.vocabulary["caption"][:2] == ["image 0", "image 1"]
    assert set(train.metadata) == {"label", "caption"}


def test_an_image_that_cannot_be_decoded_is_named_by_its_row(tmp_path):
    features = Features({"image": Image(), "label": Value("int64")})
    given = [{"path": None, "bytes": b"no image"}] * 3
    broken = Dataset.from_dict({"image": given, "label": [0, 1, 0]}, features)
    images = DecodedImages(
        broken.select_columns(["image"]), "image", "RGB", "broken, split 'train'"
    )
    with pytest.raises(OSError, match="broken, split 'train': the image of row 1 "):
        images.__getitems__([1, 2])


@pytest.mark.parametrize("what", ["cut short", "deleted"])
def test_a_file_that_is_damaged_is_named_with_the_data_set(tmp_path, what):
    Dataset.from_dict(rows(12), FEATURES).save_to_disk(tmp_path / "one")
    (file,) = (tmp_path / "one").glob("*.arrow")
    if what == "deleted":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(OSError, match=f"the data set '{tmp_path / 'one'}'"):
        HuggingFace(tmp_path / "one", label="fine_label")("train")


def test_a_data_set_that_is_not_there_is_named():
    with pytest.raises(OSError, match=r"the data set './nothing' cannot be read"):
        HuggingFace("./nothing")("train")


def test_a_missing_package_is_named(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(ImportError, match=r"ccl-plugins\[hf\]"):
        animals(folder)("train")


def test_it_trains_by_name_with_workers_and_conditions_on_a_column(folder, tmp_path):
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset("hf", path=str(folder), test="validation", label="fine_label"),
        backbone="lenet5",
        method={"use": "simclr", "hidden": 8, "dim": 4, "batch_norm": False},
        transform={"use": "simclr", "size": 32, "jitter": 0.0, "gray": 0.0, "blur": 0.0},
        objective="cl_infonce",
        condition={"use": "column", "name": "year"},
        evaluate=[{"use": "knn", "k": 3}],
        fit={"epochs": 1, "batch_size": 8, "workers": 1},
    )
    run = pipeline.fit(out=tmp_path / "run", progress=False)
    assert set(run.evaluate()) == {"knn/top1"}


class Together(data.Dataset):
    """Numbers that are read several at once."""

    def __init__(self):
        self.calls = []

    def __len__(self):
        return 6

    def __getitem__(self, index):
        raise AssertionError("read one by one")

    def __getitems__(self, indices):
        self.calls.append(list(indices))
        return [(torch.tensor([float(index)]), 0) for index in indices]


@pytest.mark.parametrize("part", [False, True], ids=["whole", "subset"])
def test_a_batch_is_read_by_one_call_where_the_split_can(part):
    given = Together()
    split = data.Subset(given, range(6)) if part else given

    class Same:
        count = 2
        transforms = (lambda x: x, lambda x: x + 1)

        def __call__(self, image):
            return [each(image) for each in self.transforms]

    found = Items(split, Same(), 0).__getitems__([(0, 0, 4, 2), (0, 1, 2, 5)])
    assert given.calls == [[4, 2, 5]]
    assert [[float(view) for view in views] for views, *_ in found] == [[4, 3], [2, 6]]


def test_a_subset_of_samples_that_are_read_one_by_one_is_read_so():
    seen = []

    class Draws(data.Dataset):
        def __getitem__(self, index):
            seen.append(torch.rand(()).item())
            return torch.zeros(1), 0

    class Same:
        count = 1
        transforms = (lambda x: x,)

        def __call__(self, image):
            return [image]

    items = Items(data.Subset(Draws(), range(4)), Same(), 0)
    items.__getitems__([(0, 0, 0), (0, 1, 1)])
    items.__getitems__([(0, 1, 1)])
    assert seen[1] == seen[2], "what a sample draws does not depend on its batch"


def small(**columns):
    size = len(next(iter(columns.values())))
    return {"photo": list(np.zeros((size, 8, 8, 3), np.uint8)), **columns}


def test_a_missing_class_in_a_list_is_none_of_the_classes(tmp_path):
    """-1 would else be the last."""
    features = Features(
        {
            "photo": Image(),
            "label": ClassLabel(names=["cat", "dog"]),
            "tags": List(ClassLabel(names=["wet", "dark", "far"])),
        }
    )
    given = small(label=[0, 1, -1, 0], tags=[[0, -1], [-1], [2, None], []])
    one = Dataset.from_dict(given, features)
    DatasetDict(train=one, test=one).save_to_disk(tmp_path / "one")
    train = HuggingFace(tmp_path / "one")("train")
    nan = torch.nan
    expected = torch.tensor([[1, nan, nan], [nan, nan, nan], [nan, nan, 1], [0, 0, 0]])
    torch.testing.assert_close(train.metadata["tags"], expected, equal_nan=True)
    assert train.metadata["label"].tolist() == [0, 1, -1, 0]


def test_classes_that_mean_another_thing_in_the_other_split_are_refused(tmp_path):
    def of(names):
        features = Features({"photo": Image(), "label": ClassLabel(names=names)})
        return Dataset.from_dict(small(label=[0, 1]), features)

    DatasetDict(train=of(["cat", "dog"]), test=of(["dog", "cat"])).save_to_disk(tmp_path / "one")
    message = (
        r"one: the classes of column 'label' are \['cat', 'dog'\] in train and \['dog', 'cat'\]"
    )
    with pytest.raises(ValueError, match=message):
        HuggingFace(tmp_path / "one")("train")


@pytest.mark.parametrize(("column", "word"), [("patient", "007"), ("gene", "NA")])
def test_names_that_datasets_would_change_are_refused(tmp_path, monkeypatch, column, word):
    """It reads 007 as 7, and NA as no value."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    for split in ("train", "test"):
        folder = tmp_path / "photos" / split
        folder.mkdir(parents=True)
        rows = ["file_name,label,age,patient,gene"]
        for i in range(4):
            write_image(folder / f"{i}.png", 10 * i)
            rows.append(f"{i}.png,{i % 2},{i}.5,{('7', '007')[i % 2]},{('TP53', 'NA')[i % 2]}")
        (folder / "metadata.csv").write_text("\n".join(rows))
    dataset = HuggingFace(tmp_path / "photos", columns=["age"])
    assert dataset("train").metadata["age"].tolist() == [0.5, 1.5, 2.5, 3.5]
    with pytest.raises(ValueError, match=rf"metadata\.csv: column '{column}' has '{word}', which"):
        HuggingFace(tmp_path / "photos", columns=[column])("train")


def test_stored_images_have_the_pixels_of_files(tmp_path):
    """``datasets`` decodes by Pillow, which cuts color of 16 bits and has lost what said so."""
    file = tmp_path / "deep.tif"
    array = np.random.default_rng(0).integers(0, 65535, (6, 5, 3)).astype(np.uint16)
    tifffile.imwrite(file, array, photometric="rgb", metadata=None)
    exif = Picture.Exif()
    exif[0x0112] = 6
    Picture.fromarray((array >> 8).astype(np.uint8)).save(tmp_path / "turned.png", exif=exif)
    features = Features({"image": Image()})
    for way in ("bytes", "path"):
        cells = [
            {"bytes": name.read_bytes() if way == "bytes" else None, "path": str(name)}
            for name in (file, tmp_path / "turned.png")
        ]
        source = Dataset.from_dict({"image": cells}, features=features)
        read = DecodedImages(source, "image", "RGB", "here", levels={"uint16": (0, 65535)})
        expected = (array.astype(np.float32) / 65535 * 255).round()
        np.testing.assert_array_equal(np.asarray(read[0]), expected)
        np.testing.assert_array_equal(np.asarray(read[1]), np.rot90(array >> 8, 3))
        with pytest.raises(
            OSError, match=r"row 0 \(from 0\).*uint16 from .* have more than 8 bits"
        ):
            DecodedImages(source, "image", "RGB", "here")[0]


def test_an_empty_cell_is_an_image_that_is_missing():
    source = Dataset.from_dict({"image": [None]}, features=Features({"image": Image()}))
    with pytest.raises(OSError, match=r"row 0 \(from 0\) is missing .* the cell is empty"):
        DecodedImages(source, "image", "RGB", "here")[0]
