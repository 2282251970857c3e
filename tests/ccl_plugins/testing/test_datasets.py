"""Data sets that break one law each."""

from __future__ import annotations

import torch
from support.broken import law_tests

from ccl_plugins.testing.inputs import ExampleDataset, Split


class Sound(ExampleDataset):
    """The kit's data set."""

    split = Split

    def __call__(self, name):
        if name not in ("train", "test"):
            raise ValueError(name)
        found = self.split(torch.arange(24))
        if name == "test":
            found.images = found.images.flip(-2)
        return found


class OtherTargets(Split):
    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        return image, target + 1


class NoLabels(Sound):
    """Targets that are no labels."""

    split = OtherTargets


class ShortColumn(Split):
    def __init__(self, rows):
        super().__init__(rows)
        self.metadata["color"] = self.metadata["color"][:-1]


class Ragged(Sound):
    """A column of fewer rows."""

    split = ShortColumn


class Mislabelled(Sound):
    """A schema of another column."""

    def schema(self):
        return {**super().schema(), "weight": "continuous"}


class WordsSplit(Split):
    def __init__(self, rows):
        super().__init__(rows)
        self.metadata["word"] = [self.vocabulary["word"][i] for i in self.metadata["word"]]


class Words(Sound):
    """A column of words in place of their class ids."""

    split = WordsSplit


class Uncaptioned(Sound):
    """Texts that its splits do not have."""

    def texts(self):
        return ("caption", "title")


class DrawnSplit(Split):
    def __init__(self, rows):
        super().__init__(rows)
        self.metadata["height"] = torch.randn(24)


class Drawn(Sound):
    """A column that is drawn anew."""

    split = DrawnSplit


class NoisySplit(Split):
    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        return image / 255 + torch.randn(image.shape), target


class Noisy(Sound):
    """Augmented images."""

    split = NoisySplit


class Lenient(Sound):
    """Accepts any name of a split."""

    def __call__(self, name):
        return self.split(torch.arange(24))


class LambdaSplit(Split):
    def __init__(self, rows):
        super().__init__(rows)
        self.transform = lambda image: image


class Unpicklable(Sound):
    """A split that holds a lambda."""

    split = LambdaSplit


class OneSplit(Sound):
    """Tests on what it trains on."""

    def __call__(self, name):
        super().__call__(name)
        return self.split(torch.arange(24))


class Backwards(Sound):
    """Tests on what it trains on, in another order."""

    def __call__(self, name):
        super().__call__(name)
        return self.split(torch.arange(24) if name == "train" else torch.arange(24).flip(0))


class LooseSplit(Split):
    def __init__(self, rows):
        super().__init__(rows)
        self.metadata["label"] = torch.full((24,), -1)
        self.targets = self.metadata["label"]


class Loose(Sound):
    """Without a label, as images without classes are."""

    split = LooseSplit


BROKEN = {
    Sound: set(),
    Loose: set(),
    Backwards: {"the_test_split_is_another"},
    OneSplit: {"the_test_split_is_another"},
    NoLabels: {"gives_images_and_targets"},
    Ragged: {"metadata_has_a_row_per_sample", "schema_says_what_metadata_holds"},
    Mislabelled: {"schema_says_what_metadata_holds"},
    Words: {"schema_says_what_metadata_holds"},
    Uncaptioned: {"texts_are_a_string_per_sample"},
    Drawn: {"splits_are_always_the_same"},
    Noisy: {"an_item_is_always_the_same", "splits_are_always_the_same", "a_split_pickles"},
    Lenient: {"refuses_other_splits", "the_test_split_is_another"},
    Unpicklable: {"a_split_pickles"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("dataset", BROKEN)
