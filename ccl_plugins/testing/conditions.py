"""The laws of conditions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_args
from unittest import SkipTest, mock

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook

import ccl_registry as engine
from ccl_plugins.metadata.fitted import Embeddings, one_of_each, variables
from ccl_plugins.metadata.variable import Variable, check_values
from ccl_plugins.protocols import Embedded, Refresh, Table, trait
from ccl_plugins.testing.assertions import (
    on_meta,
    require,
    require_equal,
    require_identical,
    require_no_seeding,
    require_same_in_another_process,
    require_same_in_any_order_of_files,
    require_unchanged,
    what_it_opens,
)
from ccl_plugins.testing.inputs import (
    SAMPLES,
    ExampleDataset,
    Split,
    normal,
    seeded,
    supplied_for,
)
from ccl_plugins.testing.subject import Subject

VIEWS, BATCH_SIZE = 2, 8

CACHE = "ccl-check-cache-"
"""The beginning of the name of a cache that the kit makes."""

MANY = 136
"""The number of samples, more than one batch of most loaders with which conditions read images."""


def observe(subject: Subject, condition: Any) -> Any:
    """Its values."""
    if condition.refresh == "batch":
        return values_of(condition)
    return {key: (table.values, dict(table.extras)) for key, table in fit(condition).items()}


def fit(
    condition: Any,
    order: Tensor | None = None,
    previous: Mapping[str, Table] | None = None,
    embed: Callable[[], Tensor] | None = None,
    split: Split | None = None,
) -> dict[str, Table]:
    """The table of each variable of a condition, for the example split in its order or in another."""
    with seeded(), _own_cache():
        return _fit(condition, split or Split(order), previous, embed)


@contextmanager
def _own_cache() -> Iterator[None]:
    """Inside, an empty folder for what conditions keep on the disk, or that of a block around this."""
    if CACHE in os.environ.get("CCL_CACHE", ""):
        yield
        return
    with (
        tempfile.TemporaryDirectory(prefix=CACHE) as cache,
        mock.patch.dict(os.environ, CCL_CACHE=cache),
    ):
        yield


def _fit(
    condition: Any,
    split: Split,
    previous: Mapping[str, Table] | None = None,
    embed: Callable[[], Tensor] | None = None,
) -> dict[str, Table]:
    """As `fit`, with the generators and the cache as they are."""
    before: Any = previous[""] if previous and "" in previous else previous
    with torch.no_grad():
        fitted = condition.fit(split, Embeddings(embed or split.embed), before)
    by_variable = _by_variable(condition, fitted)
    return {k: each if isinstance(each, Table) else Table(each) for k, each in by_variable.items()}


def _of_others(condition: Any, split: Split) -> dict[str, Tensor]:
    """The values for other samples; none if it refuses them, as one that reads a row for each may."""
    try:
        return {key: table.values for key, table in fit(condition, split=split).items()}
    except Exception:  # whatever a library raises there
        return {}


def _parts(condition: Any) -> dict[str, Any]:
    """The variables of a condition by name; a condition of one variable by ""."""
    if not isinstance(condition.value_type, Mapping):
        return {"": condition}
    return {each.key: each for each in variables({"condition": condition}).values()}


def _by_variable(condition: Any, computed: Any) -> dict[str, Any]:
    parts = _parts(condition)
    return dict(zip(parts, one_of_each([*parts.values()], computed), strict=True))


def embedded(
    order: Tensor | None = None, views: int = VIEWS, size: int = BATCH_SIZE, seed: int = 0
) -> Embedded:
    """A batch with gradient, by default of two views of 8 samples, in their order or in another."""
    parts = [normal(views, size, width, seed=seed + width) for width in (12, 6, 6)]
    features, x, y = [(x if order is None else x[:, order]).requires_grad_() for x in parts]
    return Embedded(features, normalize(x, dim=-1), normalize(y, dim=-1))


def of_batch(condition: Any, batch: Embedded) -> dict[str, Tensor]:
    """The values of each variable for a batch."""
    return _by_variable(condition, condition(batch))


def values_of(condition: Any, order: Tensor | None = None) -> dict[str, Tensor]:
    """The values of each variable for the example samples, in their order or in another."""
    if condition.refresh == "batch":
        return of_batch(condition, embedded(order))
    return {key: table.values for key, table in fit(condition, order).items()}


def _build_fitted(subject: Subject) -> Any:
    """The condition, if it has a table; else the law is skipped."""
    condition = subject.build()
    if condition.refresh == "batch":
        raise SkipTest("it is computed from a batch")
    return condition


def _build_of_batches(subject: Subject) -> Any:
    """The condition, if it is computed in every step; else the law is skipped."""
    condition = subject.build()
    if condition.refresh != "batch":
        raise SkipTest("it is fitted on the whole split")
    return condition


def check_declares_refresh_and_value_type(subject: Subject) -> None:
    """``refresh`` and ``value_type`` must be legal, and the method for this ``refresh`` must exist.

    That is ``fit(split, embed, previous)`` with "never" and "epoch", ``__call__(embedded)`` with "batch".
    A condition of several variables has a mapping of names as ``value_type``.
    """
    condition = subject.build()
    refresh = condition.refresh
    require(
        refresh in get_args(Refresh), f"refresh is {refresh!r}, and must be {get_args(Refresh)}"
    )
    try:
        variables({"condition": condition})
    except ValueError as error:
        raise AssertionError(str(error)) from error
    member = "__call__" if condition.refresh == "batch" else "fit"
    report = f"its refresh is {condition.refresh!r}, and it has no {member}"
    require(hasattr(condition, member), report)


def check_constructor_reads_nothing(subject: Subject) -> None:
    """The constructor must open no file or connection: pipelines are checked before files are read."""
    subject.build()  # late imports happen here
    opened = what_it_opens(subject.build)
    require(not opened, f"it caused {opened}: read in fit")


def check_values_have_its_value_type(subject: Subject) -> None:
    """Values must have one row per sample, and be class ids, 0 and 1, or finite numbers as declared.

    The values of a batch of u views of n samples must be (n,), (n, c) or (u, n, c), whatever u and n are;
    those of a condition with ``hierarchy = True`` (N, L), and no other's class ids.  A condition of
    several variables must return a mapping of the names in ``value_type``.
    """
    condition = subject.build()
    for key, values in values_of(condition).items():
        variable, size = _parts(condition)[key], SAMPLES
        if condition.refresh == "batch":
            size = BATCH_SIZE
            _require_batch_shape(values, VIEWS, size)
        missing = trait(variable, "missing")
        place = f"{subject}/{key}" if key else str(subject)
        for of_view in values if values.ndim == 3 and condition.refresh == "batch" else [values]:
            check_values(place, of_view, variable.value_type, len(of_view), missing)
            require(len(of_view) == size, f"{size} samples gave {len(of_view)} rows")
        levels = values.ndim > 1 or not trait(variable, "hierarchy")
        require(levels, f"hierarchy is True, and the values are {tuple(values.shape)}")
        several = values.ndim == 2 and values.shape[1] > 1
        require(
            not several or variable.value_type != "categorical" or trait(variable, "hierarchy"),
            f"each sample has several class ids, {tuple(values.shape)}, and hierarchy is not True",
        )
    if condition.refresh == "batch":
        for values in of_batch(condition, embedded(size=5)).values():
            _require_batch_shape(values, VIEWS, 5)
        for values in _of_three_views(condition).values():
            _require_batch_shape(values, 3, BATCH_SIZE)
        return
    fewer = Split(torch.arange(SAMPLES - 1))
    for values in _of_others(condition, fewer).values():
        require(len(values) == len(fewer), f"{len(fewer)} samples gave {len(values)} rows")


def _of_three_views(condition: Any) -> dict[str, Tensor]:
    """The values for three views; none if it refuses them."""
    try:
        return of_batch(condition, embedded(views=3))
    except Exception:  # whatever torch raises there
        return {}


def _require_batch_shape(values: Tensor, views: int, size: int) -> None:
    shapes = ((size,), (size, *values.shape[1:2]), (views, size, *values.shape[2:3]))
    report = f"for u = {views} and n = {size} they are {tuple(values.shape)}"
    require(tuple(values.shape) in shapes, report)


def check_is_deterministic(subject: Subject) -> None:
    """Equal samples and equal seeds must give equal values, whatever was computed or cached before."""
    first, second = subject.build(), subject.build()
    observed = subject.observe(first)
    require_equal(subject.observe(first), observed, "computed twice")
    require_equal(subject.observe(second), observed, "built twice")
    with _own_cache():
        if first.refresh == "batch":
            of_batch(first, embedded(seed=1))
        else:
            _of_others(first, Split(torch.arange(SAMPLES, 2 * SAMPLES), 2 * SAMPLES))
        require_equal(subject.observe(first), observed, "after other samples")


def check_is_the_same_in_another_process(subject: Subject) -> None:
    """Values must be the same in every process, for resumed runs and for objects that share the data.

    ``hash()`` of a string and the order of a set of strings are others in each process.
    """
    supplied = supplied_for(subject.choice, subject.condition_values)
    require_same_in_another_process(_computed, subject.choice, supplied)


def _computed(choice: engine.Choice, supplied: dict[str, Any]) -> dict[str, Tensor]:
    with seeded():
        condition = choice.build(supplied)
        if condition.refresh == "batch":
            return {key: values.detach() for key, values in values_of(condition).items()}
        # Three words are in the same order in two processes by chance.
        split = Split()
        split.vocabulary = {"word": [f"word{row:02}" for row in range(SAMPLES)]}
        split.metadata["word"] = split.metadata["height"].argsort()
        split.texts = {"caption": [f"word{i:02} is shown" for i in split.metadata["word"]]}
        return _of_others(condition, split) or values_of(condition)


def check_the_order_of_files_does_not_matter(subject: Subject) -> None:
    """Values must not depend on the order in which a folder lists its files, which no system promises.

    Sort what ``os.listdir``, ``glob`` and their like give.
    """
    require_same_in_any_order_of_files(lambda: values_of(subject.build()))


def check_seeds_no_global_generator(subject: Subject) -> None:
    """It must not seed Python's, numpy's or torch's global generator, from which others draw next.

    To draw the same numbers each time, seed a generator of its own.
    """

    def compute() -> None:
        condition = subject.choice.build(supplied_for(subject.choice, subject.condition_values))
        if condition.refresh == "batch":
            condition(embedded())
        else:
            with _own_cache():
                _fit(condition, Split())

    require_no_seeding(compute)


def check_rows_belong_to_samples(subject: Subject) -> None:
    """Samples in another order must give rows in that order; the numbers of class ids may change."""
    condition = subject.build()
    size = BATCH_SIZE if condition.refresh == "batch" else SAMPLES
    # No reverse order, in which blocks of positions, and every third one, stay together.
    order = torch.randperm(size, generator=torch.Generator().manual_seed(41))
    _require_same_rows(condition, values_of(condition, order), values_of(condition), order)


def _require_same_rows(
    condition: Any, moved: Mapping[str, Tensor], given: Mapping[str, Tensor], order: Tensor
) -> None:
    """Require the values of samples in an order to be those given, in that order."""
    for key, values in given.items():
        rows, expected = moved[key], values[:, order] if values.ndim == 3 else values[order]
        if _parts(condition)[key].value_type == "categorical":
            rows, expected = _same_class(rows), _same_class(expected)
        require_equal(rows, expected, key, rtol=1e-4, atol=1e-5)


def _same_class(ids: Tensor) -> Tensor:
    """Which samples share a class: (N, N), for a hierarchy (N, N, L), per view (u, N, N, L)."""
    return ids[:, :, None] == ids[:, None] if ids.ndim == 3 else ids[:, None] == ids[None]


def check_does_not_depend_on_batches_of_images(subject: Subject) -> None:
    """Numbers must not depend on which images ``fit`` reads in one batch: call ``eval()`` of a network.

    In training mode it normalizes by the batch.  One that ``fit`` trains may do so while gradients are
    enabled.
    """
    condition = _build_fitted(subject)
    training = set[str]()

    def note(module: nn.Module, _: Any) -> None:
        if isinstance(module, _BatchNorm) and module.training and not torch.is_grad_enabled():
            training.add(type(module).__name__)

    hook = register_module_forward_pre_hook(note)
    try:
        fit(condition, split=(split := _Watched()))
    finally:
        hook.remove()
    require(not training, f"{', '.join(training)} normalizes by the batch, in training mode")
    if not split.read:
        raise SkipTest("it reads no image")
    order = torch.randperm(MANY, generator=torch.Generator().manual_seed(41))
    moved, given = (_of_others(condition, Split(rows, MANY)) for rows in (order, None))
    # Not of class ids: clusters of so many images may be others in another order.
    numbers = {k: z for k, z in given.items() if _parts(condition)[k].value_type == "continuous"}
    if not numbers:
        raise SkipTest("it gives no numbers for other images")
    _require_same_rows(condition, moved, numbers, order)


def check_reads_images_of_files(subject: Subject) -> None:
    """``fit`` must read PIL images, which folders and tables of files give, as it reads tensors.

    ``to_image`` of ``torchvision.transforms.v2.functional`` makes a tensor of both.
    """
    condition = _build_fitted(subject)
    given = fit(condition, split=(split := _Watched()))
    if not split.read:
        raise SkipTest("it reads no image")
    for key, table in fit(subject.build(), split=_OfFiles()).items():
        shape, expected = tuple(table.values.shape), tuple(given[key].values.shape)
        require(shape == expected, f"of PIL images the values are {shape}, of tensors {expected}")


class _OfFiles(Split):
    """The example split with PIL images."""

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image, target = super().__getitem__(index)
        return Image.fromarray(image.permute(1, 2, 0).numpy()), target


class _Watched(Split):
    """The example split, which notes whether an image is read."""

    read = False

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.read = True
        return super().__getitem__(index)


def check_a_missing_value_stays_missing(subject: Subject) -> None:
    """A value that is missing in the metadata (NaN or -1) must be missing in the condition, or refused.

    A substitute, such as a mean or a class, would be compared like a known value.
    """
    condition = _build_fitted(subject)
    known, parts = fit(condition), _parts(condition)
    try:
        lacking = fit(condition, split=_lacking())
    except Exception as error:  # whatever a library raises there
        policies = {trait(variable, "missing") for variable in parts.values()}
        report = f"with missing = {', '.join(policies)}, it raised {type(error).__name__}: {error}"
        require(policies == {"error"}, report)
        return
    reads = False
    for key, variable in parts.items():
        before, now = known[key].values[LACKING], lacking[key].values[LACKING]
        same = torch.isclose(now.double(), before.double(), 1e-4, 1e-5, equal_nan=True)
        changed = ~same.reshape(len(same), -1).all(1)
        reads = reads or bool(changed.any())
        for row in (changed & ~Variable(now, variable.value_type).missing).nonzero().flatten():
            report = f"sample {int(LACKING[row])} has no value in any column, and is {now[row]}"
            require(False, report)
    if not reads:
        raise SkipTest("its values do not depend on the metadata")


LACKING = torch.tensor([1, 5, 8, 13, 18, 22])
"""Samples of the example, of each class, above and below 0."""


def _lacking() -> Split:
    """The example split, some of whose samples lack a value in every column."""
    split = Split()
    for name, column in split.metadata.items():
        lost = torch.nan if column.is_floating_point() else -1
        split.metadata[name] = column.index_fill(0, LACKING, lost)
    split.targets = split.metadata["label"]
    return split


def check_reads_the_training_split_alone(subject: Subject) -> None:
    """With another test split, the values must be equal: training knows nothing of what is tested."""
    _build_fitted(subject)
    values = values_of(subject.build(dataset=(other := _OtherTest())))
    if not other.read:
        raise SkipTest("it does not read the data set")
    require_identical(values, values_of(subject.build()), "with another test split")


class _OtherTest(ExampleDataset):
    """The example with another test split, which notes whether a split is read."""

    def __init__(self) -> None:
        self.read = False

    def __call__(self, split: str) -> Split:
        self.read = True
        if split != "test":
            return super().__call__(split)
        samples = Split(torch.arange(SAMPLES, SAMPLES + 17), 2 * SAMPLES)
        samples.images //= 2
        samples.texts = {"caption": [f"an ant, number {row}" for row in samples.rows]}
        for name in ("color", "height"):
            samples.metadata[name] = 3 * samples.metadata[name] + 1
        return samples


def check_values_of_batches_can_be_compared(subject: Subject) -> None:
    """A sample's value must be the same in another batch, unless it says ``within_batch = True``.

    A queue holds values of earlier batches.
    """
    condition = _build_of_batches(subject)
    comparable = [k for k, part in _parts(condition).items() if not trait(part, "within_batch")]
    if not comparable:
        raise SkipTest("it says that values of different batches cannot be compared")
    whole, part = values_of(condition), values_of(condition, torch.arange(3))
    for key in comparable:
        rows = whole[key][:, :3] if whole[key].ndim == 3 else whole[key][:3]
        require_equal(part[key], rows, "in a batch of the first 3 samples", rtol=1e-4, atol=1e-5)


def check_is_on_the_device_of_the_batch(subject: Subject) -> None:
    """The values of a batch must be on its device: make constants there, too.

    This runs on the device ``meta``, where a constant made on the CPU is an error.
    """
    condition = _build_of_batches(subject)
    batch = embedded()
    far: dict[str, Any] = {k: x.to("meta") for k, x in vars(batch).items() if isinstance(x, Tensor)}
    with on_meta():
        values = of_batch(condition, replace(batch, **far))
    for each in values.values():
        require(each.device.type == "meta", f"they are on the device {each.device}")


def check_gives_the_column_that_it_names(subject: Subject) -> None:
    """A condition with a ``column`` must read no other: measurements of the column count as its own."""
    condition = _build_fitted(subject)
    split, known, named = Split(), fit(condition), 0
    for key, variable in _parts(condition).items():
        column = trait(variable, "column")
        if not isinstance(column, str) or column not in split.metadata:
            continue
        named += 1
        reads = {
            name: not torch.equal(fit(condition, split=_moved(name))[key].values, known[key].values)
            for name in split.metadata
        }
        others = [name for name, is_read in reads.items() if is_read]
        # A condition that reads no column of the split may read it elsewhere, such as in a file.
        require(reads[column] or not others, f"it names {column!r}, and reads {', '.join(others)}")
    if not named:
        raise SkipTest("it names no column")


def _moved(column: str) -> Split:
    """The example split, with the values of a column in another order."""
    split = Split()
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(7))
    split.metadata[column] = split.metadata[column][order]
    split.targets = split.metadata["label"]
    return split


def check_changes_nothing_that_it_is_given(subject: Subject) -> None:
    """It must leave the split and the embeddings as they are: training and evaluators read them next."""
    condition = subject.build()
    if condition.refresh == "batch":
        batch = embedded()
        given = [each for each in vars(batch).values() if isinstance(each, Tensor)]
        with require_unchanged(lambda: [each.detach() for each in given]):
            condition(batch)
        return
    split = Split()
    with require_unchanged(
        lambda: {**split.metadata, "its images": split.images, "its embeddings": split.projections}
    ):
        fit(condition, split=split)


def check_fits_again_after_itself(subject: Subject) -> None:
    """``fit`` must accept its previous table as a warm start, and must not change it."""
    condition = _build_fitted(subject)
    first = fit(condition)
    kept = {key: (table.values, dict(table.extras)) for key, table in first.items()}
    with require_unchanged(lambda: kept, where="the previous table"):
        again = fit(condition, previous=first)
    for key, table in again.items():
        shapes = tuple(kept[key][0].shape), tuple(table.values.shape)
        require(shapes[0] == shapes[1], f"the shapes are {', '.join(map(str, shapes))}")


def check_declares_that_it_reads_embeddings(subject: Subject) -> None:
    """A condition whose ``fit`` calls ``embed()`` must have ``reads_embeddings = True``.

    All processes compute the embeddings before the first one fits.
    """
    condition = _build_fitted(subject)
    if trait(condition, "reads_embeddings"):
        raise SkipTest("it declares it")
    embed = mock.Mock(side_effect=Split().embed)
    fit(condition, embed=embed)
    require(not embed.called, "it calls embed()")


def check_has_no_gradient(subject: Subject) -> None:
    """The values of a batch must carry no gradient: return ``values.detach()``."""
    for values in values_of(_build_of_batches(subject)).values():
        require(not values.requires_grad, "they require a gradient")
