"""Conditions that break one law each."""

from __future__ import annotations

import os

import torch
from support.broken import law_tests

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


BROKEN = {
    Sound: set(),
    Marking: {"leaves_the_split_as_it_is"},
    Now: set(),
    Undeclared: {"declares_refresh_and_value_type"},
    Reading: {"constructor_reads_nothing"},
    Fractions: {"values_have_its_value_type"},
    Counting: {"is_deterministic"},
    Sorted: {"rows_belong_to_samples"},
    OfPlaces: {"rows_belong_to_samples"},
    InBlocks: {"rows_belong_to_samples"},
    Shifted: {"rows_belong_to_samples"},
    Expecting: {"fits_again_after_itself"},
    Sharing: {"fits_again_after_itself"},
    OneView: {"values_have_its_value_type"},
    Embedding: {"declares_that_it_reads_embeddings"},
    Learned: {"has_no_gradient"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("condition", BROKEN)
