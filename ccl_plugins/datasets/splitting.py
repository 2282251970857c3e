"""The splits of a data set: their names, and which samples are held out for testing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from numpy.random import RandomState
from torch import Tensor, arange, cat, from_numpy, isin, stack, tensor

from ccl_plugins.arguments import number, one_of, whole
from ccl_plugins.metadata.variable import Variable

SPLITS = ("train", "test")


def check_split(split: str) -> str:
    """``split``, if it is ``"train"`` or ``"test"``; else a ValueError."""
    return one_of("split", split, SPLITS)


def between(name: str, value: float) -> float:
    """A number between 0 and 1, and neither of both."""
    if not 0 < number(name, value) < 1:
        raise ValueError(f"{name} must lie between 0 and 1, not {value!r}")
    return value


def check_fraction(test_fraction: float | None, seed: int) -> None:
    """Raise ValueError for a test fraction (if not None) or a seed out of range."""
    if test_fraction is not None:
        between("test_fraction", test_fraction)
    whole("seed", seed, 0)  # to what scikit-learn accepts


def hold_out(
    label: Tensor,
    test_fraction: float,
    seed: int,
    groups: Tensor | None = None,
    words: Sequence[str] | None = None,
) -> dict[str, Tensor]:
    """Rows of ``"train"`` and ``"test"``, in order; each class has the same share in both.

    Samples without a label are not a class. Samples with a label are split by themselves. Of the
    other samples, or of groups without any label, a rounded share is drawn at random. If no sample
    has a label, all are split as one class.

    Args:
        label: (N,) class ids; -1 for samples without one.
        test_fraction: The part of each class that is for testing, between 0 and 1.
        seed: Seed of the choice.
        groups: (N,) ids of samples that belong together and come into one split.  The shares are then as
            near as whole groups allow.
        words: The word of each class id, for errors; None: the classes have none.

    Raises:
        ValueError: For a label that is not a class, a class of one sample or one group, and if a
            split would get no sample of some class.
    """
    if not (label == label.round()).all():
        raise ValueError(
            "test_fraction keeps a part of each class for testing, but the label holds numbers "
            "that are not class ids: name the test samples instead"
        )
    units = arange(len(label)) if groups is None else groups
    missing = Variable(label, "categorical").missing
    known = arange(len(label)) if missing.all() else (~missing).nonzero().flatten()
    some = "" if len(known) == len(label) else " with a label"
    own = None if groups is None else groups[known]
    rows = _hold_out_classes(label[known], test_fraction, seed, own, words, some)
    rest = units[~isin(units, units[known])].unique()
    # The stream of RandomState is the same in every version of numpy.
    order = from_numpy(RandomState(seed).permutation(len(rest)))
    drawn = rest[order[: round(test_fraction * len(rest))]]
    test = isin(units, cat([units[known[rows["test"]]], drawn]))
    return {"train": (~test).nonzero().flatten(), "test": test.nonzero().flatten()}


def _hold_out_classes(
    label: Tensor,
    test_fraction: float,
    seed: int,
    groups: Tensor | None,
    words: Sequence[str] | None,
    some: str,
) -> dict[str, Tensor]:
    """`hold_out` if all samples have a label, or none has; ``some`` names the samples in errors."""
    from sklearn.model_selection import train_test_split

    units = arange(len(label)) if groups is None else groups
    ids, counts = stack([label, units]).unique(dim=1)[0].unique(return_counts=True)
    if len(single := ids[counts < 2]):
        size = int((label == single[0]).sum())
        has = "one sample" if size == 1 else f"{size} samples, all in one group"
        more = f" (so have {len(single) - 1} others)" if len(single) > 1 else ""
        raise ValueError(
            f"class {_named(single[0], words)} has {has}{more}, which cannot be both in train and in test:"
            " leave the class out, or name the test samples instead of giving test_fraction"
        )
    if groups is not None:
        return _hold_out_groups(label, test_fraction, seed, groups, words)
    test = math.ceil(test_fraction * len(label))
    if not max(1, len(ids)) <= test <= len(label) - len(ids):
        raise ValueError(
            f"test_fraction={test_fraction} of {len(label)} samples{some} leaves {len(label) - test} to"
            f" train on and {test} to test on, but each split needs a sample of each of {len(ids)} classes:"
            " give another test_fraction, or name the test samples instead"
        )
    rows = train_test_split(
        arange(len(label)).tolist(),
        test_size=test_fraction,
        stratify=label.numpy(),
        random_state=seed,
    )
    held = {split: tensor(sorted(each)) for split, each in zip(SPLITS, rows, strict=True)}
    # The share of a class with few samples may be rounded to none.
    return _with_all_classes(held, label, "are few: give a larger test_fraction,", words)


FOLDS = 20
"""The number of parts into which groups are divided; some parts are for testing."""


def _hold_out_groups(
    label: Tensor, test_fraction: float, seed: int, groups: Tensor, words: Sequence[str] | None
) -> dict[str, Tensor]:
    from sklearn.model_selection import StratifiedGroupKFold

    count = len(groups.unique())
    folds = min(FOLDS, count, int(label.unique(return_counts=True)[1].max()))
    dealt = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():  # a class may have fewer samples than there are parts
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        parts = [part for _, part in dealt.split(label, label, groups)]
    wanted = min(max(round(test_fraction * folds), 1), folds - 1)
    test = tensor(sorted(row for part in parts[:wanted] for row in part.tolist()))
    held = arange(len(label)).new_zeros(len(label)).bool()
    held[test] = True
    rows = {"train": (~held).nonzero().flatten(), "test": test}
    return _with_all_classes(rows, label, "are in few groups: give another seed,", words)


def _named(number: Tensor, words: Sequence[str] | None) -> str:
    """A class by its word, or by its number."""
    if words is not None and 0 <= number < len(words):
        return repr(words[int(number)])
    if number == -1:
        return "-1 (missing)"
    return f"{number.item():g}" if number.is_floating_point() else f"{number.item()}"


def _with_all_classes(
    rows: dict[str, Tensor], label: Tensor, cure: str, words: Sequence[str] | None
) -> dict[str, Tensor]:
    """The rows of both splits, if each has a sample of every class."""
    classes = label.unique()
    for split, chosen in rows.items():
        if len(lacking := classes[~isin(classes, label[chosen])]):
            raise ValueError(
                f"{split} would have no sample of class {_named(lacking[0], words)}, whose samples {cure}"
                " or name the test samples instead of giving test_fraction"
            )
    return rows
