from __future__ import annotations

import os

import pytest
import torch

from ccl_plugins.files.fingerprints import of_split, of_tensors


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
    os.utime(paths[0], ns=(1, 1))
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
