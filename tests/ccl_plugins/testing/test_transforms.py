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


class DrawnOnce(Sound):
    """Draws before the loop over the views."""

    def __call__(self, image):
        noise = torch.randn(image.shape)
        return [image / 255 + noise for _ in range(2)]


class Remembering(Sound):
    """Keeps the views of an image by its id, to save time."""

    def __init__(self):
        self.views = {}

    def __call__(self, image):
        return self.views.setdefault(id(image), super().__call__(image))


class RememberingPlain(Sound):
    """Keeps what is not augmented by its id."""

    def __init__(self):
        self.known = {}

    def plain(self, image):
        if image.ndim == 4:
            return super().plain(image)
        return self.known.setdefault(id(image), super().plain(image))


class OfBytes(Sound):
    """Forgets to scale without augmentation."""

    def plain(self, image):
        return image.float()


class Flipped(Sound):
    """Flips, or not: two views are equal half of the time."""

    def __call__(self, image):
        return [image.flip(-1) / 255 if torch.rand(()) < 0.5 else image / 255 for _ in range(2)]


class Inverted(Sound):
    """Inverts half of the views, and makes them brighter or darker by up to a third."""

    def __call__(self, image):
        views = [image / 255 * (2 / 3 + 2 / 3 * torch.rand(())) for _ in range(2)]
        return [1 - view if torch.rand(()) < 0.5 else view for view in views]


class Fixed(Sound):
    """Not random: the image and its mirror image."""

    def __call__(self, image):
        return [image / 255, image.flip(-1) / 255]


BROKEN = {
    Sound: set(),
    Miscounted: {"gives_as_many_views_as_it_says"},
    Counting: {"is_drawn_from_the_generators", "remembers_no_image"},
    Spoiling: {"leaves_the_image_as_it_is"},
    OneByOne: {"plain_takes_a_batch"},
    Cropped: {"plain_is_not_augmented"},
    Together: {"views_of_a_batch_are_drawn_row_by_row"},
    DrawnOnce: {"views_of_an_image_are_drawn_apart"},
    Remembering: {"remembers_no_image"},
    RememberingPlain: {"remembers_no_image"},
    OfBytes: {"plain_has_the_scale_of_views"},
    Flipped: set(),
    Inverted: set(),
    Fixed: set(),
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("transform", BROKEN)
