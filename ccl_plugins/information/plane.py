"""The information plane: the information of conditioning variables about a target, and beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ccl_plugins.information.entropies import Entropies, crossing, information, to_unit


@dataclass(frozen=True)
class Point:
    """A conditioning variable Z on the plane.

    Args:
        name: The condition's name, with its column if it has several; in a sweep the parameter's
            value.
        values: The number of values of Z.
        samples: The number of samples with a value of Z and of the target.
        information: H(Z), H(Z|T) and I(Z;T).
    """

    name: str
    values: int
    samples: int
    information: Entropies


def points(name: str, ids: Tensor, target: Tensor) -> Iterator[Point]:
    """A point for each column of class ids, over the samples that have a value.

    Args:
        name: The name of Z.
        ids: (N,) or (N, L) class ids of Z; -1 where a sample has none.
        target: (N,) class ids of T; -1 where a sample has none.

    Raises:
        ValueError: For a column that has no sample in common with the target.
    """
    columns = [ids] if ids.ndim == 1 else list(ids.T)
    for level, column in enumerate(columns):
        valid = (column >= 0) & (target >= 0)
        if not valid.any():
            raise ValueError(f"condition {name!r} and the target have no sample in common")
        yield Point(
            name if ids.ndim == 1 else f"{name}[{level}]",
            len(column[valid].unique()),
            int(valid.sum()),
            information(column[valid], target[valid]),
        )


def best(points: Sequence[Point]) -> Point:
    """The point nearest to where I(Z;T) and -H(Z|T) cross; see `ccl_plugins.information.crossing`."""
    return points[crossing([point.information for point in points])]


def plot(points: Sequence[Point], path: str | Path, parameter: str, against: str = "T") -> None:
    """Draw a sweep twice: in bits, and scaled to 0 to 1 with the crossing.

    Args:
        points: In the order of the parameter.
        path: The file; its ending chooses the format.
        parameter: The label of the horizontal axis.
        against: The name of T.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), figures 4 and 6.
    """
    from matplotlib.figure import Figure

    about = [point.information for point in points]
    names, crossed = [point.name for point in points], points.index(best(points))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    bits, unit = figure.subplots(1, 2)
    bits.plot(names, [i.mutual for i in about], marker="o", label=f"I(Z;{against})")
    bits.plot(names, [i.conditional_entropy for i in about], marker="s", label=f"H(Z|{against})")
    bits.plot(names, [i.entropy for i in about], color="0.6", ls="--", label="H(Z)")
    bits.set_ylabel("bits")
    unit.plot(names, to_unit(about, "mutual").numpy(), marker="o", label=f"I(Z;{against})")
    fallen = 1 - to_unit(about, "conditional_entropy").numpy()
    unit.plot(names, fallen, marker="s", label=f"-H(Z|{against})")
    unit.axvline(crossed, color="0.6", ls=":", label=f"{parameter} = {names[crossed]}")
    unit.set_ylabel("scaled to 0 to 1")
    for panel in (bits, unit):
        panel.set_xlabel(parameter)
        panel.legend()
    figure.savefig(path, dpi=150)
