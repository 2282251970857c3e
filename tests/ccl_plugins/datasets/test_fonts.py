"""Letters of font files: what is drawn, what is stated, what is left out, and families in one split."""

from __future__ import annotations

import pytest
import torch
from fontTools.ttLib import TTCollection, TTFont
from support.font_samples import write_font

from ccl_plugins.datasets import Fonts


@pytest.fixture
def folder(tmp_path):
    """Five families, the first of two fonts."""
    write_font(tmp_path / "a" / "thin.ttf", "Alpha", weight=200, angle=-12.0)
    write_font(tmp_path / "a" / "bold.otf", "Alpha", weight=700, width=3)
    for number, family in enumerate(("Beta", "Gamma", "Delta", "Epsilon")):
        write_font(tmp_path / f"{number}.TTF", family, weight=300 + 100 * number)
    return tmp_path


def both(folder, **options):
    made = Fonts(str(folder), **{"letters": "Aa", "size": 16, **options})
    return {split: made(split) for split in ("train", "test")}


def test_each_font_gives_each_letter_and_says_what_its_file_does(folder):
    splits = both(folder)
    assert sum(map(len, splits.values())) == 6 * 2
    assert sum(len(split.metadata["font"].unique()) for split in splits.values()) == 6
    found = {}
    for split in splits.values():
        assert split.images.shape == (len(split), 1, 16, 16)
        assert split.vocabulary["label"] == ["A", "a"]
        for row in range(len(split)):
            columns = {name: each[row].tolist() for name, each in split.metadata.items()}
            assert columns["style"] == [columns[n] for n in ("weight", "width", "slant", "ink")]
            family = split.vocabulary["family"][int(columns["family"])]
            letter = "Aa"[int(columns["label"])]
            found[family, columns["weight"], letter] = columns | {"image": split.images[row, 0]}
    thin, bold = found["Alpha", 200, "A"], found["Alpha", 700, "a"]
    assert (thin["width"], thin["slant"]) == (5, 12)
    assert (bold["width"], bold["slant"]) == (3, 0)
    drawn = [1 - found["Alpha", 200, letter]["image"].double() / 255 for letter in "Aa"]
    assert thin["ink"] == pytest.approx(float(torch.stack(drawn).mean()), abs=1e-6)
    # A box of 100 x 200 and one of 200 x 200 units, of one size, on one line, centered.
    narrow, wide = (float((image.sum(0) / image.sum(0).max()).sum()) for image in drawn)
    assert wide == pytest.approx(2 * narrow, rel=0.15)
    assert wide == pytest.approx(14, abs=0.5)
    for image in drawn:
        rows = image.sum(1).nonzero().flatten()
        assert (rows.min(), rows.max()) == (1, 14)
        middle = float((image.sum(0) * torch.arange(16)).sum() / image.sum())
        assert middle == pytest.approx(7.5, abs=0.51)


def test_no_family_is_in_both_splits_and_the_seed_chooses(folder):
    tested = set()
    for seed in range(6):
        splits = both(folder, seed=seed, test_fraction=0.4)
        families = {name: {*split.metadata["family"].tolist()} for name, split in splits.items()}
        assert not families["train"] & families["test"]
        assert len(families["test"]) == 2
        tested.add(tuple(sorted(families["test"])))
        assert all(split.group == "family" for split in splits.values())
    assert len(tested) > 1


def test_what_is_left_out_is_counted(folder):
    write_font(folder / "few.ttf", "Few", letters="A")
    write_font(folder / "blank.ttf", "Blank", blank="a")
    write_font(folder / "copy.ttf", "Copy", weight=300)
    write_font(folder / "odd.ttf", "Odd", width=500)
    (folder / "broken.ttf").write_bytes(b"no font")
    (folder / "notes.txt").write_text("no font")
    expected = "of 11 fonts 5 are left out: 1 cannot be read, 2 lack a letter, 1 look"
    with pytest.warns(UserWarning, match=expected):
        splits = both(folder)
    assert sum(map(len, splits.values())) == 12


def test_collections_have_several_fonts(folder):
    collection = TTCollection()
    for number in (1, 2):
        path = write_font(folder / "x" / f"{number}.ttf", f"Part {number}", index=100 * number)
        collection.fonts.append(TTFont(path))
    (folder / "y").mkdir()
    collection.save(folder / "y" / "both.ttc")
    splits = both(folder / "y", letters="A")
    assert splits["train"].vocabulary["family"] == ["Part 1", "Part 2"]
    assert {name: len(split) for name, split in splits.items()} == {"train": 1, "test": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"letters": ""}, "letters must be different characters that leave ink, not ''"),
        ({"letters": "ABA"}, "not 'ABA', with 'A' twice"),
        ({"letters": "A b"}, "that leave ink"),
        ({"size": 4}, "size must be 8 or more, not 4"),
        ({"test_fraction": 1.0}, "test_fraction must lie between 0 and 1"),
    ],
)
def test_what_is_wrong_is_quoted(options, message):
    with pytest.raises(ValueError, match=message):
        Fonts("fonts", **options)


def test_folders_must_hold_fonts_of_two_families(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*'nowhere'"):
        Fonts("nowhere")("train")
    with pytest.raises(FileNotFoundError, match=r"no \.ttf, \.otf or \.ttc in"):
        Fonts(str(tmp_path))("train")
    write_font(tmp_path / "one.ttf")
    with pytest.raises(ValueError, match="fonts of 1 families with all letters"):
        Fonts(str(tmp_path), letters="A")("train")


def test_fonts_of_the_system_are_found(monkeypatch, folder):
    asked = []

    def listed(folders=None):
        asked.append(folders)
        return [str(path) for path in folder.rglob("*.*")]

    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", listed)
    assert len(Fonts(letters="Aa", size=8)("train")) > 0
    assert asked == [None]
