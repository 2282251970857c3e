"""The splits of a data set: their names, and which samples are held out for testing."""

from __future__ import annotations

from torch import Tensor, arange, tensor

from ccl_plugins.arguments import one_of

SPLITS = ("train", "test")


def check_split(split: str) -> str:
    """``split``, if it is ``"train"`` or ``"test"``; else a ValueError."""
    return one_of("split", split, SPLITS)


def check_fraction(test_fraction: float | None, seed: int) -> None:
    """Refuse a test fraction, unless None, or a seed that is out of range, with a ValueError."""
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction must lie between 0 and 1, not {test_fraction!r}")
    if not 0 <= seed < 2**32:  # what scikit-learn accepts
        raise ValueError(f"seed must lie in 0 to 2**32 - 1, not {seed!r}")


def hold_out(label: Tensor, test_fraction: float, seed: int) -> dict[str, Tensor]:
    """Rows of ``"train"`` and ``"test"``, in order; each class has the same share in both.

    Args:
        label: (N,) class ids.
        test_fraction: The part of each class that is for testing, between 0 and 1.
        seed: Of the choice.

    Raises:
        ValueError: For a class of a single sample, and if a split would get no sample of some class.
    """
    from sklearn.model_selection import train_test_split

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
    return {split: tensor(sorted(each)) for split, each in zip(SPLITS, rows, strict=True)}
