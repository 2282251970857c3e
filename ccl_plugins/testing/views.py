"""The laws of views."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ccl_plugins.testing.assertions import require, require_equal, require_no_error
from ccl_plugins.testing.inputs import SHAPE, images, seeded
from ccl_plugins.testing.subject import Subject


def image_batch(subject: Subject, n: int = 3) -> Tensor:
    """(n, *EXAMPLE_SHAPE) uint8 images."""
    return images(n, getattr(subject.target, "EXAMPLE_SHAPE", SHAPE))


def observe(subject: Subject, views: Any) -> Any:
    """The views of an image, and the image without augmentation."""
    image = image_batch(subject)[0]
    return views(image), views.plain(image)


def check_gives_as_many_views_as_it_says(subject: Subject) -> None:
    """A call gives ``count`` finite float tensors of one shape."""
    views = subject.build()
    image = image_batch(subject)[0]
    law = "views(image) must be a list of `count` finite float tensors of one shape"
    with require_no_error(law):
        drawn = views(image)
        shapes = {tuple(view.shape) for view in drawn}
        finite = all(view.is_floating_point() and view.isfinite().all() for view in drawn)
    found = f"with count {views.count}, an image {tuple(image.shape)} gave {len(drawn)} views of {shapes}"
    require(law, len(drawn) == views.count >= 1 and len(shapes) == 1 and finite, found)


def check_is_drawn_from_the_generators(subject: Subject) -> None:
    """Equal seeds of Python, numpy and torch give equal views, in any process."""
    views, image = subject.build(), image_batch(subject)[0]
    drawn = []
    for _ in range(2):
        with seeded(7):
            drawn.append(views(image))
    require_equal(
        "equal seeds of Python's, numpy's and torch's generators must give equal views: draw from no"
        " generator of your own",
        *drawn,
        rtol=0,
        atol=0,
    )


def check_leaves_the_image_as_it_is(subject: Subject) -> None:
    """The image is not changed; a data set in memory returns its own pixels."""
    views, image = subject.build(), image_batch(subject)[0]
    before = image.clone()
    views(image)
    views.plain(image)
    require_equal("views must not change their image", image, before, rtol=0, atol=0)


def check_plain_takes_a_batch(subject: Subject) -> None:
    """``plain`` works on a batch, as features are computed."""
    views, batch = subject.build(), image_batch(subject)
    law = "plain(images) of a batch must be plain(image) of each, stacked"
    with require_no_error(law):
        together = views.plain(batch)
        alone = torch.stack([views.plain(image) for image in batch])
    require_equal(law, together, alone)


def check_plain_is_not_augmented(subject: Subject) -> None:
    """``plain`` is not random, and has the shape of a view."""
    views, image = subject.build(), image_batch(subject)[0]
    plain = []
    for seed in range(2):
        with seeded(seed):
            plain.append(views.plain(image))
    require_equal("plain(image) must not be random", *plain, rtol=0, atol=0)
    shapes = tuple(plain[0].shape), tuple(views(image)[0].shape)
    law = "plain(image) must have the shape of a view, because the same backbone reads both"
    require(law, shapes[0] == shapes[1], f"they are {shapes[0]} and {shapes[1]}")
