from __future__ import annotations

import pytest
import torch
from support.image_samples import truncate, write_image

import ccl_plugins as ccl
from ccl_plugins.datasets import ColorDigits, ImageFolder, Subset
from ccl_plugins.datasets.subset import Kept, balanced


def test_a_part_has_images_columns_words_and_texts_of_the_whole():
    of = ColorDigits(captions=True)
    dataset = Subset(of, train=30, test=20)
    assert dataset.schema() == of.schema()
    assert dataset.texts() == of.texts()
    for split, size in (("train", 30), ("test", 20)):
        full, part = of(split), dataset(split)
        assert len(part) == len(part.texts["caption"]) == size
        assert part.vocabulary == full.vocabulary
        assert [*part.metadata] == [*full.metadata]
        rows = [full.metadata["color"].tolist().index(c) for c in part.metadata["color"].tolist()]
        assert rows == sorted({*rows})
        for i, row in enumerate(rows):
            assert torch.equal(part[i][0], full[row][0])
            assert part[i][1] == full[row][1]
            assert part.texts["caption"][i] == full.texts["caption"][row]
        for name, column in part.metadata.items():
            assert torch.equal(column, full.metadata[name][rows])


def test_without_numbers_it_is_the_whole():
    part, full = Subset(ColorDigits())("test"), ColorDigits()("test")
    assert torch.equal(part.targets, full.targets)
    assert all(torch.equal(part[i][0], full[i][0]) for i in (0, 100, 359))


def test_classes_have_as_many_samples_as_another_as_far_as_they_have_them():
    ids = torch.tensor([0] * 50 + [7] * 3 + [2] * 20 + [-1] * 50)

    def counts(size, seed=0):
        found = ids[balanced(ids, size, seed)].unique(return_counts=True)[1]
        return found.tolist()  # of -1, 0, 2 and 7

    assert counts(8) == [2, 2, 2, 2]
    assert counts(33) == [10, 10, 10, 3]
    assert counts(123) == [50, 50, 20, 3]
    assert sorted(counts(10)) == [2, 2, 3, 3]
    assert {*balanced(ids, 8, 0)} < {*balanced(ids, 33, 0)}
    assert balanced(ids, 33, 0) == balanced(ids, 33, 0) != balanced(ids, 33, 1)


def test_any_column_of_class_ids_can_be_balanced_and_none_keeps_the_shares():
    part = Subset(ColorDigits(), train=90, column="holes")("train")
    assert part.metadata["holes"].bincount().tolist() == [30, 30, 30]
    full = ColorDigits()("train").metadata["holes"].double()
    part = Subset(ColorDigits(), train=1000, column=None)("train").metadata["holes"].double()
    assert abs(part.mean() - full.mean()) < 0.05


def test_a_kept_sample_is_read_once():
    class Samples(list):
        reads = 0

        def __getitem__(self, index):
            self.reads += 1
            return super().__getitem__(index)

    samples = Samples("abc")
    kept = Kept(samples)
    assert [kept[1], kept[2], kept[1]] == ["b", "c", "b"]
    assert (len(kept), samples.reads) == (3, 2)


def test_kept_samples_are_read_several_at_once():
    class Samples(list):
        calls = ()

        def __getitems__(self, indices):
            self.calls += (indices,)
            return [self[index] for index in indices]

    samples = Samples("abcd")
    kept = Kept(samples)
    assert kept.__getitems__([2, 0, 2]) == ["c", "a", "c"]
    assert kept.__getitems__([0, 3]) == ["a", "d"]
    assert samples.calls == ([2, 0], [3])
    assert not hasattr(Kept([1, 2]), "__getitems__")


@pytest.mark.parametrize("keep", [False, True])
def test_an_image_is_that_of_its_file_and_an_error_names_it(tmp_path, keep):
    for split in ("train", "test"):
        for name in ("crow", "owl"):
            for i in range(3):
                write_image(tmp_path / split / name / f"{i}.png", 9 * i)
    path = truncate(write_image(tmp_path / "train" / "owl" / "1.png", size=40))
    train = Subset(ImageFolder(tmp_path), train=6, keep=keep)("train")
    for _ in range(2):
        assert [train[i][0].getpixel((0, 0))[0] for i in (0, 2, 5)] == [0, 18, 18]
        with pytest.raises(OSError, match=str(path)):
            train[4]
    with pytest.warns(UserWarning, match="1 of 6 images"):
        train = Subset(ImageFolder(tmp_path, on_error="skip"), train=4)("train")
    assert [skipped.path for skipped in train.skipped] == [str(path)]


def test_what_does_not_fit_is_quoted():
    with pytest.raises(ValueError, match=r"test must be at most 360, .* not 361"):
        Subset(ColorDigits(), test=361)("test")
    with pytest.raises(ValueError, match="no column 'hue'"):
        Subset(ColorDigits(), test=3, column="hue")("test")
    with pytest.raises(ValueError, match="'color' holds no class ids: give column=None"):
        Subset(ColorDigits(), test=3, column="color")("test")
    with pytest.raises(ValueError, match="train must"):
        Subset(ColorDigits(), train=0)


def test_a_configuration_nests_the_whole_in_the_part():
    dataset = ccl.create("dataset", "subset", of={"use": "color_digits", "seed": 3}, test=20)
    assert dataset.of.seed == 3
    assert dataset("test").targets.bincount().tolist() == [2] * 10
