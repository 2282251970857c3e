"""Conditions that break one law each."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from support.broken import law_tests
from torchvision.transforms.v2.functional import to_image

from ccl_plugins.numerics import gather
from ccl_plugins.protocols import Table


class Sound:
    """The label."""

    refresh = "never"
    value_type = "categorical"

    def fit(self, split, embed, previous):
        return split.metadata["label"]


class Now:
    """The projections."""

    refresh = "batch"
    value_type = "continuous"

    def __call__(self, embedded):
        return embedded.projections.detach()


class Undeclared(Sound):
    """With a refresh that does not exist."""

    refresh = "sometimes"


class Reading(Sound):
    """Reads a file in its constructor."""

    def __init__(self) -> None:
        os.listdir()


class Fractions(Sound):
    """Declares class ids and gives other numbers."""

    def fit(self, split, embed, previous):
        return split.metadata["label"] + 0.5


class OneHot(Sound):
    """Declares class ids and gives a column for each."""

    def fit(self, split, embed, previous):
        return torch.nn.functional.one_hot(split.metadata["label"])


class Counting(Sound):
    """Other class ids in every fit."""

    fits = 0

    def fit(self, split, embed, previous):
        self.fits += 1
        return split.metadata["label"] + self.fits


class Sorted(Sound):
    """Rows in sorted order."""

    def fit(self, split, embed, previous):
        return (split.metadata["height"].sort().values > 0.5).long()


class OfPlaces(Sound):
    """Class ids of places in the split, which other samples may have."""

    def fit(self, split, embed, previous):
        return torch.arange(len(split)) % 3


class InBlocks(Sound):
    """A class id for the first third of the split, for the second and for the last."""

    def fit(self, split, embed, previous):
        return torch.arange(len(split)) // 8


class Shifted(Now):
    """Values of the sample before."""

    def __call__(self, embedded):
        return super().__call__(embedded).roll(1, 1)


class Expecting(Sound):
    """Reads an extra that its table does not have."""

    def fit(self, split, embed, previous):
        if previous is not None:
            previous.extras["centroids"]
        return split.metadata["label"]


class Sharing(Sound):
    """Changes an extra of its previous table."""

    def fit(self, split, embed, previous):
        extras = {"c": torch.ones(3)} if previous is None else dict(previous.extras)
        extras["c"].mul_(2)
        return Table(split.metadata["label"], extras)


class OneView(Now):
    """Finite values in the first view alone."""

    def __call__(self, embedded):
        first = embedded.projections[0].detach()
        return torch.stack([first, first * torch.nan])


class Embedding(Sound):
    """Reads the embeddings and does not declare it."""

    def fit(self, split, embed, previous):
        return (embed()[:, 0] > 0).long()


class Learned(Now):
    """With a gradient."""

    def __call__(self, embedded):
        return embedded.projections


class Marking(Sound):
    """Writes into the split."""

    def fit(self, split, embed, previous):
        split.metadata["height"].zero_()
        return super().fit(split, embed, previous)


class Centering(Now):
    """Centers the features of a batch in place."""

    def __call__(self, embedded):
        embedded.features.detach().sub_(1)
        return super().__call__(embedded)


class Remembering(Now):
    """Subtracts a mean over the batches so far."""

    mean = 0.0

    def __call__(self, embedded):
        values = super().__call__(embedded)
        self.mean = (self.mean + values.mean()) / 2
        return values - values.mean() + self.mean


class Incomplete(Sound):
    """Drops what fills no last batch of 4."""

    def fit(self, split, embed, previous):
        return split.metadata["label"][: len(split) // 4 * 4]


class FirstViews(Now):
    """The first two views, whatever there are."""

    def __call__(self, embedded):
        return super().__call__(embedded)[:2]


class OfTwoViews(Now):
    """For two views alone."""

    def __call__(self, embedded):
        first, second = super().__call__(embedded)
        return torch.stack([second, first])


class OnTheCpu(Now):
    """Values less a constant that is made on the CPU."""

    def __call__(self, embedded):
        return super().__call__(embedded) - torch.ones(6)


class Sent(Now):
    """Values that are computed by numpy."""

    def __call__(self, embedded):
        values = super().__call__(embedded)
        return torch.from_numpy(values.cpu().numpy() + 1).to(values.device)


class Flat(Sound):
    """One class id per sample, said to be several."""

    hierarchy = True


class Hashed(Sound):
    """The hash of a word."""

    def fit(self, split, embed, previous):
        words = split.vocabulary["word"]
        ids = [hash(words[i]) % 997 if i >= 0 else -1 for i in split.metadata["word"]]
        return torch.tensor(ids)


class Listed(Sound):
    """Class ids in the order in which a folder lists its files."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @staticmethod
    def EXAMPLE(folder):
        for number in range(3):
            (folder / str(number)).touch()
        return {"folder": str(folder)}

    def files(self):
        return Path(self.folder).iterdir()

    def fit(self, split, embed, previous):
        ids = {int(path.name): place for place, path in enumerate(self.files())}
        return torch.tensor([ids.get(int(label), -1) for label in split.metadata["label"]])


class Ordered(Listed):
    """Class ids in the order of the names of files."""

    def files(self):
        return sorted(super().files())


class Seeding(Sound):
    """Seeds a global generator."""

    def fit(self, split, embed, previous):
        torch.manual_seed(0)
        return super().fit(split, embed, previous)


class Caching(Sound):
    """Keeps its values in a file of a name that is the same for other samples."""

    def fit(self, split, embed, previous):
        file = Path(os.environ["CCL_CACHE"], f"label-{len(split)}.txt")
        if not file.exists():
            file.write_text(" ".join(map(str, split.metadata["label"].tolist())))
        return torch.tensor([*map(int, file.read_text().split())])


class Drawing(Sound):
    """Draws from a global generator, which a run seeds."""

    value_type = "continuous"

    def fit(self, split, embed, previous):
        return split.metadata["color"] @ torch.randn(3, 2)


class Brightness(Sound):
    """The mean of an image."""

    value_type = "continuous"

    def fit(self, split, embed, previous):
        return torch.stack([to_image(image).float().mean() / 255 for image, _ in split])


class OfTensors(Brightness):
    """The same, of tensors alone."""

    def fit(self, split, embed, previous):
        return torch.stack([image.float().mean() / 255 for image, _ in split])


class Normalizing(Brightness):
    """The mean of an image, less that of the 64 images that are read together."""

    def fit(self, split, embed, previous):
        parts = super().fit(split, embed, previous).split(64)
        return torch.cat([part - part.mean() for part in parts])


class InTraining(Sound):
    """Features of a network that normalizes by the batch."""

    value_type = "continuous"
    mode = True

    def fit(self, split, embed, previous):
        images = torch.stack([to_image(image).float() / 255 for image, _ in split])
        return torch.nn.BatchNorm2d(3).train(self.mode)(images).mean((2, 3))


class InEval(InTraining):
    """The same, by the statistics of the network."""

    mode = False


class Filled(Sound):
    """0 where a number is missing."""

    value_type = "continuous"

    def fit(self, split, embed, previous):
        return split.metadata["height"].nan_to_num(0.0)


class Thresholded(Sound):
    """A class for what is not above 0, as a missing number is not."""

    missing = "ignore"

    def fit(self, split, embed, previous):
        return (split.metadata["height"] > 0).long()


class Refusing(Sound):
    """Refuses a missing number."""

    def fit(self, split, embed, previous):
        if split.metadata["label"].min() < 0:
            raise ValueError("a label is missing")
        return super().fit(split, embed, previous)


class RefusingAll(Refusing):
    """Refuses a missing number, which it says it ignores."""

    missing = "ignore"


class OfBothSplits(Sound):
    """A number less its mean in both splits."""

    value_type = "continuous"

    def __init__(self, *, dataset) -> None:
        self.dataset = dataset

    def fit(self, split, embed, previous):
        both = [part.metadata["height"] for part in (split, self.dataset("test"))]
        return both[0] - torch.cat(both).mean()


class Relative(Now):
    """Projections less their mean over the batch."""

    def __call__(self, embedded):
        values = super().__call__(embedded)
        return values - values.mean(1, keepdim=True)


class RelativeAsItSays(Now):
    """The same over all processes, and says that its values belong to the batch."""

    within_batch = True

    def __call__(self, embedded):
        values = super().__call__(embedded)
        return values - gather(values, 1).sum(1, keepdim=True)


class OfAnotherColumn(Sound):
    """The label, said to be the color."""

    column = "color"


class OfItsColumn(Sound):
    """The label, said to be the label."""

    column = "label"


MISSING, COMPARED = "a_missing_value_stays_missing", "values_of_batches_can_be_compared"

BROKEN = {
    Sound: set(),
    Marking: {"changes_nothing_that_it_is_given"},
    Centering: {"changes_nothing_that_it_is_given"},
    Remembering: {"is_deterministic", "rows_belong_to_samples", COMPARED},
    Incomplete: {"values_have_its_value_type"},
    FirstViews: {"values_have_its_value_type"},
    OfTwoViews: set(),
    OnTheCpu: {"is_on_the_device_of_the_batch"},
    Sent: set(),
    Flat: {"values_have_its_value_type"},
    Hashed: {"is_the_same_in_another_process"},
    Listed: {"the_order_of_files_does_not_matter"},
    Ordered: set(),
    Seeding: {"seeds_no_global_generator"},
    Caching: {"is_deterministic"},
    Drawing: set(),
    Brightness: set(),
    OfTensors: {"reads_images_of_files"},
    Normalizing: {"does_not_depend_on_batches_of_images"},
    InTraining: {"does_not_depend_on_batches_of_images"},
    InEval: set(),
    Filled: {MISSING},
    Thresholded: {MISSING},
    Refusing: set(),
    RefusingAll: {MISSING},
    OfBothSplits: {"reads_the_training_split_alone"},
    Relative: {COMPARED},
    RelativeAsItSays: set(),
    OfAnotherColumn: {"gives_the_column_that_it_names"},
    OfItsColumn: set(),
    Now: set(),
    Undeclared: {"declares_refresh_and_value_type"},
    Reading: {"constructor_reads_nothing"},
    Fractions: {"values_have_its_value_type", MISSING},
    OneHot: {"values_have_its_value_type"},
    Counting: {"is_deterministic", MISSING},
    Sorted: {"rows_belong_to_samples", MISSING},
    OfPlaces: {"rows_belong_to_samples"},
    InBlocks: {"rows_belong_to_samples"},
    Shifted: {"rows_belong_to_samples", COMPARED},
    Expecting: {"fits_again_after_itself"},
    Sharing: {"fits_again_after_itself"},
    OneView: {"values_have_its_value_type"},
    Embedding: {"declares_that_it_reads_embeddings"},
    Learned: {"has_no_gradient"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("condition", BROKEN)
