"""The laws of data sets."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import Tensor

from ccl_plugins.metadata.values import check_values
from ccl_plugins.protocols import ValueType
from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import seeded
from ccl_plugins.testing.subject import Subject

SPLITS = ("train", "test")


def observe(subject: Subject, dataset: Any) -> Any:
    """Targets and metadata of both splits, and the first and last image of each."""
    return {name: _shown(dataset(name)) for name in SPLITS}


def _shown(split: Any) -> Any:
    ends = [split[i] for i in (0, len(split) - 1)]
    return [(_pixels(image), target) for image, target in ends], dict(split.metadata)


def _pixels(image: Any) -> Any:
    """An image of any form as data to compare."""
    if isinstance(image, Tensor):
        return image
    import numpy as np

    return torch.from_numpy(np.array(image))


def check_gives_images_and_targets(subject: Subject) -> None:
    """A torch Dataset of ``(image, target)``."""
    dataset = subject.build()
    law = "dataset(split) must be a torch Dataset with a length, whose items are (image, target)"
    for name in SPLITS:
        with may_not(law):
            split = dataset(name)
            _, target = split[len(split) - 1]
            label = split.metadata["label"][len(split) - 1]
        hold("a target must be the sample's label", int(target) == int(label), f"{target}, {label}")


def check_metadata_has_a_row_per_sample(subject: Subject) -> None:
    """By index, which is how conditions are looked up."""
    dataset = subject.build()
    for name in SPLITS:
        split = dataset(name)
        rows = {column: len(values) for column, values in split.metadata.items()}
        hold(
            "metadata must have a row per sample in each column, and always a column 'label'",
            "label" in rows and set(rows.values()) == {len(split)},
            f"the split {name!r} has {len(split)} samples and rows {rows}",
        )


def check_schema_says_what_metadata_holds(subject: Subject) -> None:
    """A pipeline is checked by the schema before an image is read."""
    dataset = subject.build()
    with may_not("schema() must work before a split is asked for"):
        schema = dict(dataset.schema())
    value_types = get_args(ValueType)
    hold(
        f"a value type must be one of {value_types}",
        {*schema.values()} <= {*value_types},
        str(schema),
    )
    for name in SPLITS:
        split = dataset(name)
        law = "schema() must name the columns of metadata, all of them"
        hold(law, {*schema} == {*split.metadata}, f"{sorted(schema)}; {sorted(split.metadata)}")
        for column, value_type in schema.items():
            values = split.metadata[column]
            if isinstance(values, Tensor):
                law = f"column {column!r} must hold what schema() says"
                with may_not(law):
                    policy: Any = "drop"  # a value may be missing
                    check_values(column, values, value_type, len(split), policy)
                whole = not values.is_floating_point()
                hold(law, whole or value_type != "categorical", f"{value_type}, {values.dtype}")


def check_splits_are_always_the_same(subject: Subject) -> None:
    """Whatever the state of random generators."""
    shown = []
    for seed in range(2):
        built = subject.build()
        with seeded(seed):
            shown.append(observe(subject, built))
    agree(
        "a split must be the same in every process: draw colors and splits from a seed of your own,"
        " not from the global generators",
        *shown,
        rtol=0,
        atol=0,
    )


def check_an_item_is_always_the_same(subject: Subject) -> None:
    """Augmentation is for the views."""
    split = subject.build()("train")
    items = []
    for seed in range(2):
        with seeded(seed):
            items.append(_pixels(split[0][0]))
    law = "split[i] must not be random: what is cached, and what is compared, is the image"
    agree(law, *items, rtol=0, atol=0)


def check_refuses_other_splits(subject: Subject) -> None:
    """A misspelled name is an error."""
    law = 'a split that is neither "train" nor "test" must be a ValueError'
    try:
        subject.build()("no such split")
    except ValueError:
        return
    raise AssertionError(law)


def check_a_split_pickles(subject: Subject) -> None:
    """A process that loads data gets a pickled split."""
    split = subject.build()("train")
    law = "a split must survive pickle, for processes that load data: no lambdas, no open files"
    with may_not(law):
        stored = pickle.dumps(split)
        loaded = pickle.loads(stored)
    agree(law, _shown(loaded), _shown(split))


CHECKS: list[Callable[[Subject], None]] = [
    check_gives_images_and_targets,
    check_metadata_has_a_row_per_sample,
    check_schema_says_what_metadata_holds,
    check_splits_are_always_the_same,
    check_an_item_is_always_the_same,
    check_refuses_other_splits,
    check_a_split_pickles,
]
