"""Views of texts, of columns, and of several modalities together."""

from __future__ import annotations

import sys

import pytest
import torch
from support.captions import Captioned, Plain

import ccl_plugins as ccl
from ccl_plugins.testing.inputs import seeded
from ccl_plugins.training.loader import Items, collate
from ccl_plugins.transforms import ColumnTransform, Modalities, SimCLRTransform, TokenTransform


def test_tokens_are_the_bytes_of_a_text_and_0_is_padding():
    views = TokenTransform(length=8)
    plain = views.plain("ab é")
    assert plain.dtype == torch.long
    assert plain.shape == (8,)
    assert (plain != 0).tolist() == [True] * 5 + [False] * 3  # é has two bytes
    assert plain[:5].min() > 0
    assert plain.max() < views.vocabulary == 257
    every = TokenTransform(length=256).plain("".join(map(chr, range(128))))
    assert len(set(every[:128].tolist())) == 128
    torch.testing.assert_close(views.plain(["ab é", "x"])[0], plain)


def test_texts_that_are_cut_are_a_warning_with_the_length_that_none_exceeds():
    views = TokenTransform(length=8)
    assert (views.plain("a very long text") != 0).all()
    with pytest.warns(
        UserWarning, match=r"cuts 1 of 2 texts of 'caption' at length=8; .* length=16"
    ):
        views.check_values(["a very long text", "short"])
    TokenTransform(length=16).check_values(["a very long text", "short"])
    views.check_values([])


def test_words_are_left_out_by_chance_and_never_all():
    views = TokenTransform(drop=0.9, count=2, length=12)
    with seeded():
        drawn = [view for _ in range(20) for view in views("ab cd ef")]
    lengths = {int((view != 0).sum()) for view in drawn}
    assert min(lengths) == 2
    assert len(lengths) > 1
    torch.testing.assert_close(views("")[0], torch.zeros(12, dtype=torch.long))


def test_a_tokenizer_of_a_file_gives_its_ids_plus_1(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"a": 0, "seven": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=20)
    tokenizer.enable_truncation(1)
    tokenizer.save(str(tmp_path / "words.json"))
    views = TokenTransform(path=tmp_path / "words.json", length=4)
    assert views.plain("a seven cow").tolist() == [1, 2, 3, 0]
    assert views.vocabulary == 4


def test_files_that_are_no_tokenizers_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no tokenizer .*none.json"):
        TokenTransform(path=tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match=r"bad.json' is not a file of"):
        TokenTransform(path=tmp_path / "bad.json")


def test_a_panic_of_rust_in_a_tokenizers_file_is_a_mistake_of_the_file(tmp_path, monkeypatch):
    PanicException = type("PanicException", (BaseException,), {})

    def panic(text):
        raise PanicException("index out of bounds")

    (tmp_path / "bad.json").write_text("{}")
    monkeypatch.setattr("tokenizers.Tokenizer.from_str", panic, raising=True)
    with pytest.raises(ValueError, match=r"bad.json' is not a file of.*index out of bounds"):
        TokenTransform(path=tmp_path / "bad.json")


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        ImportError, match=r'^views of tokens need .*pip install "ccl-plugins\[text\]"$'
    ):
        TokenTransform()


def test_what_is_no_text_is_named():
    with pytest.raises(TypeError, match="a text must be a string, not a int: 3"):
        TokenTransform()(3)


def test_a_column_is_a_view_with_or_without_noise():
    views = ColumnTransform("attributes")
    torch.testing.assert_close(views([1, 0, 1])[0], torch.tensor([1.0, 0, 1]))
    assert views.plain(3.5).shape == (1,)
    noisy = ColumnTransform("attributes", std=0.1, count=2)
    with seeded():
        first, second = noisy(torch.ones(3))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    "column", [torch.tensor([1.0, torch.nan]), torch.tensor([[1.0], [torch.nan]])]
)
def test_a_sample_without_a_value_is_named(column):
    with pytest.raises(
        ValueError, match=r"'age' need a finite value of every sample, but sample 1 has none"
    ):
        ColumnTransform("age").check_values(column)


def several(**more):
    return Modalities({"image": Plain(2), "text": TokenTransform(length=16, drop=0.5), **more})


def test_the_views_of_a_sample_are_numbered_through_the_modalities():
    views = several(attributes=ColumnTransform("attributes"))
    assert views.modalities == ("image", "image", "text", "attributes")
    assert views.count == 4
    split = Captioned()("train")
    batch = collate(Items(split, views, 0).__getitems__([(0, 0, 3), (0, 1, 5)]))
    assert [tuple(view.shape) for view in batch.views] == [
        (2, 3, 8, 8),
        (2, 3, 8, 8),
        (2, 16),
        (2, 3),
    ]
    assert batch.views[2].dtype == torch.long
    torch.testing.assert_close(batch.views[3], split.metadata["attributes"][[3, 5]])
    plain = several().plain(split.images[:2])
    torch.testing.assert_close(plain, split.images[:2] / 255)


def test_the_image_comes_first_wherever_it_was_written():
    views = Modalities({"text": TokenTransform(), "image": Plain()})
    assert views.modalities == ("image", "text")


def test_each_view_of_each_modality_is_seeded_by_itself():
    split = Captioned()("train")
    alone = Items(split, Plain(2), 0)[0, 0, 3][0]
    found = Items(split, several(), 0)[0, 0, 3][0]
    torch.testing.assert_close(found[:2], alone, rtol=0, atol=0)
    assert not torch.equal(Items(split, several(), 1)[0, 0, 3][0][2], found[2])
    more = Items(split, several(attributes=ColumnTransform("attributes", std=1.0)), 0)[0, 0, 3][0]
    torch.testing.assert_close(more[:3], found, rtol=0, atol=0)


def test_views_without_transforms_make_all_seeded_together():
    class Together:
        count = 1

        def __call__(self, image):
            return [image + torch.randn(())]

        def plain(self, image):
            return image

    items = Items(Captioned()("train"), several(other=Together()), 0)
    assert items.transforms is None
    torch.testing.assert_close(items[0, 0, 3], items[0, 0, 3], rtol=0, atol=0)
    assert len(items[0, 0, 3][0]) == 4


@pytest.mark.parametrize("separate", [True, False])
def test_the_views_after_the_first_show_the_partner_in_every_modality(separate):
    class Image(Plain):
        _noisy = Plain.plain

    views = Modalities({"image": Image(), "text": TokenTransform(length=16)})
    if not separate:
        del views.transforms
    split = Captioned()("train")
    (image, text), indices, *_ = Items(split, views, 0)[0, 0, 3, 7]
    torch.testing.assert_close(image, split.images[3] / 255)
    torch.testing.assert_close(text, TokenTransform(length=16).plain(split.texts["caption"][7]))
    assert indices == [3, 7]


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ({"text": TokenTransform()}, "need.* one of the image, .*; given are those of text"),
        ({}, "given are those of nothing"),
        ({"image": TokenTransform()}, "the transform of 'image' reads the column 'caption'"),
        ({"image": Plain(), "all": several()}, "the transform of 'all' is of several modalities"),
    ],
)
def test_modalities_without_an_image_are_refused(of, message):
    with pytest.raises(ValueError, match=message):
        Modalities(of)


def test_the_views_of_color_channels_are_made_of_the_image():
    """The L and ab views of CMC: views of another name, without a source."""

    class Channels:
        count = 1

        def __init__(self, first, last):
            self.first, self.last = first, last
            self.transforms = [self.plain]

        def __call__(self, image):
            return [self.plain(image)]

        def plain(self, image):
            return image[..., self.first : self.last, :, :] / 255

    views = Modalities({"image": Channels(0, 1), "ab": Channels(1, 3)})
    split = Captioned()("train")
    luminance, color = Items(split, views, 0)[0, 0, 3].views
    torch.testing.assert_close(torch.cat([luminance, color]), split.images[3] / 255)


def test_size_and_numbers_of_an_image_are_those_of_its_views():
    views = Modalities({"image": SimCLRTransform(size=24), "text": TokenTransform()})
    assert ccl.transform("modalities", of={"image": "simclr", "text": "tokens"}).kind == "transform"
    assert views.of["image"].size == 24
