from __future__ import annotations

import gzip

import pytest
import torch
from support.oracle import case

from ccl_plugins.datasets import ColorMNIST
from ccl_plugins.datasets.color_mnist import PALETTE, mixture, on_ground, read_idx
from ccl_plugins.kernels import Cosine

CASE = case("colormnist_background")


def idx(values):
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.numpy().tobytes()


def write_mnist(folder, train=40, test=20):
    generator = torch.Generator().manual_seed(0)
    for stem, size in (("train", train), ("t10k", test)):
        pixels = torch.randint(0, 256, (size, 6, 6), generator=generator, dtype=torch.uint8)
        label = (torch.arange(size) % 10).to(torch.uint8)
        packed = gzip.compress(idx(pixels))
        (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(packed)
        (folder / f"{stem}-labels.idx1-ubyte").write_bytes(idx(label))
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_mnist(tmp_path_factory.mktemp("mnist"))


def test_the_ground_is_that_of_the_released_code():
    pixels = torch.tensor(CASE["inputs"]["image"], dtype=torch.uint8)
    image = on_ground(pixels[None], torch.tensor([CASE["inputs"]["color"]]))
    assert image.shape == (1, 3, 6, 6)
    assert image.long().sum().item() == CASE["expected_code"]
    assert CASE["extras"]["palette"] == [list(color) for color in PALETTE]


@pytest.mark.parametrize("colors", ["uniform", "mixture"])
def test_colors_are_hues_of_a_brightness(root, colors):
    dataset = ColorMNIST(root, colors=colors)
    for name, size in (("train", 40), ("test", 20)):
        split = dataset(name)
        assert split.images.shape == (size, 3, 6, 6)
        assert torch.equal(split.metadata["label"], torch.arange(size) % 10)
        assert torch.equal(split.metadata["digit"], split.metadata["label"])
        color = split.metadata["color"]
        assert color.shape == (size, 3)
        assert 0 <= color.min() <= color.max() <= 1
        hue, brightness = split.metadata["hue"], split.metadata["brightness"]
        assert torch.allclose(hue * brightness[:, None], color)
        cosine = Cosine()
        assert torch.allclose(cosine(hue, hue), cosine(color, color), atol=1e-6)


@pytest.mark.parametrize("colors", ["uniform", "mixture"])
def test_a_ground_without_ink_has_the_color(tmp_path, colors):
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(torch.zeros(40, 2, 2).byte()))
    split = ColorMNIST(tmp_path, colors=colors)("train")
    ground = split.images[:, :, 0, 0].float()
    if colors == "mixture":  # whole numbers, which nothing cuts
        torch.testing.assert_close(ground, 255 * split.metadata["color"])
    else:
        torch.testing.assert_close(ground, (255 * split.metadata["color"]).floor())


def test_mixture_colors_are_whole_and_about_their_palette():
    places = torch.arange(10).repeat(2000)
    color = mixture(places, torch.Generator().manual_seed(0))
    assert torch.equal(color, color.round())
    assert (color.min(), color.max()) == (0, 255)
    gray = color[places == 7]  # (127, 127, 127), which clipping at 3.2 deviations hardly moves
    # 6000 numbers: 5 standard errors of the mean and of the deviation; cutting towards 0 costs 0.5 of
    # the spread at most.
    assert abs(gray.mean() - 127) < 5 * 40 / 6000**0.5
    assert abs(gray.std() - 40) < 0.5 + 5 * 40 / 12000**0.5


def test_colors_are_drawn_once_and_differ_between_splits_and_seeds(root):
    first, again, other = (ColorMNIST(root, seed=s) for s in (0, 0, 1))
    color = first("train").metadata["color"]
    assert torch.equal(color, again("train").metadata["color"])
    assert not torch.equal(color, other("train").metadata["color"])
    assert not torch.equal(color[:20], first("test").metadata["color"])


def test_a_split_drawn_anew_shares_out_the_images_of_all_files(tmp_path):
    write_mnist(tmp_path)
    marks = torch.eye(60).reshape(60, 6, 10).mul(255).byte()  # each image has a pixel of its own
    for stem, part in (("train", marks[:40]), ("t10k", marks[40:])):
        (tmp_path / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(part)))
    held = []
    for seed in (0, 0, 1):
        dataset = ColorMNIST(tmp_path, seed=seed, test_fraction=0.2)
        train, test = dataset("train"), dataset("test")
        assert [len(train), len(test)] == [48, 12]
        assert test.metadata["label"].unique().tolist() == list(range(10))
        numbers = [each.images.amax(1).flatten(1).argmin(1) for each in (train, test)]
        assert torch.equal(torch.cat(numbers).sort().values, torch.arange(60))
        for each, number in zip((train, test), numbers, strict=True):
            assert torch.equal(each.metadata["label"], number % 10)
            assert torch.equal(each.targets, number % 10)
        held.append(numbers[1].tolist())
    assert held[0] == held[1] != held[2]
    assert min(held[0]) < 40 <= max(held[0])


def test_files_that_are_missing_or_damaged_are_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"none of train-images-idx3-ubyte, train-images-idx3"
    ):
        ColorMNIST(tmp_path)("train")
    write_mnist(tmp_path)
    images = tmp_path / "train-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    images.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz cannot be unpacked"):
        ColorMNIST(tmp_path)("train")
    images.write_bytes(b"not packed at all")
    with pytest.raises(ValueError, match=r"cannot be unpacked: Not a gzipped file"):
        ColorMNIST(tmp_path)("train")
    images.write_bytes(gzip.compress(idx(torch.zeros(39, 2, 2).byte())))
    with pytest.raises(ValueError, match="39 images, but 40 labels of train"):
        ColorMNIST(tmp_path)("train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG", "not an idx file of bytes: it begins with 89 50 4e 47"),
        (b"\0\0\x08\x01\0\0\0\x03ab", r"has 10 bytes, and its shape \(3,\) needs 11"),
        (b"\0\0\x08\x01\0\0", "is damaged"),
        (b"\0\0\x08\x01\0\0\0\0", "is empty"),
    ],
)
def test_what_is_no_idx_file_is_told(tmp_path, content, message):
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_idx(path)
