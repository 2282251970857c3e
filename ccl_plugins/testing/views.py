"""The laws of views."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ccl_plugins.testing.assertions import (
    require,
    require_equal,
    require_same_draws,
    require_unchanged,
)
from ccl_plugins.testing.inputs import SHAPE, images
from ccl_plugins.testing.subject import Subject


def image_batch(subject: Subject, n: int = 3) -> Tensor:
    """(n, *EXAMPLE_SHAPE) uint8 images."""
    return images(n, getattr(subject.target, "EXAMPLE_SHAPE", SHAPE))


def observe(subject: Subject, views: Any) -> Any:
    """The views of an image, and the image without augmentation."""
    image = image_batch(subject)[0]
    return views(image), views.plain(image)


def check_gives_as_many_views_as_it_says(subject: Subject) -> None:
    """``views(image)`` must be a list of ``count`` finite float tensors of one shape."""
    views, image = subject.build(), image_batch(subject)[0]
    drawn = views(image)
    shapes = {tuple(view.shape) for view in drawn}
    finite = all(view.is_floating_point() and view.isfinite().all() for view in drawn)
    found = f"with count {views.count}, an image {tuple(image.shape)} gave {len(drawn)} views of {shapes}"
    require(len(drawn) == views.count >= 1 and len(shapes) == 1 and finite, found)


def check_is_drawn_from_the_generators(subject: Subject) -> None:
    """Equal seeds of Python's, numpy's and torch's global generators must give equal views."""
    views, image = subject.build(), image_batch(subject)[0]
    require_same_draws(lambda: views(image), seeds=(7, 7))


def check_leaves_the_image_as_it_is(subject: Subject) -> None:
    """Views must not change their image: a data set in memory returns its own pixels."""
    views, image = subject.build(), image_batch(subject)[0]
    with require_unchanged(lambda: image):
        views(image)
        views.plain(image)


def check_plain_takes_a_batch(subject: Subject) -> None:
    """``plain(images)`` of a batch must be ``plain(image)`` of each, stacked: features are computed so."""
    views, batch = subject.build(), image_batch(subject)
    require_equal(views.plain(batch), torch.stack([views.plain(image) for image in batch]))


def check_plain_is_not_augmented(subject: Subject) -> None:
    """``plain(image)`` must not be random, and must have the shape of a view: one backbone reads both."""
    views, image = subject.build(), image_batch(subject)[0]
    require_same_draws(lambda: views.plain(image))
    shapes = tuple(views.plain(image).shape), tuple(views(image)[0].shape)
    require(shapes[0] == shapes[1], f"the shapes are {shapes[0]} and {shapes[1]}")
