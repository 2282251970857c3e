"""The laws of data sets."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.metadata.variable import Variable, check_values
from ccl_plugins.protocols import ValueType, trait
from ccl_plugins.testing.assertions import letters, require, require_equal, require_same_draws
from ccl_plugins.testing.subject import Subject

SPLITS = ("train", "test")


def observe(subject: Subject, dataset: Any) -> Any:
    """The first and last item of each split, and its metadata."""
    return {name: _contents(dataset(name)) for name in SPLITS}


def _contents(split: Any) -> Any:
    ends = [split[i] for i in (0, len(split) - 1)]
    columns = {**split.metadata, **getattr(split, "texts", {})}
    held = {
        name: letters("\0".join(map(str, values))) if _are_words(values) else values
        for name, values in columns.items()
    }
    return [(_pixels(image), target) for image, target in ends], held


def _are_words(column: Any) -> bool:
    return not isinstance(column, Tensor) and any(isinstance(each, str) for each in column)


def _pixels(image: Any) -> Any:
    """An image of any type as data to compare."""
    return image if isinstance(image, Tensor) else torch.from_numpy(np.array(image))


def check_gives_images_and_targets(subject: Subject) -> None:
    """A split must be a torch Dataset with a length and items ``(image, target)``; targets are labels."""
    dataset = subject.build()
    for name in SPLITS:
        split = dataset(name)
        _, target = split[len(split) - 1]
        label = split.metadata["label"][len(split) - 1]
        require(int(target) == int(label), f"the last target is {target}, its label {label}")


def check_metadata_has_a_row_per_sample(subject: Subject) -> None:
    """Every metadata column must have one row per sample, and one column must be ``label``."""
    dataset = subject.build()
    for name in SPLITS:
        split = dataset(name)
        rows = {column: len(values) for column, values in split.metadata.items()}
        report = f"the split {name!r} has {len(split)} samples and rows {rows}"
        require("label" in rows and set(rows.values()) == {len(split)}, report)


def check_schema_says_what_metadata_holds(subject: Subject) -> None:
    """``schema()`` must name every metadata column with its value type, before a split is read."""
    dataset = subject.build()
    schema = dict(dataset.schema())
    legal = get_args(ValueType)
    require({*schema.values()} <= {*legal}, f"{schema} has other value types than {legal}")
    for name in SPLITS:
        split = dataset(name)
        report = f"schema() has {sorted(schema)}, metadata {sorted(split.metadata)}"
        require({*schema} == {*split.metadata}, report)
        for column, value_type in schema.items():
            values = split.metadata[column]
            report = f"column {column!r} holds words: give class ids, and the words in vocabulary"
            require(not _are_words(values), report)
            if isinstance(values, Tensor):  # and values may be missing
                if not Variable(values, value_type).missing.all():  # as the labels of loose images
                    check_values(column, values, value_type, len(split), missing="drop")
                whole = not values.is_floating_point()
                report = f"column {column!r} is {value_type} and holds {values.dtype}"
                require(whole or value_type != "categorical", report)


def check_texts_are_a_string_per_sample(subject: Subject) -> None:
    """A split's ``texts`` must have the columns that ``texts()`` names, each with a string per sample.

    A data set without texts needs neither.
    """
    dataset = subject.build()
    texts_of = trait(dataset, "texts")
    names = {*texts_of()} if texts_of else set()
    for name in SPLITS:
        split = dataset(name)
        texts = getattr(split, "texts", {})
        report = (
            f"the data set's texts() has {sorted(names)}, the split {name!r} has {sorted(texts)}"
        )
        require({*texts} == names, report)
        for column, values in texts.items():
            strings = [isinstance(value, str) and bool(value.strip()) for value in values]
            report = f"the split {name!r} has {len(split)} samples and {sum(strings)} texts in {column!r}"
            require(all(strings) and len(values) == len(split), report)
            require(column not in split.metadata, f"column {column!r} is metadata, too")


def check_splits_are_always_the_same(subject: Subject) -> None:
    """A split must be the same in every process: seed a generator of your own, not the global ones."""
    built = iter([subject.build(), subject.build()])
    require_same_draws(lambda: observe(subject, next(built)))


def check_an_item_is_always_the_same(subject: Subject) -> None:
    """``split[i]`` must not be random: augmentation belongs to views."""
    split = subject.build()("train")
    require_same_draws(lambda: _pixels(split[0][0]))


def check_the_test_split_is_another(subject: Subject) -> None:
    """Of the first 64 test images, most must not be the first or, from its end, the last of training."""
    train, test = map(subject.build(), SPLITS)
    count = min(64, len(train), len(test))
    images = [_pixels(test[i][0]) for i in range(count)]
    for place, rows in (("first", range(count)), ("last", range(-1, -1 - count, -1))):
        same = sum(
            torch.equal(image, _pixels(train[i % len(train)][0]))
            for image, i in zip(images, rows, strict=True)
        )
        report = f"{same} of the first {count} test images are the {place} training images"
        require(2 * same <= count, report)


def check_refuses_other_splits(subject: Subject) -> None:
    """A split other than ``"train"`` and ``"test"`` must be a ValueError."""
    try:
        subject.build()("no such split")
    except ValueError:
        return
    raise AssertionError('it accepted "no such split"')


def check_a_split_pickles(subject: Subject) -> None:
    """A pickled split must be an equal one: hold no lambdas or open files.

    Processes that load data receive such copies.
    """
    split = subject.build()("train")
    stored = pickle.dumps(split)
    require_equal(_contents(pickle.loads(stored)), _contents(split))
