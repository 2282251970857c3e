"""Data sets that break one law each."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.broken import broken_laws, law_tests
from support.image_samples import write_image

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


class DrawnAtFirst(Sound):
    """A column that is drawn by the constructor."""

    def __init__(self) -> None:
        self.height = torch.randn(24)

    def __call__(self, name):
        found = super().__call__(name)
        found.metadata["height"] = self.height.clone()
        return found


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


class SortedSplit(Split):
    def __init__(self, rows):
        super().__init__(rows)
        self.metadata["label"] = self.metadata["label"].sort().values


class Sorted(Sound):
    """Labels in another order than the images, in which the last is right by chance."""

    split = SortedSplit


class SometimesNoisySplit(Split):
    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        return image + (torch.randint(9, ()) if index == 7 else 0), target


class SometimesNoisy(Sound):
    """One image is augmented."""

    split = SometimesNoisySplit


class BufferSplit(Split):
    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        if not hasattr(self, "buffer"):
            self.buffer = image.clone()
        return self.buffer.copy_(image), target


class Buffer(Sound):
    """Every image is read into one tensor."""

    split = BufferSplit


class FirstSplit(Split):
    def __getitem__(self, index):
        return self.images[0], super().__getitem__(index)[1]


class First(Sound):
    """The first image for every row."""

    split = FirstSplit


class Leaking(Sound):
    """6 of 24 test images are training images."""

    def __call__(self, name):
        found = super().__call__(name)
        if name == "test":
            found.images[9:15] = found.images[9:15].flip(-2)
        return found


class Repeating(Sound):
    """Images of five kinds, which repeat each other in both splits."""

    def __call__(self, name):
        found = super().__call__(name)
        found.images = Split().images[torch.arange(24) % 5].flip([-1] if name == "test" else [])
        found.images[::2] = Split().images[0]
        return found


class Blank(Sound):
    """Half of the images are black."""

    def __call__(self, name):
        found = super().__call__(name)
        found.images[::2] = 0
        return found


class Scaled(Sound):
    """Test images from 0 to 1, those of training up to 255."""

    def __call__(self, name):
        found = super().__call__(name)
        found.images = found.images / (255 if name == "test" else 1)
        return found


class HashedSplit(Split):
    def __init__(self, rows):
        super().__init__(rows)
        self.metadata["word"] = torch.tensor([hash(word) % 997 for word in self.texts["caption"]])
        self.vocabulary = {}


class Hashed(Sound):
    """Class ids by the hash of a word."""

    split = HashedSplit


class SeedingSplit(Split):
    def __getitem__(self, index):
        torch.manual_seed(index)
        return super().__getitem__(index)


class Seeding(Sound):
    """Seeds a global generator for each image."""

    split = SeedingSplit


class Growing(Sound):
    """A column counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, name):
        found = super().__call__(name)
        self.calls += 1
        found.metadata["height"] = found.metadata["height"] + self.calls
        return found


class InFiles(Sound):
    """Class ids in the order of files."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @staticmethod
    def EXAMPLE(folder):
        for number in range(3):
            write_image(folder / f"{number}.png", shade=number)
        return {"folder": str(folder)}

    def files(self):
        return Path(self.folder).glob("*")

    def __call__(self, name):
        found = super().__call__(name)
        order = torch.tensor([int(path.stem) for path in self.files()])
        found.metadata["word"] = order[found.metadata["word"]]
        return found


class InSortedFiles(InFiles):
    """Class ids in the order of the names of files."""

    def files(self):
        return sorted(super().files())


class Looking(InSortedFiles):
    """Opens an image for its schema."""

    def schema(self):
        next(iter(self.files())).read_bytes()
        return super().schema()


class Gray(Sound):
    """Test images of one channel, those of training of three."""

    def __call__(self, name):
        found = super().__call__(name)
        found.images = found.images[:, : 1 if name == "test" else 3]
        return found


class Grouped(Sound):
    """A group whose samples are in both splits."""

    apart = 0

    def __call__(self, name):
        found = super().__call__(name)
        found.metadata["patient"] = torch.arange(24) // 3 + (self.apart if name == "test" else 0)
        found.group = "patient"
        return found

    def schema(self):
        return {**super().schema(), "patient": "categorical"}


class GroupedApart(Grouped):
    """Groups of one split each."""

    apart = 8


class Ungrouped(Grouped):
    """A group that is no column of class ids."""

    def __call__(self, name):
        found = super().__call__(name)
        found.group = "height"
        return found


def nothing(found):
    pass


def unalike(change, leave):
    """A data set whose test split one function changes, and whose training split another."""

    class Changed(Sound):
        """Changed."""

        def __call__(self, name):
            found = super().__call__(name)
            (change if name == "test" else leave)(found)
            return found

    return Changed


def lacks(found):
    found.metadata["height"][::5] = torch.nan


def holds(column, make):
    def change(found):
        found.metadata[column] = make(found.metadata[column])

    return change


def says(words):
    return lambda found: found.vocabulary.update(word=words)


@pytest.mark.parametrize(
    ("change", "leave", "right"),
    [
        (holds("height", lambda column: column.long()), nothing, False),
        (holds("color", lambda column: column[:, :2]), nothing, False),
        (holds("height", lambda column: column.index_fill(0, torch.arange(4), -999)), lacks, False),
        (holds("height", lambda column: 3 * column), lacks, True),
        (lacks, lacks, True),
        (says(["cat", "dog"]), nothing, False),
        (says(["cat", "dog", "emu", "fox"]), nothing, True),
    ],
    ids=["type", "width", "-999", "spread", "missing", "a word less", "a word more"],
)
def test_columns_that_differ_between_the_splits_are_named(change, leave, right):
    every = {"pickles", "a_split_pickles", "is_the_same_in_another_process"}  # of a local class
    broken = broken_laws("dataset", unalike(change, leave), every)
    assert broken == (set() if right else {"columns_are_alike_in_both_splits"})


class OwnWords(Sound):
    """Words of its own in each split."""

    def __call__(self, name):
        found = super().__call__(name)
        found.vocabulary = {
            "word": ["cat", "dog", "emu"] if name == "train" else ["dog", "emu", "fox"]
        }
        return found


LEAK = "no_test_image_is_in_training"

BROKEN = {
    Sound: set(),
    Sorted: {"gives_images_and_targets"},
    SometimesNoisy: {"an_item_is_always_the_same"},
    Buffer: {"an_item_is_always_the_same", "not_all_images_are_equal"},
    First: {"not_all_images_are_equal"},
    Leaking: {LEAK},
    Repeating: set(),
    Blank: set(),
    Scaled: {"images_are_alike_in_both_splits"},
    Hashed: {"is_the_same_in_another_process"},
    Seeding: {"seeds_no_global_generator"},
    Growing: {"splits_are_always_the_same"},
    InFiles: {"the_order_of_files_does_not_matter"},
    InSortedFiles: set(),
    Looking: {"schema_says_what_metadata_holds"},
    Gray: {"images_are_alike_in_both_splits"},
    Grouped: {"no_group_is_in_both_splits"},
    GroupedApart: set(),
    Ungrouped: {"no_group_is_in_both_splits"},
    OwnWords: {"columns_are_alike_in_both_splits"},
    Loose: set(),
    Backwards: {"the_test_split_is_another", LEAK},
    OneSplit: {"the_test_split_is_another", LEAK},
    NoLabels: {"gives_images_and_targets"},
    Ragged: {"metadata_has_a_row_per_sample", "schema_says_what_metadata_holds"},
    Mislabelled: {"schema_says_what_metadata_holds"},
    Words: {"schema_says_what_metadata_holds"},
    Uncaptioned: {"texts_are_a_string_per_sample"},
    Drawn: {"splits_are_always_the_same"},
    DrawnAtFirst: {"splits_are_always_the_same"},
    Noisy: {"an_item_is_always_the_same", "splits_are_always_the_same", "a_split_pickles"},
    Lenient: {"refuses_other_splits", "the_test_split_is_another", LEAK},
    Unpicklable: {"a_split_pickles"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("dataset", BROKEN)
