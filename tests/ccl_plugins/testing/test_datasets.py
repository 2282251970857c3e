"""Data sets that break one law each."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
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


class RaggedWithFewer(Sound):
    """Leaves out rows of the images, and none of the metadata."""

    def __init__(self, leave_out: int = 0) -> None:
        if not 0 <= leave_out < 24:
            raise ValueError(f"leave_out must be 0 to 23, not {leave_out}")
        self.leave_out = leave_out

    def __call__(self, name):
        found = super().__call__(name)
        found.rows = found.rows[self.leave_out :]
        return found


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


class CopiedBefore(Sound):
    """Two images of training are there eight times each, and in the test split."""

    def __call__(self, name):
        found = super().__call__(name)
        if name == "train":
            return self.split(torch.cat([torch.arange(16), torch.tensor([16, 17]).repeat(8)]))
        found.images[::3] = Split().images[16:18].repeat(4, 1, 1, 1)
        return found


class Overlapping(Sound):
    """The first test image is the last training image."""

    def __call__(self, name):
        found = super().__call__(name)
        if name == "test":
            found.images[0] = Split().images[-1]
        return found


class LeakingAmongMany(Sound):
    """A quarter of the test images are among many training images, of which not all are looked at."""

    def __call__(self, name):
        super().__call__(name)
        numbers = torch.arange(3000) if name == "train" else torch.arange(0, 3000, 12) + 3000
        if name == "test":
            numbers[::4] -= 3000
        found = Split(size=len(numbers))
        digits = numbers[:, None] // 100 ** torch.arange(2) % 100
        found.images = torch.stack([digits, digits + 100], 2)[:, None].byte()
        return found


class Blank(Sound):
    """Half of the images are black."""

    def __call__(self, name):
        found = super().__call__(name)
        found.images[::2] = 0
        return found


class Unmeasured(Sound):
    """-9999 where no height was measured."""

    def __call__(self, name):
        found = super().__call__(name)
        found.metadata["height"][:4] = -9999
        return found


class Scaled(Sound):
    """Test images from 0 to 1, those of training up to 255."""

    def __call__(self, name):
        found = super().__call__(name)
        found.images = found.images / (255 if name == "test" else 1)
        return found


class Centered(Sound):
    """Training images from -1 to 1, those of testing from 0 to 1."""

    def __call__(self, name):
        found = super().__call__(name)
        found.images = found.images / 255
        if name == "train":
            found.images = 2 * found.images - 1
        return found


class VectorSplit(Split):
    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        return image.flatten()[:16].float(), target


class Vectors(Sound):
    """Vectors, those of the test split from another row of the image."""

    split = VectorSplit


class LeakingVectors(Leaking):
    """6 of 24 vectors of the test split are of training."""

    split = VectorSplit


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


class AfterTraining(Sound):
    """A column of the test split counts from where training ended, if it was called."""

    rows = 0

    def __call__(self, name):
        found = super().__call__(name)
        if name == "test":
            found.metadata["height"] = found.metadata["height"] + self.rows
        self.rows = len(found)
        return found


class Caching(Sound):
    """Images are kept by the split's name, whatever the seed."""

    kept: ClassVar[dict[str, torch.Tensor]] = {}

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def __call__(self, name):
        found = super().__call__(name)
        found.images = self.kept.setdefault(name, found.images ^ self.seed)
        return found


class CachingBySeed(Caching):
    """Images are kept by the split's name and the seed."""

    def __call__(self, name):
        found = Sound.__call__(self, name)
        found.images = self.kept.setdefault((name, self.seed), found.images ^ self.seed)
        return found


class KeepingSplit(Split):
    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        return self.__dict__.setdefault("kept", {}).setdefault(index // 2, image), target


class Keeping(Sound):
    """Images that are read once are kept, by half of their number."""

    split = KeepingSplit


class TogetherSplit(Split):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Together(Sound):
    """Reads several rows in one call."""

    split = TogetherSplit


class SortedTogetherSplit(Split):
    def __getitems__(self, indices):
        return [self[index] for index in sorted(indices)]


class SortedTogether(Sound):
    """Reads several rows in one call, in the order of the file."""

    split = SortedTogetherSplit


class DealtSplit(Split):
    def __getitem__(self, index):
        worker = torch.utils.data.get_worker_info()
        return super().__getitem__(index if worker is None else index - worker.id)


class Dealt(Sound):
    """Each worker reads rows of its own."""

    split = DealtSplit


class MarkingSplit(Split):
    def __getitem__(self, index):
        self.metadata["height"][index] = 0
        return super().__getitem__(index)


class Marking(Sound):
    """A column tells which images were read."""

    split = MarkingSplit


class ChannelsLastSplit(Split):
    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        return image.permute(1, 2, 0), target


class ChannelsLast(Sound):
    """Images (height, width, channels)."""

    split = ChannelsLastSplit


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


class KeepingAFile(Sound):
    """Keeps images that are rolled in a file."""

    def __init__(self, folder: str, by: int = 0) -> None:
        self.folder, self.by = folder, by

    @staticmethod
    def EXAMPLE(folder):
        (folder / "image.png").write_bytes(b"")
        return {"folder": str(folder)}

    def file(self, name):
        return Path(self.folder, f"{name}.npy")

    def __call__(self, name):
        found = super().__call__(name)
        if not self.file(name).exists():
            np.save(self.file(name), found.images.roll(self.by, -1).numpy())
        found.images = torch.from_numpy(np.load(self.file(name)))
        return found


class KeepingAFileOfEach(KeepingAFile):
    """Keeps images that are rolled in a file for each number."""

    def file(self, name):
        return super().file(f"{name}_{self.by}")


class OfAFold(Sound):
    """Tests on one row of three, and trains on the others."""

    left_out = property(lambda self: self.fold)

    def __init__(self, fold: int = 0) -> None:
        if not 0 <= fold < 3:
            raise ValueError(f"fold must be 0 to 2, not {fold}")
        self.fold = fold

    def __call__(self, name):
        super().__call__(name)
        rows = torch.arange(60)
        kept = rows % 3 == self.fold if name == "test" else rows % 3 != self.left_out
        return Split(rows[kept], size=60)


class OfTheFirstFold(OfAFold):
    """Leaves the first fold out of training, whichever is tested on."""

    left_out = 0


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


OF_A_LOCAL_CLASS = {"pickles", "a_split_pickles", "is_the_same_in_another_process"}


@pytest.mark.parametrize(
    ("change", "leave", "right"),
    [
        (holds("height", lambda column: column.long()), nothing, False),
        (holds("color", lambda column: column[:, :2]), nothing, False),
        (holds("height", lambda column: 3 * column), lacks, True),
        (lacks, lacks, True),
        (says(["cat", "dog"]), nothing, False),
        (says(["cat", "dog", "emu", "fox"]), nothing, True),
    ],
    ids=["type", "width", "spread", "missing", "a word less", "a word more"],
)
def test_columns_that_differ_between_the_splits_are_named(change, leave, right):
    broken = broken_laws("dataset", unalike(change, leave), OF_A_LOCAL_CLASS)
    assert broken == (set() if right else {"columns_are_alike_in_both_splits"})


def names_captions(found):
    found.metadata["word"] = torch.arange(24)
    found.vocabulary["word"] = found.texts["caption"]


def far_id(found):
    del found.vocabulary["word"]
    holds("word", first_four(255))(found)


def first_four(number):
    return lambda column: column.index_fill(0, torch.arange(4), number)


def filled(column):
    return first_four(float(column[4:].mean()))(column)


MISSING, ALIKE = "what_is_missing_says_so", "columns_are_alike_in_both_splits"
SCHEMA = "schema_says_what_metadata_holds"


@pytest.mark.parametrize(
    ("change", "leave", "law"),
    [
        (holds("height", first_four(-999)), lacks, MISSING),
        (holds("height", first_four(-9999)), None, MISSING),
        (holds("height", lambda column: first_four(-1)(column.exp())), None, MISSING),
        (holds("height", filled), None, MISSING),
        (holds("height", first_four(0)), None, None),
        (holds("color", first_four(-1)), None, MISSING),
        (holds("attributes", lambda column: 2 * column - 1), None, MISSING),
        (holds("attributes", first_four(-1)), None, None),
        (holds("height", torch.sign), None, None),
        (says([0, 1, 2]), None, ALIKE),
        (lambda found: found.texts["caption"].__setitem__(3, "nan"), None, MISSING),
        (far_id, None, MISSING),
        (says(["cat", "dog", "nan"]), None, MISSING),
        (says(["cat", "dog", "cat"]), None, ALIKE),
        (lambda found: found.vocabulary.update(words=["cat", "dog", "emu"]), None, ALIKE),
        (lambda found: found.vocabulary.update(height=["low", "high"]), None, SCHEMA),
        (holds("height", lambda column: column.numpy()), None, SCHEMA),
        (names_captions, None, "texts_are_a_string_per_sample"),
    ],
)
def test_columns_of_other_values_are_named(change, leave, law):
    broken = broken_laws("dataset", unalike(change, leave or change), OF_A_LOCAL_CLASS)
    assert broken == ({law} if law else set())


class OwnWords(Sound):
    """Words of its own in each split."""

    def __call__(self, name):
        found = super().__call__(name)
        found.vocabulary = {
            "word": ["cat", "dog", "emu"] if name == "train" else ["dog", "emu", "fox"]
        }
        return found


LEAK = "no_test_image_is_in_training"

ITEM, ALWAYS = "an_item_is_always_the_same", "splits_are_always_the_same"

BROKEN = {
    Sound: set(),
    CopiedBefore: {LEAK},
    Unmeasured: {MISSING},
    Overlapping: {LEAK},
    LeakingAmongMany: {LEAK},
    AfterTraining: {ALWAYS},
    Caching: {"is_the_same_in_another_process"},
    CachingBySeed: set(),
    Keeping: {ITEM},
    Dealt: {ITEM},
    Together: set(),
    SortedTogether: {ITEM},
    Marking: {ITEM},
    ChannelsLast: {"gives_images_and_targets"},
    Sorted: {"gives_images_and_targets"},
    SometimesNoisy: {"an_item_is_always_the_same"},
    Buffer: {"an_item_is_always_the_same", "not_all_images_are_equal"},
    First: {"not_all_images_are_equal"},
    Leaking: {LEAK},
    Repeating: set(),
    Blank: set(),
    Centered: {"images_are_alike_in_both_splits"},
    Vectors: set(),
    LeakingVectors: {LEAK},
    Scaled: {"images_are_alike_in_both_splits"},
    Hashed: {"is_the_same_in_another_process"},
    Seeding: {"seeds_no_global_generator"},
    Growing: {"splits_are_always_the_same"},
    InFiles: {"the_order_of_files_does_not_matter"},
    InSortedFiles: set(),
    KeepingAFile: {"keeps_no_file_of_other_settings"},
    KeepingAFileOfEach: set(),
    OfAFold: set(),
    OfTheFirstFold: {LEAK},
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
    RaggedWithFewer: {"metadata_has_a_row_per_sample"},
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
