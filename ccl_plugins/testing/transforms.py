"""The laws of transforms."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias
from unittest import SkipTest

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

import ccl_registry as engine
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import (
    on_meta,
    require,
    require_equal,
    require_identical,
    require_no_seeding,
    require_same_draws,
    require_same_in_another_process,
    require_unchanged,
    warnings_ignored,
)
from ccl_plugins.testing.inputs import SHAPE, images, seeded
from ccl_plugins.testing.subject import Subject
from ccl_plugins.transforms.modalities import IMAGE, modality_of_each, sources

N = 3


def samples(subject: Subject) -> tuple[list[Any], Any]:
    """Three samples as the transform takes them, and the batch of them as ``plain`` takes it.

    The samples are images, of the shape in a class attribute ``EXAMPLE_SHAPE``.  A transform with a
    ``source`` gets the texts or values in ``EXAMPLE_VALUES``; one of several modalities gets one of each.
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
    """The tensors of a sample, which a transform could change."""
    given = sample.values() if isinstance(sample, Mapping) else [sample]
    return [each for each in given if isinstance(each, Tensor)]


def observe(subject: Subject, built: Any) -> Any:
    """The views of a sample, and the image without augmentation."""
    (sample, *_), batch = samples(subject)
    return built(sample), built.plain(batch[0])


def check_gives_as_many_views_as_it_says(subject: Subject) -> None:
    """``transform(image)`` must be a list of ``count`` finite float32 tensors of one shape.

    Views of texts may be whole numbers.  Each modality has a shape of its own, and so has each of the
    ``sizes``, of which the first is ``size``.  ``transforms`` has a function for each view, which gives the
    view's shape.  A parameter ``count`` of the constructor is the number of views.
    """
    built, sample = subject.build(), samples(subject)[0][0]
    _require_views(built, sample)
    params = subject.choice.params
    if isinstance(count := params.get("count"), int):
        more = registry().choose(subject.kind, subject.spec.id, **{**params, "count": count + 1})
        try:
            built = subject.chosen_as(more).build()
        except ValueError:  # the transform refuses this number
            return
        _require_views(built, sample)


def _require_views(built: Any, sample: Any) -> None:
    drawn, kinds = built(sample), _kinds(built)
    names = [name for name, _ in kinds]
    require(isinstance(drawn, list | tuple), f"it is a {type(drawn).__name__}")
    functions = trait(built, "transforms")
    report = f"with count {built.count}, transforms has {len(functions or [])}"
    require(functions is None or len(functions) == built.count, report)
    shapes = {(kind, tuple(view.shape)) for kind, view in zip(kinds, drawn, strict=False)}
    reading = sources(built)
    finite = all(
        (view.dtype == torch.float32 or reading[name] is not None) and view.isfinite().all()
        for name, view in zip(names, drawn, strict=False)
    )
    types = {str(view.dtype).removeprefix("torch.") for view in drawn}
    report = f"with count {built.count}, it gave {len(drawn)} views of {shapes}, {types}"
    square = all(size is None or shape[-2:] == (size, size) for (_, size), shape in shapes)
    one_shape = len(shapes) == len(set(kinds)) and square
    require(len(drawn) == len(names) == built.count >= 1 and one_shape and finite, report)
    for i, (function, view) in enumerate(zip(functions or [], drawn, strict=False)):
        alone = tuple(function(sample).shape), tuple(view.shape)
        require(alone[0] == alone[1], f"transforms[{i}] gives {alone[0]}, and a call {alone[1]}")
    size, sizes = getattr(built, "size", None), trait(built, "sizes")
    first = not sizes or not isinstance(size, int) or sizes[0] == size
    require(first, f"its size is {size}, and the first of its sizes {list(sizes)}")


def check_is_drawn_from_the_generators(subject: Subject) -> None:
    """Equal seeds of Python's, numpy's and torch's global generators must give equal views.

    The transform must not seed them itself: then every epoch has the same views.
    """
    built, sample = subject.build(), samples(subject)[0][0]
    require_same_draws(lambda: built(sample), seeds=(7, 7))
    require_no_seeding(lambda: built(sample))


def check_is_built_without_random_numbers(subject: Subject) -> None:
    """Whatever the generators' state when a transform is built, it must draw the same views afterwards.

    Draw random numbers in each call.  A number that the constructor draws is the same for all images, and
    differs between processes.
    """
    (sample, *_), batch = samples(subject)
    both = []
    for drawn in (0, 1):
        built = subject.build(drawn=drawn)
        ways = _ways(built, sample, batch[0]).values()
        with seeded():
            both.append([built.plain(batch[0]), *(draw((7,)) for draw in ways)])
    require_identical(both[1], both[0], "built under the seeds (0, 1)")


SEEDS = range(8)
"""Seeds of views to compare.  Two views that only flip are equal under all of them once in 256."""

MANY_SEEDS = range(64)
"""More seeds.  A view that changes one image of ten changes under none of them once in 800."""


LARGE_SEED = 2**62
"""Seeds of training are below 2^63: as floating-point numbers, or in 32 bits, many become equal."""

Draw: TypeAlias = Callable[[Sequence[int]], list[Tensor]]
"""A function of seeds that draws the views of a sample under each seed: for each view, (seeds, ...)."""


def _ways(built: Any, sample: Any, image: Any) -> dict[str, Draw]:
    """The ways to draw the views of a sample, by name; whole batches are copies of ``image``."""

    def called(seeds: Sequence[int]) -> list[Tensor]:
        return [torch.stack(view) for view in zip(*map(_call, seeds), strict=True)]

    def _call(seed: int) -> Sequence[Tensor]:
        with seeded(seed):
            return built(sample)  # type: ignore[no-any-return]

    def apart(seeds: Sequence[int]) -> list[Tensor]:
        return [
            torch.stack([_one(function, seed, i) for seed in seeds])
            for i, function in enumerate(functions)
        ]

    def _one(function: Callable[[Any], Tensor], seed: int, view: int) -> Tensor:
        with seeded(seed + 1000 * view):
            return function(sample)

    def together(seeds: Sequence[int]) -> list[Tensor]:
        images, numbers = torch.stack([image] * len(seeds)), torch.tensor([*seeds])
        with seeded():  # another law examines whether they draw from the global generators
            return [f(images, numbers + 1000 * i) for i, f in enumerate(of_batches)]

    ways: dict[str, Draw] = {"a call": called}
    if functions := trait(built, "transforms") or []:
        ways["transforms"] = apart
    if of_batches := trait(built, "batch_transforms") or []:
        ways["batch_transforms"] = together
    return ways


def _kinds(built: Any) -> list[tuple[str, Any]]:
    """The modality and the size of each view."""
    names = modality_of_each(built)
    return [*zip(names, trait(built, "sizes") or [None] * len(names), strict=True)]


def check_views_of_an_image_are_drawn_apart(subject: Subject) -> None:
    """A random transform must give different views of one image: nothing is learned from equal views.

    Draw each random number inside the loop over the views: if a flip or a brightness is drawn once for all
    views, two views change together from seed to seed.  The law compares views of one modality and one
    size, of which neither is the same under every seed.
    """
    built, ((sample, *_), batch) = subject.build(), samples(subject)
    views = _ways(built, sample, batch[0])["a call"](SEEDS)
    moving = [i for i, view in enumerate(views) if not (view == view[0]).all()]
    kinds = _kinds(built)
    pairs = [(i, j) for i in moving for j in moving if i < j and kinds[i] == kinds[j]]
    if not pairs:
        raise SkipTest("no two of its views are random and of one modality and size")
    for i, j in pairs:
        together = torch.equal(views[i], views[j])
        require(not together, f"the views {i} and {j} are equal under {len(SEEDS)} seeds")
    if not _takes_images(built, batch):
        return
    for what, image in _telling(batch[0]).items():
        drawn = [_coarse(view) for view in _ways(built, image, image)["a call"](MANY_SEEDS)]
        for i, j in pairs:
            most = _most_correlated(drawn[i], drawn[j])
            report = f"for an image {what}, the views {i} and {j} change together from seed to seed"
            require(most < TOGETHER, f"{report}: their correlation is {most:.2f}")


TOGETHER = 0.8
"""The correlation of a number in two views that breaks the law; built-ins: up to .45, as by chance."""


def _telling(image: Tensor) -> dict[str, Tensor]:
    """An image of one color, which shows what changes colors, and one that shows what moves pixels."""
    even = torch.full_like(image, 60)
    even[:1] = 180
    height, width = image.shape[-2:]
    band = (torch.arange(height)[:, None] * 3 // height == 1).expand(height, width)
    shapes = (torch.arange(width) * 250 // width).to(image.dtype).expand(image.shape).clone()
    shapes[0] = 220 * band + 20
    return {"of one color": even, "of a band and a slope": shapes}


def _coarse(views: Tensor) -> Tensor:
    """What a seed may change in views (seeds, channels, height, width), as numbers (seeds, k)."""
    views = views.double()
    cells = functional.adaptive_avg_pool2d(views, 4).flatten(2)  # (seeds, channels, 16)
    numbers = [cells]
    for over in (2, (1, 2)):  # relative to the other parts of a channel, and of all channels
        deviation = views.flatten(2).std(over, keepdim=True).clamp_min(1e-9)
        numbers.append((cells - cells.mean(over, keepdim=True)) / deviation)
    return torch.cat(numbers, 2).flatten(1)


def _most_correlated(first: Tensor, second: Tensor) -> float:
    """The largest correlation, over seeds, of one number of two views; 0 if all change rarely."""
    often = [
        (each - each.median(0).values).abs() > 1e-3 * each.abs().amax(0).clamp_min(1e-6)
        for each in (first, second)
    ]
    both = torch.stack([each.sum(0) for each in often]).amin(0) >= len(first) // 6
    a, b = (each - each.mean(0) for each in (first, second))
    found = (a * b).sum(0) / (a.norm(dim=0) * b.norm(dim=0)).clamp_min(1e-12)
    return float(found[both].max()) if both.any() else 0.0


def check_every_view_is_drawn(subject: Subject) -> None:
    """If one view of an image is random, no other may equal ``plain(image)`` under every seed.

    A view may be weak, such as one that only flips, or a fixed part of the image.  A view that is random in
    a call must be random in ``transforms`` and ``batch_transforms``, too: if the transform has them,
    training draws by these.
    """
    built, ((sample, *_), batch) = subject.build(), samples(subject)
    plain, names = built.plain(batch[0]), modality_of_each(built)
    ways = _ways(built, sample, batch[0])
    fixed = {way: _fixed(draw) for way, draw in ways.items()}
    moving = {i for views in fixed.values() for i in range(built.count) if i not in views}
    if not moving:
        raise SkipTest("none of its views is random")
    for way, views in fixed.items():
        for i, view in views.items():
            like = [j for j in moving if names[j] == names[i]]
            bare = bool(like) and view.shape == plain.shape and torch.allclose(view, plain)
            report = f"the view {i} of {way} is the same under {len(MANY_SEEDS)} seeds"
            require(not bare, f"{report}, and equals plain(image)")
            require(i in fixed["a call"], f"{report}, and in a call it is random")


def _fixed(draw: Draw) -> dict[int, Tensor]:
    """The views that are the same under many seeds, by their places."""
    fixed: dict[int, Tensor] = {}
    for seeds in (SEEDS, MANY_SEEDS):
        fixed = {i: view[0] for i, view in enumerate(draw(seeds)) if (view == view[0]).all()}
        if not fixed:
            break
    return fixed


def _takes_images(built: Any, batch: Any) -> bool:
    """Whether it takes images (channels, height, width) of bytes, and nothing beside them."""
    of_bytes = isinstance(batch, Tensor) and batch.dtype == torch.uint8 and batch.ndim == 4
    return of_bytes and not trait(built, "modalities") and trait(built, "source") is None


def check_views_show_their_image(subject: Subject) -> None:
    """Views of two images must differ, even if they are drawn under the same seeds."""
    built, ((sample, *_), batch) = subject.build(), samples(subject)
    if not _takes_images(built, batch):
        raise SkipTest("it takes no images of whole numbers")
    others = _ways(built, batch[1], batch[1])
    for way, draw in _ways(built, sample, batch[0]).items():
        for i, (view, other) in enumerate(zip(draw(SEEDS), others[way](SEEDS), strict=True)):
            report = f"the view {i} of {way} is the same for two images, under {len(SEEDS)} seeds"
            require(not torch.equal(view, other), report)


def check_remembers_no_image(subject: Subject) -> None:
    """A call must not depend on earlier calls: each epoch draws new views of an image.

    Nor may it recognize an image by ``id()``, since the next image may take the same memory, or by a part
    of the image.
    """
    built, ((sample, *others), batch) = subject.build(), samples(subject)
    for seed in range(min(2, len(others))):
        with seeded(seed):
            expected = subject.build()(sample)
        with seeded(seed):
            require_identical(built(sample), expected, f"in a later call, under the seed {seed}")
        with seeded(seed):
            built(others[seed])
        with seeded(seed):
            where = f"after another sample, under the seed {seed}"
            require_identical(built(sample), expected, where)
    with seeded():
        require_identical(
            built.plain(batch[1]), subject.build().plain(batch[1]), "plain, of another sample later"
        )
    if not isinstance(batch, Tensor):
        return
    if _takes_images(built, batch):
        like = batch[0].clone()  # with the same sum, corners and borders
        like[:, 8:24] = like[:, 8:24].flip(1)
        expected = subject.build().plain(like)
        built.plain(batch[0])
        where = "plain, of an image whose rows in the middle are in another order"
        require_identical(built.plain(like), expected, where)
    memory = batch[0].clone()
    built.plain(memory)
    memory.copy_(batch[1])
    require_identical(
        built.plain(memory), built.plain(batch[1]), "plain, in the memory of another image"
    )


def check_is_the_same_in_another_process(subject: Subject) -> None:
    """What a transform makes of a text must be the same in every process, and in a later session.

    ``hash()`` of a string and the order of a set of strings differ between processes.
    """
    given = samples(subject)[0]
    parts = given[0].values() if isinstance(given[0], Mapping) else given[:1]
    if not any(isinstance(part, str) for part in parts):
        raise SkipTest("it reads no text")
    require_same_in_another_process(_read_alike, subject.choice, given)


def _read_alike(choice: engine.Choice, given: Sequence[Any]) -> list[Tensor]:
    built = choice.build({})
    with seeded():
        return [view for sample in given for view in built(sample)]


def check_leaves_the_image_as_it_is(subject: Subject) -> None:
    """A transform must not change its image: a data set in memory returns its own pixels."""
    built, ((sample, *_), batch) = subject.build(), samples(subject)
    with require_unchanged(lambda: [*_tensors(sample), *_tensors(batch)]):
        built(sample)
        built.plain(batch[0])
    if _takes_images(built, batch) and len(batch[0]) == 3:
        picture = Image.fromarray(batch[0].permute(1, 2, 0).numpy())
        before = picture.tobytes()
        for read in (built, built.plain):
            with contextlib.suppress(Exception):  # it takes no PIL image
                read(picture)
        require(picture.tobytes() == before, "it drew on a PIL image")


def check_plain_takes_a_batch(subject: Subject) -> None:
    """``plain(images)`` of a batch must be ``plain(image)`` of each, stacked: features are computed so.

    The last batch of a split may be of one image.
    """
    built, batch = subject.build(), _of_all_brightness(samples(subject)[1])
    require_equal(built.plain(batch), torch.stack([built.plain(image) for image in batch]))
    require_equal(built.plain(batch[:1]), built.plain(batch[0])[None], "a batch of one")


def _of_all_brightness(batch: Any) -> Any:
    """A batch whose images of bytes are each darker than the one before."""
    if not isinstance(batch, Tensor) or batch.dtype != torch.uint8:
        return batch
    divisor = torch.arange(1, len(batch) + 1, dtype=torch.uint8)
    return batch // divisor.reshape(-1, *[1] * (batch.ndim - 1))


def check_plain_is_not_augmented(subject: Subject) -> None:
    """``plain(image)`` must not be random, and has shape and type of a view: one backbone reads both.

    For an image of another height and width, ``plain`` must have this shape, too, if the views have it.
    """
    built, ((sample, *_), batch) = subject.build(), samples(subject)
    require_same_draws(lambda: built.plain(batch[0]))
    view = built(sample)[0]
    shape, types = tuple(view.shape), (built.plain(batch[0]).dtype, view.dtype)
    _require_shape(built, batch[0], shape)
    require(types[0] == types[1], f"plain is of {types[0]}, and a view of {types[1]}")
    if _takes_images(built, batch):
        wide = functional.interpolate(batch[:1], size=(44, 60))[0]
        try:
            resized = tuple(built(wide)[0].shape) == shape
        except Exception:  # it takes images of one size
            return
        if resized:
            _require_shape(built, wide, shape)


def _require_shape(built: Any, image: Any, shape: tuple[int, ...]) -> None:
    plain = tuple(built.plain(image).shape)
    of = f"of an image {tuple(image.shape)} " if isinstance(image, Tensor) else ""
    require(plain == shape, f"{of}plain is {plain}, and a view {shape}")


def check_a_pil_image_is_as_its_pixels(subject: Subject) -> None:
    """``plain`` must give the same for a PIL image and for its pixels: features are computed of either.

    The law compares the channels of an image of one color, and the quarters of another image, which show
    whether it is turned.
    """
    built, image = subject.build(), _image_of_channels(subject, (200, 100, 50))
    halves = image.clone()
    halves[0, : image.shape[1] // 2] = 20
    halves[1, :, : image.shape[2] // 2] = 220
    for pixels, compared in ((image, None), (halves, 2)):
        picture = Image.fromarray(pixels.permute(1, 2, 0).numpy())
        try:
            plain = built.plain(picture)
        except Exception as error:
            raise SkipTest(f"it takes no PIL image: {error}") from error
        like = built.plain(pixels)
        apart = 0.05 * float((like - built.plain(255 - pixels)).abs().max())
        if compared:
            plain, like = (functional.adaptive_avg_pool2d(each, compared) for each in (plain, like))
        require_equal(plain, like, rtol=0, atol=apart)


DRAWS = range(24)
"""Seeds of views to compare with plain.  At most one of 24 random quarter turns is upright once in 110."""

FAR = 0.5
"""How far plain may lie outside the views, relative to the distance of black and white; built-ins: 0."""


def _image_of_channels(subject: Subject, levels: Sequence[int]) -> Tensor:
    """An image of one color, (channels, height, width), for transforms of so many channels."""
    built, batch = subject.build(), samples(subject)[1]
    if not _takes_images(built, batch) or len(batch[0]) != len(levels):
        raise SkipTest("it takes no images of three channels of whole numbers")
    return torch.tensor(levels, dtype=torch.uint8)[:, None, None].expand(batch[0].shape).clone()


def _drawn_of(built: Any, image: Tensor) -> list[tuple[str, Tensor]]:
    """The views of an image, (draws, channels, height, width) each, named by their place."""
    return [
        (f"the view {i} of {way}", views)
        for way, draw in _ways(built, image, image).items()
        for i, views in enumerate(draw(DRAWS))
    ]


def check_plain_has_the_scale_of_views(subject: Subject) -> None:
    """``plain(image)`` must scale pixels as views do: a backbone that learned on views is measured on it.

    For a black image, and for a white one, the value in ``plain`` must lie within the values in views, or
    near them.  A twentieth of the views' pixels at either end does not count.
    """
    built, batch = subject.build(), samples(subject)[1]
    if not _takes_images(built, batch):
        raise SkipTest("it takes no images of whole numbers")
    ends = [torch.full_like(batch[0], level) for level in (0, 255)]
    plain = torch.stack([built.plain(each).flatten(1).mean(1) for each in ends])  # (2, channels)
    apart = (plain[1] - plain[0]).abs()
    require(bool(plain.isfinite().all()), "plain of an image of one color is not finite")
    if float(apart.min()) < 1e-4:
        raise SkipTest("it gives images of one color alike, whatever their brightness")
    for (where, dark), (_, light) in zip(*(_drawn_of(built, each) for each in ends), strict=True):
        both = torch.stack([_within(dark), _within(light)])  # (2 images, 2 ends, channels)
        spread = both.amax((0, 1)) - both.amin((0, 1))
        seen = torch.stack([dark, light])
        lost = float(seen.max() - seen.min()) < 1e-4 * float(apart.min())
        require(
            not lost, f"black and white are {_listed(plain.mean(1))} in plain, and equal in {where}"
        )
        if float(spread.min()) < 1e-6:
            continue  # nearly all is masked
        off = torch.maximum(both[:, 0] - plain, plain - both[:, 1]).clamp_min(0)
        report = (
            f"black and white are {_listed(plain.mean(1))} in plain, and {_listed(both[0].mean(1))} and"
            f" {_listed(both[1].mean(1))} in {where}"
        )
        require(bool((off <= FAR * torch.minimum(apart, spread)).all()), report)


def _within(views: Tensor) -> Tensor:
    """(2, channels) ends between which the values of views lie, without a twentieth at either end."""
    values = views.float().transpose(0, 1).flatten(1)  # (channels, pixels)
    values = values[:, :: max(1, values.shape[1] // 10_000)]
    return torch.quantile(values, torch.tensor([0.05, 0.95]), 1)


def check_plain_shows_the_image_as_views_do(subject: Subject) -> None:
    """``plain(image)`` must have the channels in the order of the views, and stand upright as they do.

    A red image, and one with a white upper half, are compared.  The law is broken if at most one view of 24
    shows the right color, or the right half: views of random colors or turns show it more often.
    """
    built, red = subject.build(), _image_of_channels(subject, (255, 0, 0))
    upper = torch.zeros_like(red)
    upper[:, : upper.shape[1] // 2] = 255
    for image, read, what in ((red, _colors, "red"), (upper, _halves, "with a white upper half")):
        plain = read(built.plain(image)[None])
        if float(plain.norm()) == 0:
            continue
        for where, views in _drawn_of(built, image):
            seen = read(views)  # (draws, numbers)
            visible = seen.norm(dim=1) > 0.1 * plain.norm()
            agree = torch.cosine_similarity(seen, plain) > 0.1
            clear = int(visible.sum()) < len(DRAWS) // 2 or int((agree & visible).sum()) > 1
            numbers = _listed(seen[visible].mean(0)), _listed(plain[0])
            require(clear, f"an image {what} is {numbers[0]} in {where}, and {numbers[1]} in plain")


def _colors(views: Tensor) -> Tensor:
    """By how much the mean of each channel is above that of all, (n, channels)."""
    means = views.flatten(2).mean(2)
    return means - means.mean(1, keepdim=True)


def _halves(views: Tensor) -> Tensor:
    """By how much the upper half is lighter than the lower, and the left than the right, (n, 2)."""
    means = functional.adaptive_avg_pool2d(views, 2).mean(1)  # (n, 2, 2)
    return torch.stack([means[:, 0] - means[:, 1], means[:, :, 0] - means[:, :, 1]], 1).mean(2)


def _listed(values: Tensor) -> str:
    return ", ".join(f"{value:.2g}" for value in values.tolist())


def check_views_of_a_batch_are_drawn_row_by_row(subject: Subject) -> None:
    """A row of ``batch_transforms`` must depend on its image and seed alone: runs resume, ranks share."""
    built, batch = subject.build(), _of_all_brightness(samples(subject)[1])
    functions = trait(built, "batch_transforms") or []
    report = f"with count {built.count}, it has {len(functions)}"
    require(len(functions) in (0, built.count), report)
    seeds = torch.arange(len(batch)) + 7
    sizes = trait(built, "sizes") or [None] * len(functions)
    for function, size in zip(functions, sizes, strict=False):
        with require_unchanged(lambda: [batch, seeds]):
            together = function(batch, seeds)
        require_same_draws(partial(function, batch, seeds))
        like = tuple(built.plain(batch[0]).shape)
        shapes = tuple(together.shape[1:]), like if size is None else (*like[:-2], size, size)
        require(shapes[0] == shapes[1], f"a view is {shapes[0]}, and must be {shapes[1]}")
        types = together.dtype, built.plain(batch[0]).dtype
        require(types[0] == types[1], f"a view is of {types[0]}, and plain(image) of {types[1]}")
        alone = [function(batch[i : i + 1], seeds[i : i + 1]) for i in range(len(batch))]
        require_equal(torch.cat(alone), together, "each row alone", rtol=1e-4, atol=1e-5)
        one = batch[:1].expand(len(SEEDS), *batch.shape[1:]).contiguous()
        few, large = (function(one, torch.tensor([*SEEDS]) + start) for start in (0, LARGE_SEED))
        random = not (few == few[0]).all()
        report = (
            f"views of one image are all equal under seeds from {LARGE_SEED} on, and not from 0 on"
        )
        require(not random or not bool((large == large[0]).all()), report)


def check_views_of_a_batch_are_drawn_on_its_device(subject: Subject) -> None:
    """``batch_transforms`` must draw where the images are: make constants there, too.

    This runs on the device ``meta``, where a constant made on the CPU is an error.
    """
    built, batch = subject.build(), samples(subject)[1]
    functions = trait(built, "batch_transforms")
    if not functions:
        raise SkipTest("it draws no views of whole batches")
    for function in functions:
        with on_meta():
            views = function(batch.to("meta"), torch.arange(len(batch), device="meta"))
        require(views.device.type == "meta", f"views are on the device {views.device}")


def check_refuses_values_that_it_cannot_take(subject: Subject) -> None:
    """Values of a column that ``check_values`` accepts must give finite views.

    The values are 0, a number below 0, a large number and a missing one, or an empty text and a long one.
    ``check_values`` may refuse each by a ValueError, and must warn where the end of a text is lost.
    """
    built, (_, batch) = subject.build(), samples(subject)
    if trait(built, "source") is None or isinstance(batch, Tensor) or not len(batch):
        raise SkipTest("it reads no column")
    check_values = trait(built, "check_values")
    with warnings_ignored():
        check_values([*batch] if isinstance(batch[0], str) else torch.as_tensor(batch))
    for what, value in _unusual(batch[0], trait(built, "value_types") or ()):
        column = [*batch, value]
        try:
            with warnings_ignored():
                check_values(column if isinstance(value, str) else torch.as_tensor(column))
                views = [*built(value), built.plain(value)]
        except ValueError:
            continue
        finite = all(bool(torch.as_tensor(view).isfinite().all()) for view in views)
        require(finite, f"check_values takes {what}, {value!r:.60}, and views of it are not finite")
    if not isinstance(batch[0], str) or not hasattr(built, "check_values"):
        return
    ends = ["a word " * 500 + end for end in ("one", "another")]
    if torch.equal(*map(built.plain, ends)):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            check_values(ends)
        require(
            bool(heard), "it loses the end of texts of 1,000 words, and check_values does not warn"
        )


def _unusual(like: Any, value_types: Sequence[str]) -> list[tuple[str, Any]]:
    """Unusual values of a column, each after its description."""
    if isinstance(like, str):
        return [("an empty text", ""), ("a long text", "a word " * 500)]
    if "continuous" not in value_types:
        return []
    numbers = {"0": 0.0, "a negative number": -3.0, "a large number": 1e6, "NaN": math.nan}
    shaped = torch.as_tensor(like, dtype=torch.float32)
    return [(what, torch.full_like(shaped, value).tolist()) for what, value in numbers.items()]


def check_fingerprint_follows_the_files_that_it_reads(subject: Subject) -> None:
    """If other contents of a file change the views, they must change ``fingerprint()`` too."""
    batch, changed = samples(subject)[1], False
    for path in subject.files:
        before, built = path.read_bytes(), subject.build()
        expected, name = built.plain(batch), trait(built, "fingerprint")()
        lines = before.splitlines(keepends=True)
        try:
            for other in (lines[:-1], lines[1:], lines[::-1]):
                path.write_bytes(b"".join(other))
                try:
                    built = subject.build()
                    views = built.plain(batch)
                except Exception:  # it cannot read such a file
                    continue
                if views.shape == expected.shape and torch.equal(views, expected):
                    continue
                changed, again = True, trait(built, "fingerprint")()
                report = f"with other contents of {path.name} plain is another, and fingerprint() {again!r}"
                require(again is not None and again != name, report)
        finally:
            path.write_bytes(before)
    if not changed:
        raise SkipTest("its EXAMPLE writes no file whose lines change its views")
