"""Transforms that break one law each."""

from __future__ import annotations

import torch
from support.broken import law_tests


class Sound:
    """The image and noise."""

    count = 2

    def __call__(self, image):
        return [image / 255 + torch.randn(image.shape) for _ in range(2)]

    def plain(self, image):
        return image / 255


class Miscounted(Sound):
    """Declares one view too many."""

    count = 3


class Counting(Sound):
    """Other views in every call."""

    calls = 0

    def __call__(self, image):
        self.calls += 1
        return [view + self.calls for view in super().__call__(image)]


class Spoiling(Sound):
    """Changes the image."""

    def plain(self, image):
        return image.clamp_(max=100) / 255


class OneByOne(Sound):
    """Takes no batch."""

    def plain(self, image):
        channels, height, width = image.shape
        return image.reshape(channels, height, width) / 255


class Cropped(Sound):
    """Smaller without augmentation."""

    def plain(self, image):
        return image[..., :16, :16] / 255


class Together(Sound):
    """Draws the views of a batch with one number for all."""

    def __init__(self):
        self.batch_transforms = [self._view] * self.count

    def _view(self, images, seeds):
        return images / 255 + seeds.sum()


BROKEN = {
    Sound: set(),
    Miscounted: {"gives_as_many_views_as_it_says"},
    Counting: {"is_drawn_from_the_generators"},
    Spoiling: {"leaves_the_image_as_it_is"},
    OneByOne: {"plain_takes_a_batch"},
    Cropped: {"plain_is_not_augmented"},
    Together: {"views_of_a_batch_are_drawn_row_by_row"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("transform", BROKEN)
