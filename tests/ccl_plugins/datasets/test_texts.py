"""Texts beside images: a string per sample, by column."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.datasets.annotated import Annotated, InMemory
from ccl_plugins.protocols import Frozen, Towers

LABEL = {"label": torch.tensor([0, 1, 1])}


def test_a_split_has_its_texts_by_column():
    split = Annotated("abc", LABEL, texts={"caption": ["a cat", "a dog", "a red dog"]})
    assert split.texts == {"caption": ["a cat", "a dog", "a red dog"]}
    assert Annotated("abc", LABEL).texts == {}
    images = torch.zeros(3, 1, 2, 2, dtype=torch.uint8)
    assert InMemory(images, LABEL["label"], LABEL, texts=split.texts).texts == split.texts


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a cat", None, "a dog"], "texts, row 1 \\(from 0\\): 'caption' is empty"),
        (["a cat", "a dog", "  "], "row 2 \\(from 0\\): 'caption' is empty"),
        (["a cat", "a dog", float("nan")], "row 2 \\(from 0\\): 'caption' is empty"),
        ([3, "a dog", "a cat"], "row 0 \\(from 0\\): 'caption' is 3 and not a text"),
        (["a cat"], "3 samples, but rows in {'caption': 1}"),
    ],
)
def test_a_sample_without_a_text_is_named_by_its_row(column, message):
    with pytest.raises(ValueError, match=message):
        Annotated("abc", LABEL, texts={"caption": column})


def test_a_column_is_not_both_metadata_and_texts():
    with pytest.raises(ValueError, match="'label' is both metadata and texts"):
        Annotated("abc", LABEL, texts={"label": ["a", "b", "c"]})


def test_frozen_features_of_some_rows_have_their_towers_in_step():
    towers = Towers(torch.eye(3), lambda texts: torch.ones(len(texts), 3), {"caption": list("abc")})
    frozen = Frozen(torch.arange(3.0)[:, None], LABEL, towers=towers, vocabulary={"label": ["x"]})
    part = frozen.take(torch.tensor([2, 0]))
    assert part.features.flatten().tolist() == [2, 0]
    assert part.towers.images.tolist() == torch.eye(3)[[2, 0]].tolist()
    assert part.towers.captions == {"caption": ["c", "a"]}
    assert part.towers.texts is towers.texts
    assert part.vocabulary == {"label": ["x"]}
    assert Frozen(torch.zeros(2, 1), {}).take(torch.tensor([1])).towers is None
