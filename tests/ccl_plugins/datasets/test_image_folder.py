from __future__ import annotations

import io
import os
import pickle
import sys

import pytest
import torch
from support.image_samples import truncate, write_image

from ccl_plugins.datasets import ImageFolder
from ccl_plugins.datasets.image_files import UnreadableImage, waiting
from ccl_plugins.datasets.image_folder import find_images
from ccl_plugins.datasets.splitting import hold_out


@pytest.fixture
def root(tmp_path):
    for split, classes in (("train", ("owl", "crow")), ("test", ("wren", "owl"))):
        for shade, name in enumerate(classes):
            for i in range(3):
                write_image(tmp_path / split / name / f"{i}.png", 50 * shade + i)
    return tmp_path


def test_ids_are_places_among_the_names_of_both_splits(root):
    train, test = ImageFolder(root)("train"), ImageFolder(root)("test")
    assert train.vocabulary == test.vocabulary == {"label": ["crow", "owl", "wren"]}
    assert train.metadata["label"].tolist() == [0, 0, 0, 1, 1, 1]
    assert test.metadata["label"].tolist() == [1, 1, 1, 2, 2, 2]
    image, target = train[4]
    assert (image.mode, image.getpixel((0, 0)), target) == ("RGB", (1, 1, 1), 1)
    assert len(train) == 6
    assert ImageFolder(root).schema() == {"label": "categorical"}


def test_gray_images_of_one_channel_can_be_asked_for(root):
    assert ImageFolder(root, mode="L")("train")[0][0].getbands() == ("L",)


def test_only_images_that_are_not_hidden_count_at_any_depth(root):
    write_image(root / "train" / "owl" / "deep" / "9.JPG")
    write_image(root / "train" / "owl" / "._0.png")
    (root / "train" / "owl" / "notes.txt").write_text("")
    for folder in (".ipynb_checkpoints", ".thumbnails"):
        write_image(root / "train" / "owl" / folder / "0.png")
        write_image(root / "train" / folder / "0.png")
        write_image(root / "train" / "crow" / "deep" / folder / "deeper" / "0.png")
    train = ImageFolder(root)("train")
    assert [p.rsplit("/", 1)[1] for p in train.paths] == [
        *(f"{i}.png" for i in range(3)),
        *(f"{i}.png" for i in range(3)),
        "9.JPG",
    ]


def test_one_folder_is_divided_with_the_share_of_each_class(tmp_path):
    for name, size in (("a", 10), ("b", 30)):
        for i in range(size):
            write_image(tmp_path / name / f"{i:02}.png")
    dataset = ImageFolder(tmp_path, test_fraction=0.2)
    train, test = dataset("train"), dataset("test")
    assert train.targets.bincount().tolist() == [8, 24]
    assert test.targets.bincount().tolist() == [2, 6]
    assert not {*train.paths} & {*test.paths}
    assert ImageFolder(tmp_path, test_fraction=0.2)("test").paths == test.paths
    assert ImageFolder(tmp_path, test_fraction=0.2, seed=1)("test").paths != test.paths


def test_a_truncated_image_is_an_error_that_names_file_and_row(root):
    path = truncate(write_image(root / "train" / "owl" / "1.png", size=40))
    train = ImageFolder(root)("train")
    with pytest.raises(UnreadableImage, match=rf"image {path}: ") as e:
        train[4]
    # As a worker process hands it on.
    assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)


def test_skip_leaves_out_what_cannot_be_read_and_lists_it(root):
    truncate(write_image(root / "train" / "owl" / "1.png", size=40))
    (root / "train" / "crow" / "0.png").write_bytes(b"no image")
    write_image(root / "train" / "crow" / "2.png", 3000, mode="I;16")
    with pytest.warns(UserWarning, match=r"3 of 6 images .*crow/0\.png: cannot identify"):
        train = ImageFolder(root, on_error="skip")("train")
    assert [(s.row, s.path.split("/")[-2:]) for s in train.skipped] == [
        (0, ["crow", "0.png"]),
        (2, ["crow", "2.png"]),
        (4, ["owl", "1.png"]),
    ]
    assert "uint16 from 3000 to 3000, have more than 8 bits: " in train.skipped[1].reason
    assert train.metadata["label"].tolist() == [0, 1, 1]
    assert train.rows == [1, 3, 5]
    assert [train[i][1] for i in range(3)] == [0, 1, 1]


def test_images_of_other_modes_are_converted(root):
    write_image(root / "train" / "crow" / "0.png", 9, mode="RGBA")
    write_image(root / "train" / "crow" / "1.png", 9, mode="L")
    train = ImageFolder(root)("train")
    assert [train[i][0].getpixel((0, 0)) for i in (0, 1)] == [(9, 9, 9)] * 2


def test_nothing_readable_is_an_error(root):
    for i in range(3):
        for name in ("owl", "crow"):
            (root / "train" / name / f"{i}.png").write_bytes(b"")
    with pytest.raises(UnreadableImage, match="6 of 6 images"):
        ImageFolder(root, on_error="skip")("train")


def test_images_without_folders_have_no_class(tmp_path):
    for i in range(5):
        write_image(tmp_path / f"{i}.png", i)
    (tmp_path / "._0.png").write_bytes(b"")
    data = ImageFolder(tmp_path, test_fraction=0.4)
    train, test = data("train"), data("test")
    assert (len(train), len(test), train.vocabulary) == (3, 2, {"label": []})
    assert train.metadata["label"].tolist() == [-1, -1, -1]
    assert train[0][1] == -1


def test_a_system_out_of_files_is_not_a_broken_image(root, monkeypatch):
    def fail(path):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("PIL.Image.open", fail)
    with pytest.raises(OSError, match="Too many open files"):
        ImageFolder(root, on_error="skip")("train")


def test_what_is_not_there_is_named(root, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder '.*/val'"):
        ImageFolder(root, test="val")("train")
    (root / "train" / "gull").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no images in gull; images end in \.jpg"):
        ImageFolder(root)("train")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="has no folders, one per class"):
        ImageFolder(tmp_path / "empty", test_fraction=0.5)("train")
    write_image(tmp_path / "flat" / "lone" / "0.png")
    with pytest.raises(ValueError, match="class 'lone' has one sample"):
        ImageFolder(tmp_path / "flat", test_fraction=0.5)("train")


@pytest.mark.parametrize(
    ("label", "fraction", "groups", "message"),
    [
        (
            [0, 0, 1, 1, 2],
            0.4,
            None,
            "class 'owl' has one sample, which cannot be both in train and",
        ),
        (
            [0, 1, 1, 2],
            0.4,
            None,
            r"class 'crow' has one sample \(so have 1 others\), which cannot",
        ),
        ([-1], 0.4, None, r"class -1 \(missing\) has one sample"),
        ([0, 0, 1, 1], 0.4, [0, 1, 2, 2], "class 'wren' has 2 samples, all in one group, which"),
        (
            [0, 0, 1, 1, 2, 2],
            0.1,
            None,
            "of 6 samples leaves 5 to train on and 1 to test on, but each",
        ),
        ([0, 0, 1, 1], 0.9, None, "of 4 samples leaves 0 to train on and 4 to test on"),
        ([], 0.5, None, "of 0 samples leaves 0 to train on"),
        ([0.5, 1.5], 0.5, None, "the label holds numbers that are not class ids"),
        ([0.0, float("nan")], 0.5, None, "the label holds numbers that are not class ids"),
    ],
)
def test_a_fraction_that_cannot_be_of_each_class_is_told_in_our_words(
    label, fraction, groups, message
):
    groups = None if groups is None else torch.tensor(groups)
    with pytest.raises(ValueError, match=message):
        hold_out(torch.tensor(label), fraction, 0, groups, ["crow", "wren", "owl"])


def test_a_class_that_a_split_would_lack_is_named():
    label = torch.tensor([0] * 98 + [1] * 2)
    with pytest.raises(ValueError, match=r"test would have no sample of class 1, .* are few"):
        hold_out(label, 0.1, seed=0)
    rows = hold_out(label, 0.5, seed=0)
    assert [(label[each] == 1).sum() for each in rows.values()] == [1, 1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "HSV"}, "'RGB', 'L', 'all', not 'HSV'"),
        ({"on_error": "ignore"}, "'error', 'skip', not 'ignore'"),
    ],
)
def test_parameters_out_of_range_are_quoted(root, wrong, message):
    with pytest.raises(ValueError, match=message):
        ImageFolder(root, **wrong)


def test_listing_asks_no_file_and_notices_every_change(tmp_path, monkeypatch):
    for name in ("cat", "dog"):
        (tmp_path / name / "deep").mkdir(parents=True)
        for i in range(200):
            (tmp_path / name / "deep" / f"{i:03d}.JPG").touch()
    asked = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda *args, **kw: asked.append(args) or stat(*args, **kw))
    found = find_images(tmp_path)
    assert len(found) == 400
    assert len(asked) < 20
    (tmp_path / "cat" / "deep" / "000.JPG").rename(tmp_path / "cat" / "a.jpg")
    (tmp_path / "dog" / "deep" / "000.JPG").unlink()
    again = find_images(tmp_path)
    assert again[-1] == found[-1]
    assert (str(tmp_path / "cat" / "a.jpg"), "cat") in again
    assert len(again) == 399


def test_a_bar_is_shown_on_a_terminal_after_two_seconds(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with waiting("list images") as bar:
        bar.update()
        assert not terminal.getvalue()
        bar.start_t -= 3
        bar.last_print_t -= 3
        bar.update(1000)
        assert "list images" in terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert waiting("list images").disable


def test_upper_case_endings_are_read_and_others_counted_in_one_line(root):
    for name in ("7.PNG", "8.TIF", "9.JPEG"):
        write_image(root / "train" / "owl" / name)
    for name in ("0.gif", "1.GIF", "2.jp2", "3.avif", "4.heic", "notes.txt", "Thumbs.db", "5.npy"):
        (root / "train" / "owl" / name).touch()
    with pytest.warns(UserWarning, match="passes over images in") as said:
        train = ImageFolder(root)("train")
    assert len(train) == 9
    (line,) = {str(each.message) for each in said}
    assert ": it reads those that end in .jpg" in line
    counted = "1 that end in .avif, 2 that end in .gif, 1 that end in .heic, 1 that end in .jp2, 1 that end"
    assert f"passes over images in {root / 'train'}, {counted} in .npy" in line
    assert "txt" not in line


def test_a_class_of_other_endings_alone_says_which_it_has(root):
    (root / "train" / "gull").mkdir()
    (root / "train" / "gull" / "0.gif").touch()
    with pytest.raises(FileNotFoundError, match=r"no images in gull; .*1 that end in \.gif"):
        ImageFolder(root)("train")


def test_images_beside_the_classes_are_counted(root):
    write_image(root / "train" / "0.png")
    with pytest.warns(
        UserWarning, match=r"1 images in .*train are not in a folder of a class and are left out"
    ):
        assert len(ImageFolder(root)("train")) == 6


def paths(folder):
    return [path.removeprefix(f"{folder}/") for path, _ in find_images(folder)]


def test_links_to_folders_and_files_are_followed(tmp_path):
    for name in ("cat", "dog"):
        write_image(tmp_path / "root" / name / "0.png")
    for i in range(2):
        write_image(tmp_path / "elsewhere" / "deep" / f"{i}.png")
        write_image(tmp_path / f"{i}.png")
    (tmp_path / "root" / "dog" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "cat" / "1.png").symlink_to(tmp_path / "1.png")
    (tmp_path / "root" / "owl").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "owl").unlink()
    found = ["cat/0.png", "cat/1.png", "dog/0.png", "dog/more/deep/0.png", "dog/more/deep/1.png"]
    assert paths(tmp_path / "root") == found


def test_loops_of_links_end_and_are_counted(tmp_path):
    root = tmp_path / "root"
    for name in ("cat", "dog"):
        write_image(root / name / "deep" / "0.png")
    (root / "cat" / "loop").symlink_to(root)
    (root / "cat" / "deep" / "up").symlink_to("..")
    (root / "dog" / "home").symlink_to(tmp_path)
    (root / "dog" / "itself").symlink_to("itself")
    (root / "dog" / "cats").symlink_to(root / "cat")
    with pytest.warns(
        UserWarning, match=r"^4 links to folders .* already read or contain the link: "
    ) as said:
        assert paths(root) == ["cat/deep/0.png", "dog/deep/0.png"]
    assert len(said) == 1


def test_a_file_that_several_links_lead_to_is_one_image(tmp_path):
    root = tmp_path / "root"
    write_image(tmp_path / "there" / "0.png")
    for name in ("cat", "dog"):
        write_image(root / name / "0.png")
        (root / name / "again.png").symlink_to(root / name / "0.png")
    (root / "cat" / "1.png").symlink_to(tmp_path / "there" / "0.png")
    (root / "dog" / "there").symlink_to(tmp_path / "there")
    with pytest.warns(
        UserWarning,
        match="3 images are left out because links lead to them again, 1 of them in another",
    ) as said:
        assert paths(root) == ["cat/0.png", "cat/1.png", "dog/0.png"]
    (line,) = (str(each.message) for each in said)
    assert f"{root}/dog/there/0.png is {root}/cat/1.png" in line


def test_an_image_in_both_splits_through_links_is_said(root):
    (root / "test" / "owl" / "same.png").symlink_to(root / "train" / "owl" / "0.png")
    with pytest.warns(
        UserWarning, match=r"1 images are both in train and in test, .*test/owl/same\.png is"
    ):
        assert len(ImageFolder(root)("test")) == 7


def test_links_that_lead_nowhere_are_missing_files(root):
    (root / "train" / "owl" / "gone.png").symlink_to(root / "nowhere.png")
    with pytest.raises(UnreadableImage, match=r"gone\.png: there is no such file \(1 of 7"):
        ImageFolder(root)("train")
