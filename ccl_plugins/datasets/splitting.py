"""The splits of a data set: their names, and which samples are held out for testing."""

from __future__ import annotations

import warnings

from torch import Tensor, arange, isin, tensor

from ccl_plugins.arguments import number, one_of, whole

SPLITS = ("train", "test")


def check_split(split: str) -> str:
    """``split``, if it is ``"train"`` or ``"test"``; else a ValueError."""
    return one_of("split", split, SPLITS)


def check_fraction(test_fraction: float | None, seed: int) -> None:
    """Refuse a test fraction, unless None, or a seed that is out of range, with a ValueError."""
    if test_fraction is not None and not 0 < number("test_fraction", test_fraction) < 1:
        raise ValueError(f"test_fraction must lie between 0 and 1, not {test_fraction!r}")
    whole("seed", seed, 0)  # to what scikit-learn accepts


def hold_out(
    label: Tensor, test_fraction: float, seed: int, groups: Tensor | None = None
) -> dict[str, Tensor]:
    """Rows of ``"train"`` and ``"test"``, in order; each class has the same share in both.

    Args:
        label: (N,) class ids.
        test_fraction: The part of each class that is for testing, between 0 and 1.
        seed: Of the choice.
        groups: (N,) ids of samples that belong together and come into one split.  The shares are then as
            near as whole groups allow.

    Raises:
        ValueError: For a class of a single sample, and if a split would get no sample of some class.
    """
    from sklearn.model_selection import train_test_split

    if groups is not None:
        return _hold_out_groups(label, test_fraction, seed, groups)
    ids, counts = label.unique(return_counts=True)
    if (counts < 2).any():
        single = ids[counts < 2][0].item()
        raise ValueError(
            f"class {single} has one sample, which cannot be both in train and in test: name the"
            " test samples instead of giving test_fraction"
        )
    rows = train_test_split(
        arange(len(label)).tolist(),
        test_size=test_fraction,
        stratify=label.numpy(),
        random_state=seed,
    )
    held = {split: tensor(sorted(each)) for split, each in zip(SPLITS, rows, strict=True)}
    # Of a class with few samples, its share may be rounded to none.
    return _with_all_classes(held, label, "are few: give a larger test_fraction,")


FOLDS = 20
"""The parts into which groups are dealt, of which some are for testing."""


def _hold_out_groups(
    label: Tensor, test_fraction: float, seed: int, groups: Tensor
) -> dict[str, Tensor]:
    from sklearn.model_selection import StratifiedGroupKFold

    count = len(groups.unique())
    if count < 2:
        raise ValueError(f"there is {count} group, which cannot be both in train and in test")
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
    return _with_all_classes(rows, label, "are in few groups: give another seed,")


def _with_all_classes(rows: dict[str, Tensor], label: Tensor, cure: str) -> dict[str, Tensor]:
    """The rows of both splits, if each has a sample of every class."""
    classes = label.unique()
    for split, chosen in rows.items():
        if len(lacking := classes[~isin(classes, label[chosen])]):
            raise ValueError(
                f"{split} would have no sample of class {lacking[0].item()}, whose samples {cure} or name"
                " the test samples instead of giving test_fraction"
            )
    return rows
