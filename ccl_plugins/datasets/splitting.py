"""Which samples are for training and which for testing, where a data set does not say it."""

from __future__ import annotations

from torch import Tensor, arange, tensor


def check_fraction(test_fraction: float | None, seed: int) -> None:
    """Whether a test fraction, where there is one, and a seed are in range.

    Raises:
        ValueError: Otherwise.
    """
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction must lie between 0 and 1, not {test_fraction!r}")
    if not 0 <= seed < 2**32:  # what scikit-learn accepts
        raise ValueError(f"seed must lie in 0 to 2**32 - 1, not {seed!r}")


def hold_out(label: Tensor, test_fraction: float, seed: int) -> dict[str, Tensor]:
    """Rows of ``"train"`` and ``"test"``, in order; each class keeps its share in both.

    Args:
        label: (N,) class ids.
        test_fraction: Part of each class that is for testing, between 0 and 1.
        seed: Of the choice.

    Raises:
        ValueError: For a class of a single sample, and where a split would get no sample of some class.
    """
    from sklearn.model_selection import train_test_split

    ids, counts = label.unique(return_counts=True)
    if (counts < 2).any():
        single = ids[counts < 2][0].item()
        raise ValueError(
            f"class {single} has one sample, which cannot be both in train and in test: name the"
            " test samples instead of giving test_fraction"
        )
    train, test = train_test_split(
        arange(len(label)).tolist(),
        test_size=test_fraction,
        stratify=label.numpy(),
        random_state=seed,
    )
    return {"train": tensor(sorted(train)), "test": tensor(sorted(test))}
