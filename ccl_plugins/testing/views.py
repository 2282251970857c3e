"""The laws of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import SHAPE, images, seeded
from ccl_plugins.testing.subject import Subject


def given(subject: Subject, n: int = 3) -> Tensor:
    """(n, *EXAMPLE_SHAPE) uint8 images."""
    return images(n, getattr(subject.target, "EXAMPLE_SHAPE", SHAPE))


def observe(subject: Subject, views: Any) -> Any:
    """The views of an image, and the image without augmentation."""
    image = given(subject)[0]
    return views(image), views.plain(image)


def check_gives_as_many_views_as_it_says(subject: Subject) -> None:
    """``count`` tensors of one shape."""
    views = subject.build()
    image = given(subject)[0]
    law = "views(image) must be a list of `count` float tensors, which stack to a batch"
    with may_not(law):
        drawn = views(image)
        shapes = {tuple(view.shape) for view in drawn}
        kinds = all(view.is_floating_point() and view.isfinite().all() for view in drawn)
    said = f"of {tuple(image.shape)} with count {views.count} it gave {len(drawn)} of {shapes}"
    hold(law, len(drawn) == views.count >= 1 and len(shapes) == 1 and kinds, said)


def check_is_drawn_from_the_generators(subject: Subject) -> None:
    """Equal seeds of python, numpy and torch, equal views; in any process."""
    views, image = subject.build(), given(subject)[0]
    drawn = []
    for _ in range(2):
        with seeded(7):
            drawn.append(views(image))
    agree(
        "with python's, numpy's and torch's generators at one seed, views must be the same: draw from"
        " no generator of your own",
        *drawn,
        rtol=0,
        atol=0,
    )


def check_leaves_the_image_as_it_is(subject: Subject) -> None:
    """A data set in memory hands out its own pixels."""
    views, image = subject.build(), given(subject)[0]
    before = image.clone()
    views(image)
    views.plain(image)
    agree("views must not change the image they are given", image, before, rtol=0, atol=0)


def check_plain_takes_a_batch(subject: Subject) -> None:
    """Features are computed in batches."""
    views, batch = subject.build(), given(subject)
    law = "plain(images) of a batch must be plain(image) of each, stacked"
    with may_not(law):
        together = views.plain(batch)
        alone = torch.stack([views.plain(image) for image in batch])
    agree(law, together, alone)


def check_plain_is_not_augmented(subject: Subject) -> None:
    """The same at any time, and shaped as a view is."""
    views, image = subject.build(), given(subject)[0]
    plain = []
    for seed in range(2):
        with seeded(seed):
            plain.append(views.plain(image))
    agree("plain(image) must not be random", *plain, rtol=0, atol=0)
    shapes = tuple(plain[0].shape), tuple(views(image)[0].shape)
    law = "plain(image) must have the shape of a view, which the backbone is made for"
    hold(law, shapes[0] == shapes[1], f"they are {shapes[0]} and {shapes[1]}")


CHECKS: list[Callable[[Subject], None]] = [
    check_gives_as_many_views_as_it_says,
    check_is_drawn_from_the_generators,
    check_leaves_the_image_as_it_is,
    check_plain_takes_a_batch,
    check_plain_is_not_augmented,
]
