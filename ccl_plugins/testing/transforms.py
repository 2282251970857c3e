"""The laws of transforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor

from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import (
    require,
    require_equal,
    require_identical,
    require_same_draws,
    require_unchanged,
)
from ccl_plugins.testing.inputs import SHAPE, images, seeded
from ccl_plugins.testing.subject import Subject
from ccl_plugins.transforms.modalities import IMAGE, modality_of_each, sources

N = 3


def samples(subject: Subject) -> tuple[list[Any], Any]:
    """Three samples as the transform takes them, and the batch of them as ``plain`` takes it.

    They are images, of the shape in a class attribute ``EXAMPLE_SHAPE``; for one with a ``source`` the
    texts or values in ``EXAMPLE_VALUES``; for one of several modalities one of each.
    """
    built = subject.build()
    if not trait(built, "modalities"):
        batch = _values(subject.target)
        return list(batch), batch
    given = {name: _values(type(each)) for name, each in built.of.items()}
    return [{name: batch[i] for name, batch in given.items()} for i in range(N)], given[IMAGE]


def _values(target: Any) -> Any:
    values = getattr(target, "EXAMPLE_VALUES", None)
    return images(N, getattr(target, "EXAMPLE_SHAPE", SHAPE)) if values is None else values[:N]


def _tensors(sample: Any) -> list[Tensor]:
    """What of a sample could be changed."""
    given = sample.values() if isinstance(sample, Mapping) else [sample]
    return [each for each in given if isinstance(each, Tensor)]


def observe(subject: Subject, built: Any) -> Any:
    """The views of a sample, and the image without augmentation."""
    (sample, *_), batch = samples(subject)
    return built(sample), built.plain(batch[0])


def check_gives_as_many_views_as_it_says(subject: Subject) -> None:
    """``transform(image)`` must be a list of ``count`` finite float tensors of one shape.

    Views of texts may be whole numbers; each modality has a shape of its own, and each of its ``sizes``.
    """
    built, sample = subject.build(), samples(subject)[0][0]
    drawn = built(sample)
    names = modality_of_each(built)
    sizes = trait(built, "sizes") or [None] * len(names)
    kinds = [*zip(names, sizes, strict=True)]
    shapes = {(kind, tuple(view.shape)) for kind, view in zip(kinds, drawn, strict=False)}
    reading = sources(built)
    finite = all(
        (view.is_floating_point() or reading[name] is not None) and view.isfinite().all()
        for name, view in zip(names, drawn, strict=False)
    )
    report = f"with count {built.count}, it gave {len(drawn)} views of {shapes}"
    square = all(size is None or shape[-2:] == (size, size) for (_, size), shape in shapes)
    one_shape = len(shapes) == len(set(kinds)) and square
    require(len(drawn) == len(names) == built.count >= 1 and one_shape and finite, report)


def check_is_drawn_from_the_generators(subject: Subject) -> None:
    """Equal seeds of Python's, numpy's and torch's global generators must give equal views."""
    built, sample = subject.build(), samples(subject)[0][0]
    require_same_draws(lambda: built(sample), seeds=(7, 7))


SEEDS = range(8)
"""Under so many seeds a right transform may give equal views by chance: two that only flip, 1 of 256."""


def check_views_of_an_image_are_drawn_apart(subject: Subject) -> None:
    """Of a random transform, views of one image must differ: equal ones are no pair to learn from.

    Draw inside the loop over the views.  This is for views of one modality and one size, of which
    neither is the same under every seed.
    """
    built, sample = subject.build(), samples(subject)[0][0]
    draws = []
    for seed in SEEDS:
        with seeded(seed):
            draws.append(built(sample))
    names = modality_of_each(built)
    sizes = trait(built, "sizes") or [None] * len(names)
    views = [*zip(names, sizes, zip(*draws, strict=True), strict=False)]
    random = [i for i, (_, _, view) in enumerate(views) if not _all_equal(view)]
    pairs = [(i, j) for i in random for j in random if i < j and views[i][:2] == views[j][:2]]
    if not pairs:
        raise SkipTest("no two of its views are random and of one kind")
    for i, j in pairs:
        together = all(map(torch.equal, views[i][2], views[j][2]))
        require(not together, f"the views {i} and {j} are equal under {len(SEEDS)} seeds")


def _all_equal(views: Sequence[Tensor]) -> bool:
    return all(torch.equal(view, views[0]) for view in views)


def check_remembers_no_image(subject: Subject) -> None:
    """A call must not depend on the calls before it: an image comes again in each epoch, to be drawn anew.

    Nor may it know an image by ``id()``: memory is used again for the next one.
    """
    built, ((sample, *_), batch) = subject.build(), samples(subject)
    for seed in (0, 1):
        with seeded(seed):
            expected = subject.build()(sample)
        with seeded(seed):
            require_identical(built(sample), expected, f"in a later call, under the seed {seed}")
    if not isinstance(batch, Tensor):
        return
    memory = batch[0].clone()
    built.plain(memory)
    memory.copy_(batch[1])
    require_identical(
        built.plain(memory), built.plain(batch[1]), "plain, in the memory of another image"
    )


def check_leaves_the_image_as_it_is(subject: Subject) -> None:
    """A transform must not change its image: a data set in memory returns its own pixels."""
    built, ((sample, *_), batch) = subject.build(), samples(subject)
    with require_unchanged(lambda: [*_tensors(sample), *_tensors(batch)]):
        built(sample)
        built.plain(batch[0])


def check_plain_takes_a_batch(subject: Subject) -> None:
    """``plain(images)`` of a batch must be ``plain(image)`` of each, stacked: features are computed so."""
    built, batch = subject.build(), samples(subject)[1]
    require_equal(built.plain(batch), torch.stack([built.plain(image) for image in batch]))


def check_plain_is_not_augmented(subject: Subject) -> None:
    """``plain(image)`` must not be random, and must have the shape of a view: one backbone reads both."""
    built, ((sample, *_), batch) = subject.build(), samples(subject)
    require_same_draws(lambda: built.plain(batch[0]))
    shapes = tuple(built.plain(batch[0]).shape), tuple(built(sample)[0].shape)
    require(shapes[0] == shapes[1], f"the shapes are {shapes[0]} and {shapes[1]}")


MOST = 2.0
"""By how much views and plain may differ in scale; those of the built-ins do so by less than 1.3."""


def check_plain_has_the_scale_of_views(subject: Subject) -> None:
    """``plain(image)`` must scale pixels as views do: the backbone learns on views, and is measured on it.

    Two even images are compared, a darker and a brighter one: in views they are as far apart as without
    augmentation, at the median over draws, within a factor of 2.
    """
    built, batch = subject.build(), samples(subject)[1]
    even = isinstance(batch, Tensor) and batch.dtype == torch.uint8 and batch.ndim == 4
    if not even or trait(built, "modalities"):
        raise SkipTest("it takes no images of whole numbers")
    dark, bright = (torch.full_like(batch[0], level) for level in (96, 160))
    apart = float((built.plain(bright).mean() - built.plain(dark).mean()).abs())
    if apart < 1e-4:
        raise SkipTest("it gives even images of any brightness alike")
    steps = []
    for seed in range(15):
        means = []
        for image in (dark, bright):
            with seeded(seed):
                means.append(torch.stack([view.mean() for view in subject.build()(image)]))
        steps.append((means[1] - means[0]).abs())
    ratio = float(torch.stack(steps).median()) / apart
    report = (
        f"two images that are {apart:.3g} apart in plain are {ratio * apart:.3g} apart in views"
    )
    require(1 / MOST <= ratio <= MOST, report)


def check_views_of_a_batch_are_drawn_row_by_row(subject: Subject) -> None:
    """A row of ``batch_transforms`` must depend on its image and seed alone: runs resume, ranks share."""
    built, (_, batch) = subject.build(), samples(subject)
    functions = trait(built, "batch_transforms") or []
    report = f"with count {built.count}, it has {len(functions)}"
    require(len(functions) in (0, built.count), report)
    seeds = torch.arange(len(batch)) + 7
    sizes = trait(built, "sizes") or [None] * len(functions)
    for function, size in zip(functions, sizes, strict=False):
        require_same_draws(partial(function, batch, seeds))
        with require_unchanged(lambda: [batch, seeds]):
            together = function(batch, seeds)
        like = tuple(built.plain(batch[0]).shape)
        shapes = tuple(together.shape[1:]), like if size is None else (*like[:-2], size, size)
        require(shapes[0] == shapes[1], f"a view is {shapes[0]}, and must be {shapes[1]}")
        alone = [function(batch[i : i + 1], seeds[i : i + 1]) for i in range(len(batch))]
        require_equal(torch.cat(alone), together, "each row alone", rtol=1e-4, atol=1e-5)
