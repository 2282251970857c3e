"""The laws of data sets."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import median
from typing import Any, get_args
from unittest import SkipTest, mock

import numpy as np
import torch
from torch import Tensor
from torch.utils.data._utils import worker

import ccl_registry as engine
from ccl_plugins.files.looks import Looks, look
from ccl_plugins.metadata.groups import check_apart, sample_groups
from ccl_plugins.metadata.variable import Variable, check_values
from ccl_plugins.protocols import ValueType, trait
from ccl_plugins.testing.assertions import (
    letters,
    require,
    require_equal,
    require_identical,
    require_no_seeding,
    require_same_draws,
    require_same_in_another_process,
    require_same_in_any_order_of_files,
    require_unchanged,
    what_it_opens,
)
from ccl_plugins.testing.inputs import seeded, supplied_for
from ccl_plugins.testing.subject import Subject

SPLITS = ("train", "test")

COMPARED = 32
"""The number of rows of a split, evenly spaced, whose images are compared one by one."""

LOOKED_AT = {"train": 1024, "test": 256}
"""Rows of each split, evenly spaced, of which those of one are looked for in the other."""

IMAGES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


def observe(subject: Subject, dataset: Any) -> Any:
    """The first and last item of each split, and its metadata."""
    return {name: _contents(dataset(name)) for name in SPLITS}


def _contents(split: Any) -> Any:
    ends = [split[i] for i in (0, len(split) - 1)]
    return [(_pixels(image), target) for image, target in ends], _held(split)


def _held(split: Any) -> dict[str, Any]:
    """The columns and texts of a split, as data to compare."""
    return {
        name: letters("\0".join(map(str, values))) if _are_words(values) else values
        for name, values in {**split.metadata, **getattr(split, "texts", {})}.items()
    }


def _rows(split: Any, most: int = COMPARED) -> list[int]:
    ends = torch.linspace(0, len(split) - 1, min(most, len(split)), dtype=torch.float64)
    return [int(row) for row in ends.round()]


def _are_words(column: Any) -> bool:
    return not isinstance(column, Tensor) and any(isinstance(each, str) for each in column)


def _pixels(image: Any) -> Any:
    """An image of any type as data to compare."""
    return image if isinstance(image, Tensor) else torch.from_numpy(np.array(image))


def check_gives_images_and_targets(subject: Subject) -> None:
    """A split must be a torch Dataset with a length and items ``(image, target)``; targets are labels.

    The row i of the metadata belongs to the item i: a target that is not its label tells of another order.
    An image that is a tensor is (channels, height, width).
    """
    dataset = subject.build()
    for name in SPLITS:
        split = dataset(name)
        for row in _rows(split):
            (image, target), label = split[row], split.metadata["label"][row]
            report = f"the target of row {row} of {name} is {target}, its label {label}"
            require(int(target) == int(label), report)
            if isinstance(image, Tensor) and image.ndim == 3:
                height, width, channels = image.shape
                short, long = sorted((height, width))
                last = channels in (1, 3, 4) and short > 4 and long <= 4 * short
                report = f"row {row} of {name} is {tuple(image.shape)}: channels come first"
                require(not last, report)


def check_metadata_has_a_row_per_sample(subject: Subject) -> None:
    """Every metadata column must have one row per sample, and one column must be ``label``."""
    _require_rows(subject.build(), "")
    for setting, other in subject.with_other_numbers().items():
        with contextlib.suppress(ValueError):  # the number is refused
            _require_rows(other.build(), f"with {setting} ")


def _require_rows(dataset: Any, setting: str) -> None:
    for name in SPLITS:
        split = dataset(name)
        rows = {column: len(values) for column, values in split.metadata.items()}
        report = f"{setting}the split {name!r} has {len(split)} samples and rows {rows}"
        require("label" in rows and set(rows.values()) == {len(split)}, report)


def check_schema_says_what_metadata_holds(subject: Subject) -> None:
    """``schema()`` must name every metadata column, a tensor, with its value type, and open no image."""
    dataset = subject.build()
    _require_no_image(dataset.schema)
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
            report = f"column {column!r} is a {type(values).__name__}: give a tensor"
            require(isinstance(values, Tensor), report)
            # Values may be missing, all of them as the labels of loose images.
            if not Variable(values, value_type).missing.all():
                check_values(column, values, value_type, len(split), missing="drop")
            whole = not values.is_floating_point()
            report = f"column {column!r} is {value_type} and holds {values.dtype}"
            require(whole or value_type != "categorical", report)
            report = f"column {column!r} has words, by its vocabulary, and is continuous"
            words = value_type == "continuous" and column in getattr(split, "vocabulary", {})
            require(not words, report)


def _require_no_image(function: Callable[[], Any]) -> None:
    opened = [what for what in what_it_opens(function) if what.lower().endswith(IMAGES)]
    require(not opened, f"it caused {opened[:3]}")


def check_texts_are_a_string_per_sample(subject: Subject) -> None:
    """A split's ``texts`` must have the columns that ``texts()`` names, each with a string per sample.

    A data set without texts needs neither.  ``texts()`` opens no image, and texts are no metadata.
    """
    dataset = subject.build()
    if texts_of := trait(dataset, "texts"):
        _require_no_image(texts_of)
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
        for column, known in getattr(split, "vocabulary", {}).items():
            ids = split.metadata.get(column)
            if not isinstance(ids, Tensor) or ids.is_floating_point() or len(ids) < SENTENCES:
                continue
            words = [str(known[i]) for i in ids.flatten().tolist() if 0 <= i < len(known)]
            of_own = len({*words}) == len(ids)
            sentences = of_own and median(len(word.split()) for word in words) >= 3
            report = f"column {column!r} of {name} has a text for each sample, such as {words[:1]}"
            require(not sentences, f"{report}: give it in texts")


SENTENCES = 8
"""Words of so many samples at least, a different one for each, are texts if they are sentences."""


def check_columns_are_alike_in_both_splits(subject: Subject) -> None:
    """A column must have one type and shape in both splits, and the same word for each class id."""
    train, test = map(subject.build(), SPLITS)
    for column in train.metadata.keys() & test.metadata.keys():
        pair = [each.metadata[column] for each in (train, test)]
        if not all(isinstance(values, Tensor) for values in pair):
            continue  # words, which the law of schema() refuses
        kinds = [(values.is_floating_point(), tuple(values.shape[1:])) for values in pair]
        report = f"column {column!r} is {_kind(pair[0])} in train and {_kind(pair[1])} in test"
        require(kinds[0] == kinds[1], report)
    words = [getattr(each, "vocabulary", {}) for each in (train, test)]
    for column in {**words[0], **words[1]}:
        pair = [list(each.get(column, ())) for each in words]
        known = min(map(len, pair))  # later words may be those of one split
        report = f"the words of column {column!r} are {pair[0]} in train and {pair[1]} in test"
        require(known > 0 and pair[0][:known] == pair[1][:known], report)
        for split, of_split in zip((train, test), pair, strict=True):
            strings = all(isinstance(word, str) for word in of_split)
            require(strings, f"the vocabulary of {column!r} has {of_split[:3]}, which are no words")
            twice = [w for w, count in Counter(of_split).items() if count > 1]
            require(not twice, f"column {column!r} has the word {twice[:1]} for several class ids")
            require(column in split.metadata, f"vocabulary has {column!r}, which is no column")
            if not isinstance(ids := split.metadata[column], Tensor):
                continue
            most = int(ids.max())
            report = f"column {column!r} has the class id {most}, and the words {of_split}"
            require(most < len(of_split), report)


def _kind(values: Tensor) -> str:
    return f"{tuple(values.shape)} {values.dtype}"


def check_what_is_missing_says_so(subject: Subject) -> None:
    """A missing value must be NaN, or -1 among class ids and 0/1 columns, and no other number or word.

    So -9999, the mean of the others, a class id 255 and the word ``nan`` count as values.
    """
    dataset = subject.build()
    schema, splits = dict(dataset.schema()), {name: dataset(name) for name in SPLITS}
    for name, other in (SPLITS, SPLITS[::-1]):
        vocabulary = getattr(splits[name], "vocabulary", {})
        for column, words in vocabulary.items():
            lost = [word for word in words if str(word).strip() in NO_WORDS]
            require(not lost, f"the words of column {column!r} have {lost[:1]} among them")
        for column, texts in getattr(splits[name], "texts", {}).items():
            lost = [text for text in texts if str(text).strip() in NO_WORDS]
            require(not lost, f"the texts {column!r} of {name} have {lost[:1]} among them")
        for column, values in splits[name].metadata.items():
            if not isinstance(values, Tensor):
                continue  # which the law of schema() refuses
            theirs = splits[other].metadata.get(column, values)
            found: float | str | None = None
            known = torch.cat([values.flatten(), theirs.flatten()]).unique().tolist()
            if known == [-1, 1] and schema.get(column) != "continuous" and column not in vocabulary:
                found = "1 and -1, which is missing, and no 0"
            elif schema.get(column) == "continuous":
                pairs = zip(_columns(values), _columns(theirs), strict=False)
                found = next(
                    (n for pair in pairs if (n := _number_for_none(*pair)) is not None), None
                )
            elif column not in vocabulary:
                found = _id_for_none(values)
            report = (
                f"column {column!r} of {name} has {found}: it seems to stand for a missing value"
            )
            require(found is None, report)


NO_WORDS = ("", "nan", "<NA>", "NaT")
"""The strings of missing values in Python; ``None`` is a word of real tables."""


def _columns(values: Tensor) -> Iterable[Tensor]:
    return values.reshape(len(values), -1).unbind(1)


def _repeated(values: Tensor) -> list[float]:
    numbers, counts = values.unique(return_counts=True)
    return numbers[counts > 1].tolist()


def _of_nines(number: float) -> bool:
    return number == int(number) and len(text := str(abs(int(number)))) > 1 and {*text} == {"9"}


def _id_for_none(values: Tensor) -> float | None:
    """A class id that may stand for none: repeated, of nines or all bits, and far from ids without gaps."""
    for number in _repeated(values)[-1:]:
        others = values[(values != number) & (values >= 0)].unique()
        if len(others) < 2 or not (number in (127, 255, 32767, 65535) or _of_nines(number)):
            continue
        most = float(others[-1])
        if 2 * most < number and 2 * len(others) > most:
            return number
    return None


def _number_for_none(values: Tensor, other: Tensor) -> float | None:
    """A number that may stand for missing ones, of a column without NaN; ``other``: of the other split.

    It is repeated, and far from all others: any such number if the other split has NaN, else -1 or one of
    nines. Or it is -1 beside parts of positive numbers, or the mean of numbers that all differ.
    """
    if not values.is_floating_point() or values.isnan().any():
        return None
    known = other[~other.isnan()] if other.isnan().any() else values[:0]
    for number in _repeated(values):
        beside = values[values != number]
        if len(beside.unique()) < 5:  # such as signs
            continue
        low, high = (float(end) for end in (known if len(known) else beside).aminmax())
        far = not 2 * low - high <= number <= 2 * high - low
        usual = number == -1 or abs(number) > 1e30 or _of_nines(number)
        of_parts = number == -1 and low >= 0 and bool((beside != beside.round()).any())
        differ = len(beside) >= 8 and len(beside.unique()) == len(beside)
        mean, deviation = float(beside.double().mean()), float(beside.double().std())
        filled = len(values) > len(beside) + 2 and abs(number - mean) < 1e-5 * deviation
        if (far and (usual or len(known))) or of_parts or (differ and filled):
            return number
    return None


def check_images_are_alike_in_both_splits(subject: Subject) -> None:
    """Images of both splits must have a type and a number of channels in common, and one scale.

    A network that learned from numbers in [0, 1] sees nothing in others up to 255, or with a mean of 0.
    """
    dataset, seen = subject.build(), {}
    for name in SPLITS:
        split = dataset(name)
        images = [split[row][0] for row in _rows(split)]
        highest = [float(_pixels(image).float().abs().max()) for image in images]
        below = [bool((_pixels(image) < 0).any()) for image in images]
        seen[name] = {*map(_type_of, images)}, median(highest), sum(below) / len(below)
    (types, most, negative), (others, high, low) = seen.values()
    report = (
        f"they are {', '.join(sorted(types))} up to {most:g} in train,"
        f" and {', '.join(sorted(others))} up to {high:g} in test"
    )
    # 255 or more where one split is scaled.
    scaled = 0 < 32 * min(most, high) < max(most, high)
    require(bool(types & others) and not scaled, report)
    report = f"{negative:.0%} of those in train have numbers below 0, and {low:.0%} in test"
    require(max(negative, low) < 0.9 or min(negative, low) > 0, report)


def _type_of(image: Any) -> str:
    seen = look(image)
    return seen.kind if seen else str(_pixels(image).dtype)


def check_splits_are_always_the_same(subject: Subject) -> None:
    """A split must be the same in every call: seed a generator of your own, not the global ones."""
    built = iter([subject.build(drawn=seed) for seed in (0, 1)])
    require_same_draws(lambda: observe(subject, next(built)))
    dataset = subject.build()
    train = dataset("train")
    with require_unchanged(lambda: _contents(train), "train, after test was read"):
        test = _contents(dataset("test"))
    require_identical(_contents(dataset("train")), _contents(train), "train, called again")
    require_identical(_contents(subject.build()("test")), test, "test, called before train")


def check_is_the_same_in_another_process(subject: Subject) -> None:
    """A split must be the same in every process: ranks, and a resumed run, read rows by their number.

    ``hash()`` of a string and the order of a set of strings are others in each process.  So is what a class
    or a module keeps: data sets of other settings, read before, change nothing.
    """
    supplied = supplied_for(subject.choice)
    _drawn_alike(subject.choice, supplied)  # first here, and last in the other process
    choices = dict[str, engine.Choice]()
    for setting, other in subject.with_other_numbers().items():
        with contextlib.suppress(Exception):  # the number is refused, in whatever way
            _drawn_alike(other.choice, supplied)
            choices[f"with {setting}"] = other.choice
    choices["as given"] = subject.choice
    require_same_in_another_process(_each_drawn_alike, choices, supplied)


def _each_drawn_alike(
    choices: Mapping[str, engine.Choice], supplied: Mapping[str, Any]
) -> dict[str, dict[str, Tensor]]:
    return {name: _drawn_alike(choice, supplied) for name, choice in choices.items()}


def check_the_order_of_files_does_not_matter(subject: Subject) -> None:
    """Rows and class ids must not depend on the order in which a folder lists its files.

    No system promises one: sort what ``os.listdir``, ``glob`` and their like give.
    """
    choice, supplied = subject.choice, supplied_for(subject.choice)
    require_same_in_any_order_of_files(lambda: _drawn_alike(choice, supplied))


def _drawn_alike(choice: engine.Choice, supplied: Mapping[str, Any]) -> dict[str, Tensor]:
    with seeded():  # what is random breaks other laws
        return _digests(choice, supplied)


def _digests(choice: engine.Choice, supplied: Mapping[str, Any]) -> dict[str, Tensor]:
    """The data to compare for each column, and for the compared images, of each split."""
    dataset, found = choice.build(supplied), {}
    for name in SPLITS:
        split = dataset(name)
        pixels = (_pixels(split[row][0]) for row in _rows(split))
        found[f"the images of {name}"] = _digest(pixels)
        for kind in ("metadata", "vocabulary", "texts"):
            for column, values in getattr(split, kind, {}).items():
                held = [values] if isinstance(values, Tensor) else values
                found[f"{kind} {column!r} of {name}"] = _digest(held)
    return found


def _digest(parts: Iterable[Any]) -> Tensor:
    """Tensors or words as data to compare."""
    digest = hashlib.sha256()
    for each in parts:
        if isinstance(each, Tensor):
            digest.update(repr((each.dtype, each.shape)).encode())
            digest.update(each.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        else:
            digest.update(repr(each).encode())
    return letters(digest.hexdigest())


def check_keeps_no_file_of_other_settings(subject: Subject) -> None:
    """A file that a data set writes to read others faster must not be read with other settings."""
    if subject.chosen or not callable(subject.example or getattr(subject.target, "EXAMPLE", None)):
        raise SkipTest("no function writes its files, as a static method EXAMPLE does")
    used, again = subject.with_files(), subject.with_files()
    supplied = supplied_for(subject.choice)
    try:
        expected = _drawn_alike(again.choice, supplied)
        require_identical(_drawn_alike(used.choice, supplied), expected)
    except AssertionError as error:
        raise SkipTest("its files differ each time that they are written") from error
    for setting, other in used.with_other_numbers().items():
        fresh = subject.with_files()  # holds its folder
        with contextlib.suppress(ValueError):  # the number is refused
            expected = _drawn_alike(fresh.with_other_numbers()[setting].choice, supplied)
            where = f"with {setting}, after the same files were read without"
            require_identical(_drawn_alike(other.choice, supplied), expected, where)


def check_seeds_no_global_generator(subject: Subject) -> None:
    """It must not seed Python's, numpy's or torch's global generator, which draw the views next.

    To draw the same numbers each time, seed a generator of its own.
    """
    require_no_seeding(lambda: _digests(subject.choice, supplied_for(subject.choice)))


def check_an_item_is_always_the_same(subject: Subject) -> None:
    """``split[i]`` must be the same in every call, in any order and in a worker: augmentation is for views.

    To read it changes neither the metadata nor an image that was read before.
    """
    dataset, fresh = subject.build(), subject.build()
    for name in SPLITS:
        split, other = dataset(name), fresh(name)
        rows = _rows(split)
        metadata = copy.deepcopy(_held(split))
        for row in rows:  # each under seeds of its own, since one may do nothing
            require_same_draws(partial(_image, split, row, name), seeds=(2 * row, 2 * row + 1))
        first = split[rows[0]][0]
        seen = _pixels(first).clone()
        split[rows[-1]]
        require_identical(_pixels(first), seen, f"row 0 of {name}, after another was read")
        changed = f"the metadata of {name}, after images were read"
        require_identical(_held(split), metadata, changed)
        images = {row: _image(split, row, name) for row in rows}
        for row in reversed(rows):
            where = "read after those that follow"
            require_identical(_image(other, row, name), images[row], where)
        info = worker.WorkerInfo(id=1, num_workers=2, seed=0, dataset=other)
        with mock.patch.object(worker, "_worker_info", info):
            for row in rows:
                require_identical(_image(other, row, name), images[row], "in the second worker")
        if hasattr(split, "__getitems__"):  # loaders call it, in the order of a sampler
            batch = [*reversed(rows)]
            for row, (image, target) in zip(batch, split.__getitems__(batch), strict=True):
                item = {f"row {row} of {name}": _pixels(image)}
                require_identical(item, images[row], f"of __getitems__({batch[:3]}, ...)")
                require(
                    int(target) == int(split[row][1]),
                    f"__getitems__ gave row {row} a target {target}",
                )


def _image(split: Any, row: int, name: str) -> dict[str, Tensor]:
    return {f"row {row} of {name}": _pixels(split[row][0])}


def check_not_all_images_are_equal(subject: Subject) -> None:
    """The images of a split must not all be equal: each row has an image of its own."""
    dataset = subject.build()
    for name in SPLITS:
        split = dataset(name)
        rows = _rows(split)
        first = _pixels(split[0][0])
        same = all(torch.equal(_pixels(split[row][0]), first) for row in rows)
        require(len(rows) == 1 or not same, f"all {len(rows)} images of {name} are equal")


def check_the_test_split_is_another(subject: Subject) -> None:
    """Most of the first 64 test images must not be the first or the last images of the training split."""
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


def check_no_test_image_is_in_training(subject: Subject) -> None:
    """Test images must repeat training images no more often than training images repeat each other.

    ``ccl inspect`` names them.  Images of one color count for neither, nor do copies of a few images, as of
    a rare class.
    """
    _require_apart(subject.build(), "")
    for setting, other in subject.with_other_numbers().items():
        # The number may be refused, or leave no images.
        with contextlib.suppress(ValueError, SkipTest):
            _require_apart(other.build(), f"with {setting} ")


def _require_apart(dataset: Any, setting: str) -> None:
    splits = [dataset(name) for name in SPLITS]
    train, test = (
        _looks(split, LOOKED_AT[name]) for name, split in zip(SPLITS, splits, strict=True)
    )
    if not (len(train) and len(test)):
        raise SkipTest("it has no images of several colors")
    within = [*train.repeated()]
    firsts = {first for _, first in within}
    twice = len(within) + len(firsts)
    again = [*test.repeated(train)]
    expected = len(test) * twice / len(train)
    # Few images, repeated often, were copied before the split: of images of so many kinds that most of
    # those that occur occur once, others occur 2.4 times on average.
    if len(firsts) < 0.4 * (len(train) - len(within)) and twice > 4 * len(firsts):
        expected = 0
    # Counts vary by their root; and large public data sets have some by mistake, of which those are found
    # whose training image is looked at.
    mistakes = len(test) / 20 * min(1, LOOKED_AT["train"] / len(splits[0]))
    most = expected + 3 * expected**0.5 + mistakes
    most += 3 * mistakes**0.5 if len(splits[0]) > LOOKED_AT["train"] else 0
    row, first = again[0] if again else (0, 0)
    report = (
        f"{setting}{len(again)} of {len(test)} test images are in training, such as row {row}, its row"
        f" {first}; of {len(train)} training images {twice} repeat each other"
    )
    require(len(again) <= most, report)
    if within:
        return
    for row, first in ((0, len(splits[0]) - 1), (len(splits[1]) - 1, 0)):
        over = (row, first) in again  # such as for splits that are parts of a list
        report = f"{setting}row {row} of test is row {first} of training: the splits overlap there"
        require(not over, report)


def _looks(split: Any, most: int) -> Looks:
    """What is seen of the images of a split that have several colors, or of vectors of several numbers."""
    looks = Looks()
    for row in _rows(split, most):
        image = split[row][0]
        vector = isinstance(image, Tensor) and image.ndim != 3
        seen = look(image.reshape(1, 1, -1) if vector else image)
        if seen and seen.flaw in ("", "saturated"):
            looks.add(row, seen)
    return looks


def check_no_group_is_in_both_splits(subject: Subject) -> None:
    """Samples that ``group`` says belong together must be in one split; it names a column of class ids."""
    train, test = map(subject.build(), SPLITS)
    names = [getattr(split, "group", None) for split in (train, test)]
    if names == [None, None]:
        raise SkipTest("it has no group")
    require(names[0] == names[1], f"group is {names[0]!r} in train and {names[1]!r} in test")
    try:
        sample_groups(train), sample_groups(test)
        check_apart(train, test)
    except ValueError as error:
        raise AssertionError(str(error)) from error


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
