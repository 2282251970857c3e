"""The laws of data sets."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import torch
from torch import Tensor

from ccl_plugins.metadata.values import check_values
from ccl_plugins.protocols import ValueType
from ccl_plugins.testing.assertions import require, require_equal, require_no_error
from ccl_plugins.testing.inputs import seeded
from ccl_plugins.testing.subject import Subject

SPLITS = ("train", "test")


def observe(subject: Subject, dataset: Any) -> Any:
    """The first and last item of each split, and its metadata."""
    return {name: _contents(dataset(name)) for name in SPLITS}


def _contents(split: Any) -> Any:
    ends = [split[i] for i in (0, len(split) - 1)]
    return [(_pixels(image), target) for image, target in ends], dict(split.metadata)


def _pixels(image: Any) -> Any:
    """An image of any type as data to compare."""
    if isinstance(image, Tensor):
        return image
    import numpy as np

    return torch.from_numpy(np.array(image))


def check_gives_images_and_targets(subject: Subject) -> None:
    """A split is a torch Dataset of ``(image, target)``, and targets are the labels."""
    dataset = subject.build()
    law = "dataset(split) must be a torch Dataset with a length, whose items are (image, target)"
    for name in SPLITS:
        with require_no_error(law):
            split = dataset(name)
            _, target = split[len(split) - 1]
            label = split.metadata["label"][len(split) - 1]
        law = "a target must be the sample's label"
        require(law, int(target) == int(label), f"{target}, {label}")


def check_metadata_has_a_row_per_sample(subject: Subject) -> None:
    """Every metadata column has one row per sample; conditions are looked up by sample index."""
    dataset = subject.build()
    for name in SPLITS:
        split = dataset(name)
        rows = {column: len(values) for column, values in split.metadata.items()}
        require(
            "every metadata column must have one row per sample, and 'label' must be one of them",
            "label" in rows and set(rows.values()) == {len(split)},
            f"the split {name!r} has {len(split)} samples and rows {rows}",
        )


def check_schema_says_what_metadata_holds(subject: Subject) -> None:
    """``schema()`` names every metadata column with its value type, before a split is read."""
    dataset = subject.build()
    with require_no_error("schema() must work before a split is read"):
        schema = dict(dataset.schema())
    law = f"a value type must be one of {get_args(ValueType)}"
    require(law, {*schema.values()} <= {*get_args(ValueType)}, str(schema))
    for name in SPLITS:
        split = dataset(name)
        law = "schema() must name all columns of metadata, and no others"
        require(law, {*schema} == {*split.metadata}, f"{sorted(schema)}; {sorted(split.metadata)}")
        for column, value_type in schema.items():
            values = split.metadata[column]
            if isinstance(values, Tensor):
                law = f"column {column!r} must hold values of the type that schema() gives"
                with require_no_error(law):  # and values may be missing
                    check_values(column, values, value_type, len(split), missing="drop")
                whole = not values.is_floating_point()
                require(law, whole or value_type != "categorical", f"{value_type}, {values.dtype}")


def check_splits_are_always_the_same(subject: Subject) -> None:
    """A split does not depend on the state of random generators."""
    observed = []
    for seed in range(2):
        built = subject.build()
        with seeded(seed):
            observed.append(observe(subject, built))
    require_equal(
        "a split must be the same in every process: draw from a generator with a seed of your own, not"
        " from the global generators",
        *observed,
        rtol=0,
        atol=0,
    )


def check_an_item_is_always_the_same(subject: Subject) -> None:
    """An item is not random; augmentation belongs to views."""
    split = subject.build()("train")
    items = []
    for seed in range(2):
        with seeded(seed):
            items.append(_pixels(split[0][0]))
    law = "split[i] must not be random: leave augmentation to views"
    require_equal(law, *items, rtol=0, atol=0)


def check_refuses_other_splits(subject: Subject) -> None:
    """A misspelled split is an error."""
    try:
        subject.build()("no such split")
    except ValueError:
        return
    raise AssertionError('a split other than "train" and "test" must be a ValueError')


def check_a_split_pickles(subject: Subject) -> None:
    """A pickled split is an equal one; processes that load data receive it so."""
    split = subject.build()("train")
    law = "pickle must copy a split for processes that load data: no lambdas, no open files"
    with require_no_error(law):
        stored = pickle.dumps(split)
        loaded = pickle.loads(stored)
    require_equal(law, _contents(loaded), _contents(split))
