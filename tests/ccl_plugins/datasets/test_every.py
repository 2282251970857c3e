from __future__ import annotations

import pytest
import torch

from ccl_plugins.datasets import ColorDigits, InMemory
from ccl_plugins.datasets.color_digits import (
    COLUMNS,
    HUES,
    SHADES,
    measure_strokes,
    named_colors,
)
from ccl_plugins.information.entropies import information

FIRST_CAPTIONS = [
    "a light yellow picture of the digit one",
    "the digit four on light cyan",
    "a light gray picture of the digit eight",
]


@pytest.fixture(scope="module")
def splits():
    dataset = ColorDigits()
    return dataset("train"), dataset("test")


def test_color_digits_are_images_of_uint8_with_their_labels(splits):
    train, test = splits
    assert (len(train), len(test)) == (1437, 360)
    assert train.images.shape == (1437, 3, 32, 32)
    image, target = train[7]
    assert image.dtype == torch.uint8
    assert isinstance(target, int)
    assert target == train.metadata["label"][7] == train.metadata["digit"][7]
    color = train.metadata["color"]
    assert color.shape == (1437, 3)
    assert 0 <= color.min() < color.max() <= 1


def test_splits_are_disjoint_and_complete_and_keep_the_share_of_each_class(splits):
    colors = torch.cat([split.metadata["color"] for split in splits])
    assert len(colors.unique(dim=0)) == 1797  # each image's color is its own
    train, test = (split.targets.bincount() for split in splits)
    assert (test - 0.2 * (train + test)).abs().max() < 1


def test_the_ground_has_the_color_and_strokes_are_darker(splits):
    train, _ = splits
    color = (255 * train.metadata["color"]).round()
    brightest = train.images.flatten(2).amax(dim=2).float()
    torch.testing.assert_close(brightest, color)
    assert (train.images.flatten(1).amin(dim=1) < 10).float().mean() > 0.9  # full ink is black


def test_another_seed_gives_other_colors_and_another_split():
    first, other = ColorDigits(seed=1), ColorDigits(seed=2)
    assert not torch.equal(first("test").metadata["color"], other("test").metadata["color"])
    assert not torch.equal(first("test").targets, other("test").targets)


def test_the_size_changes_pixels_only():
    small, large = ColorDigits(size=8)("train"), ColorDigits(size=48)("train")
    assert small.images.shape[2:] == (8, 8)
    assert large.images.shape[2:] == (48, 48)
    assert torch.equal(small.metadata["color"], large.metadata["color"])
    assert torch.equal(small.targets, large.targets)


def test_color_and_digit_are_independent(splits):
    train, _ = splits
    means = torch.stack([train.metadata["color"][train.targets == d].mean(0) for d in range(10)])
    assert (means - 0.5).abs().max() < 0.1  # 4 standard errors of about 140 uniform numbers


def test_an_unknown_split_is_quoted():
    with pytest.raises(ValueError, match="'train', 'test', not 'val'"):
        ColorDigits()("val")


def test_in_memory_takes_only_rows_that_belong_together():
    images, targets = torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.arange(4)
    assert len(InMemory(images, targets, {"label": targets, "name": ["a"] * 4})) == 4
    with pytest.raises(ValueError, match="'label', not only"):
        InMemory(images, targets, {"color": targets})
    with pytest.raises(ValueError, match=r"4 samples, but rows in \{'color': 3\}"):
        InMemory(images, targets, {"label": targets, "color": torch.zeros(3, 3)})
    with pytest.raises(TypeError, match=r"not torch\.float32"):
        InMemory(images.float(), targets, {"label": targets})
    with pytest.raises(ValueError, match="images must be"):
        InMemory(images[0], targets, {"label": targets})


def test_strokes_are_measured_on_the_image_alone():
    ring = torch.zeros(8, 8)
    ring[1:4, 1:4] = 1
    ring[2, 2] = 0
    three = torch.zeros(8, 8)
    for row, column in [(0, 0), (0, 5), (5, 5)]:
        three[row : row + 3, column : column + 3] = ring[1:4, 1:4]
    bar = torch.zeros(8, 8)
    bar[[6, 5, 4, 3, 2], [2, 3, 4, 5, 6]] = 1
    strokes = measure_strokes(torch.stack([ring, three, bar, bar.flip(1)]))
    assert list(strokes) == list(COLUMNS)
    assert strokes["holes"].tolist() == [1, 2, 0, 0]
    assert strokes["slant"][2:].tolist() == [2, 0]
    assert strokes["side"].tolist() == [0, 2, 2, 0]
    assert strokes["balance"].tolist() == [0, 0, 2, 2]
    assert strokes["ink"].tolist() == [0, 2, 0, 0]
    assert strokes["width"].tolist() == [2, 2, 2, 2]


def test_weak_labels_tell_something_of_the_digit_and_leave_much_open(splits):
    train, _ = splits
    for name in COLUMNS:
        counts = train.metadata[name].bincount(minlength=3)
        assert int(counts.min()) > 50
    told = information(train.metadata["holes"], train.targets)
    assert 0.3 < told.mutual < told.entropy - 0.3


def test_captions_say_digit_and_color_and_change_nothing_else(splits):
    dataset = ColorDigits(captions=True)
    assert dataset.texts() == ("caption",)
    for split, plain in zip((dataset("train"), dataset("test")), splits, strict=True):
        assert torch.equal(split.images, plain.images)
        for name, column in plain.metadata.items():
            assert torch.equal(split.metadata[name], column)
        assert (
            list(split.metadata)
            == list(dataset.schema())
            == [
                *plain.metadata,
                "hue",
                "shade",
                "color_name",
            ]
        )
        words = {
            name: [split.vocabulary[name][i] for i in split.metadata[name]]
            for name in ("digit", "hue", "shade")
        }
        for i, caption in enumerate(split.texts["caption"]):
            said = caption.split()
            name = split.vocabulary["color_name"][split.metadata["color_name"][i]]
            assert name in caption
            assert {said.count(words[name][i]) for name in words} == {1}
            assert len(said) < 12
            assert not any(other in said for other in HUES if other != words["hue"][i])
            if "eight" in said and "digit" not in said:
                assert "an eight" in caption
    assert splits[0].texts == {}
    assert ColorDigits().texts() == ()


def test_each_hue_has_a_seventh_of_the_colors_and_each_shade_half():
    generator = torch.Generator().manual_seed(0)
    hue, shade = named_colors(torch.rand(70_000, 3, generator=generator))
    torch.testing.assert_close(hue.bincount() / 10_000, torch.ones(7), atol=0.04, rtol=0)
    assert abs(shade.double().mean() - 0.5) < 0.01


@pytest.mark.parametrize(
    ("color", "name"),
    [
        ((1.0, 0.0, 0.0), "light red"),
        ((0.9, 0.3, 0.1), "light red"),
        ((0.1, 0.4, 0.1), "dark green"),
        ((0.1, 0.2, 0.9), "light blue"),
        ((0.0, 0.4, 0.4), "dark cyan"),
        ((0.8, 0.1, 0.7), "dark magenta"),
        ((1.0, 1.0, 0.0), "light yellow"),
        ((0.5, 0.5, 0.5), "light gray"),
        ((0.1, 0.3, 0.3), "dark gray"),
    ],
)
def test_a_color_has_the_name_that_people_give_it(color, name):
    hue, shade = named_colors(torch.tensor([color]))
    assert f"{SHADES[shade]} {HUES[hue]}" == name


def test_captions_are_the_same_in_every_process_and_vary_in_form():
    first, again = (ColorDigits(captions=True)("test").texts["caption"] for _ in range(2))
    assert first == again
    assert first[:3] == FIRST_CAPTIONS
    assert first != ColorDigits(seed=1, captions=True)("test").texts["caption"]
    starts = {caption.split()[1] for caption in first}
    assert len(starts) > 5
