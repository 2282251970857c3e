from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import random

import numpy as np
import pytest
import torch

from ccl_plugins.files import fingerprints
from ccl_plugins.files.fingerprints import (
    differences,
    doubt,
    of_data,
    of_image,
    of_parts,
    of_split,
    of_tensors,
    other_data,
)


class Listed:
    """Images in files."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        raise AssertionError("read")


class Other:
    """Images of no known origin."""

    def __init__(self, images):
        self.given = images

    def __len__(self):
        return len(self.given)

    def __getitem__(self, i):
        return self.given[i], 0


class Memory(Other):
    @property
    def images(self):
        return self.given


@pytest.mark.parametrize("kind", [Memory, Other])
def test_other_pixels_order_and_number_are_other_images(kind):
    images = torch.rand(5, 1, 2, 2)
    changed = images.clone()
    changed[3, 0, 0, 0] += 1
    words = [
        of_split(kind(x)) for x in (images, images.clone(), changed, images.flip(0), images[:4])
    ]
    assert words[0] == words[1]
    assert len(set(words)) == 4


def test_files_are_known_by_path_size_and_time(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        with open(path, "w") as file:
            file.write("x")
        os.utime(path, ns=(0, 0))
    first = of_split(Listed(paths))
    assert of_split(Listed(paths)) == first
    assert of_split(Listed(paths[::-1])) != first
    with open(paths[0], "w") as file:
        file.write("y")
    os.utime(paths[0], ns=(0, 0))  # as rsync --archive leaves a file that it replaced
    assert of_split(Listed(paths)) != first


def test_a_split_can_say_it_itself():
    split = Other(torch.rand(2, 1))
    split.fingerprint = lambda: "version 3"
    assert of_split(split) == "version 3"


def test_tensors_differ_by_name_type_shape_and_value():
    x = torch.zeros(2, 3)
    others = [{"y": x}, {"x": x.double()}, {"x": x.view(3, 2)}, {"x": x + 1}, {"x": x, "y": x}]
    words = [of_tensors(given) for given in ({"x": x}, *others, {"x": torch.zeros(())})]
    assert len(set(words)) == 7
    assert of_tensors({"a": x, "b": x + 1}) == of_tensors({"b": x + 1, "a": x})
    of_tensors({"x": x.bfloat16()})


class Rows(Other):
    """Images with metadata."""

    def __init__(self, images, **metadata):
        super().__init__(images)
        self.metadata = metadata


def data_of(split):
    return of_data(split, lambda indices: [of_image(split[i][0]) for i in indices])


IMAGES = torch.arange(400.0).view(400, 1, 1, 1)
AGES = torch.linspace(0, 1, 400)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Rows(IMAGES[:390], age=AGES[:390]), ["390 samples, not 400"]),
        (Rows(IMAGES, age=AGES.flip(0)), ["column 'age' has other values"]),
        (Rows(IMAGES, age=AGES.double()), ["column 'age' holds float64, not float32"]),
        (Rows(IMAGES, years=AGES), ["there is no column 'age'", "column 'years' is new"]),
        (Rows(IMAGES.flip(0), age=AGES), ["images differ"]),
        (Rows(IMAGES + 1, age=-AGES), ["column 'age' has other values", "images differ"]),
        (Rows(IMAGES.clone(), age=AGES.clone()), []),
        (Rows(IMAGES, age=AGES.numpy()), []),
    ],
)
def test_differences_of_data_are_named(other, words):
    assert differences(data_of(Rows(IMAGES, age=AGES)), data_of(other)) == words


@pytest.mark.parametrize(
    ("column", "other"),
    [
        (["owl", "crow"], ["owl", "wren"]),
        (["owl", None], ["owl", ""]),
        (np.array([1, 2], ">i4"), np.array([1, 3], ">i4")),
        ([[1.0], [1.0, 2.0]], [[1.0], [1.0, 3.0]]),
        ([None, 2.0], [1.0, 2.0]),
        (np.array(["2020", "2021"], "datetime64[Y]"), np.array(["2020", "2022"], "datetime64[Y]")),
    ],
)
def test_columns_of_every_kind_are_compared(column, other):
    def found(values):
        return data_of(Rows(IMAGES[:2], label=values))

    copied = column.copy() if hasattr(column, "copy") else list(column)
    assert differences(found(column), found(copied)) == []
    assert differences(found(column), found(other)) != []


def test_the_words_of_ids_are_compared():
    first, second = (Rows(IMAGES, age=AGES) for _ in range(2))
    first.vocabulary, second.vocabulary = {"age": ["young"]}, {"age": ["old"]}
    assert differences(data_of(first), data_of(second)) == ["column 'age' has other values"]


def test_texts_are_compared_and_a_split_without_any_is_as_before():
    plain, first, second = (Rows(IMAGES[:2], age=AGES[:2]) for _ in range(3))
    first.texts, second.texts = {"caption": ["an owl", "a wren"]}, {"caption": ["an owl", "a crow"]}
    found = differences(data_of(first), data_of(second))
    assert found == ["column 'caption' has other values"]
    empty = Rows(IMAGES[:2], age=AGES[:2])
    empty.texts = {}
    assert data_of(empty) == data_of(plain)


def test_byte_order_is_no_difference():
    found = [data_of(Rows(IMAGES[:2], label=np.array([1, 2], order))) for order in (">i4", "<i4")]
    assert differences(*found) == []


def test_copied_files_are_the_same_data_and_changed_ones_are_not(tmp_path):
    def split(folder):
        listed = Listed([str(tmp_path / folder / f"{i}.png") for i in range(300)])
        listed.metadata = {"label": torch.zeros(300)}
        return listed

    (tmp_path / "a").mkdir()
    for i, path in enumerate(split("a").paths):
        Path(path).write_text(f"{i:04}")
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)
    first = data_of(split("a"))
    assert differences(first, data_of(split("b"))) == []
    for name, text in (("299.png", "0000"), ("1.png", "another size")):  # in the sample, and not
        before = (tmp_path / "b" / name).read_text()
        (tmp_path / "b" / name).write_text(text)
        assert differences(first, data_of(split("b"))) == ["images differ"]
        (tmp_path / "b" / name).write_text(before)


def test_one_of_many_small_files_with_other_bytes_is_other_data_whatever_its_time_says(tmp_path):
    split = Listed([str(tmp_path / f"{i}.raw") for i in range(300)])
    split.metadata = {"label": torch.zeros(300)}
    for path in split.paths:
        Path(path).write_bytes(b"some")
        os.utime(path, (10, 10))
    first = data_of(split)
    Path(split.paths[1]).write_bytes(b"else")  # which is not among 256 evenly spaced ones
    os.utime(split.paths[1], (10, 10))
    assert differences(first, data_of(split)) == ["images differ"]
    shutil.copytree(tmp_path, tmp_path / "copy")
    copied = Listed([str(tmp_path / "copy" / Path(path).name) for path in split.paths])
    copied.metadata = split.metadata
    assert differences(data_of(split), data_of(copied)) == []
    assert doubt(data_of(split), data_of(copied)) == ""


@pytest.fixture
def large_files(tmp_path, monkeypatch):
    """A split of 8 files that are too large to be read but for the first and the last."""
    monkeypatch.setattr(fingerprints, "SAMPLED", 2)
    monkeypatch.setattr(fingerprints, "MOST_IN_FILES", 31)
    split = Listed([str(tmp_path / f"{i}.raw") for i in range(8)])
    split.metadata = {"label": torch.zeros(8)}
    for i, path in enumerate(split.paths):
        Path(path).write_bytes(b"some")
        os.utime(path, (10 + i, 10 + i))
    return split


def test_files_of_equal_size_written_since_are_other_data_unless_all_were(large_files):
    first = data_of(large_files)
    assert doubt(first, data_of(large_files)) == ""
    Path(large_files.paths[4]).write_bytes(b"else")
    found = data_of(large_files)
    assert differences(first, found) == ["some image files were written since, and others were not"]
    for path in large_files.paths:
        os.utime(path, (30, 30))
    copied = data_of(large_files)
    assert differences(first, copied) == []
    assert doubt(first, copied).endswith("the other contents were not compared")
    assert other_data({"train": first}, {"train": found, "test": found})[0].startswith(
        "train split"
    )


def test_a_file_that_was_replaced_with_its_time_kept_is_said(large_files):
    first = data_of(large_files)
    Path(large_files.paths[4]).write_bytes(b"else")
    os.utime(large_files.paths[4], (14, 14))  # as rsync --archive leaves it
    found = data_of(large_files)
    assert differences(first, found) == []
    assert doubt(first, found).endswith("the other contents were not compared")


def test_a_dataset_that_holds_its_images_as_one_array_is_compared_whole():
    """As torchvision's hold them."""
    inner = Other(IMAGES)
    inner.data = IMAGES.numpy().copy()
    split = Rows(IMAGES, age=AGES)
    split.samples = inner
    first = data_of(split)
    inner.data[1] += 1  # which no sample of 256 among 400 need have
    assert differences(first, data_of(split)) == ["images differ"]


def test_images_that_are_never_the_same_are_not_compared():
    split = Rows(IMAGES, age=AGES)
    split.given = [lambda: None] * 400  # no image at all
    assert data_of(split)["images"] == ""
    assert of_data(Rows(IMAGES, age=AGES), lambda i: [str(random()) for _ in i])["images"] == ""
    assert differences(data_of(Rows(IMAGES, age=AGES)), data_of(split)) == []


def test_of_many_images_in_memory_some_are_read(monkeypatch):
    monkeypatch.setattr(fingerprints, "MOST_IN_MEMORY", 40 * 4)
    split = Rows(IMAGES, age=AGES)
    split.images = IMAGES
    first = data_of(split)
    split.images = IMAGES.clone()
    split.images[399] += 1
    assert differences(first, data_of(split)) == ["images differ"]


def test_of_many_values_parts_are_read(monkeypatch):
    values = torch.arange(800.0).reshape(400, 2)
    changed = values.index_fill(0, torch.tensor([399]), 7)
    whole = of_parts(values)
    assert whole == of_parts(values.clone())
    assert whole != of_parts(changed)
    monkeypatch.setattr(fingerprints, "MOST_IN_MEMORY", 400)
    monkeypatch.setattr(fingerprints, "PART", 80)
    assert of_parts(values) == of_parts(values.clone()) != of_parts(changed)
    assert of_parts(values) == of_parts(values.index_fill(0, torch.tensor([20]), 7))
    assert of_parts(values) != of_parts(values.reshape(800))
