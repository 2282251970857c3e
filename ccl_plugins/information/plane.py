"""The information plane: what a pipeline's conditions tell about a target, and how much beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.cli.tables import Table
from ccl_plugins.information.entropies import Information, crossing, information, to_unit
from ccl_plugins.kinds import registry

if TYPE_CHECKING:
    from torch import Tensor

    from ccl_plugins.pipeline.composition import Pipeline


@dataclass(frozen=True)
class Point:
    """A conditioning variable Z on the plane.

    Args:
        name: Of the condition, with its column where it has several; in a sweep the parameter's value.
        values: How many values Z has.
        samples: How many samples have a value of Z and of the target.
        information: H(Z), H(Z|T) and I(Z;T).
    """

    name: str
    values: int
    samples: int
    information: Information


def plane(pipeline: Pipeline, against: str = "label") -> tuple[list[Point], list[str]]:
    """The pipeline's static categorical conditions, fitted on its training set.

    Returns:
        The points, and a line for each condition that is left out, saying why.

    Raises:
        ValueError: For a target that is no column of class ids, and where no condition is left.
    """
    split, target = _train(pipeline, against)
    points: list[Point] = []
    left_out = []
    for name, choice in pipeline.conditions.items():
        condition = choice.build({"dataset": pipeline.dataset})
        if condition.value_type != "categorical":
            left_out.append(
                f"{name} is {condition.value_type}: clusters(of=...) makes class ids of it"
            )
        elif condition.refresh != "never":
            left_out.append(
                f"{name} has refresh {condition.refresh!r}: it depends on what the model has learned"
            )
        else:
            points += _points(name, condition, split, target)
    if not points:
        why = "".join(f"; {line}" for line in left_out) or "; it has no condition"
        raise ValueError(f"the pipeline has no static categorical condition{why}")
    return points, left_out


def sweep(
    pipeline: Pipeline,
    parameter: str,
    values: Sequence[Any],
    against: str = "label",
    on: str | None = None,
) -> list[Point]:
    """One condition of the pipeline, once for each value of a parameter of it.

    Args:
        pipeline: The pipeline.
        parameter: As ``k`` of ``attributes`` or ``level`` of ``wordnet``.
        values: What it is set to, one after the other.
        against: The metadata column T.
        on: The condition; None: the only one with such a parameter.

    Raises:
        ValueError: Where it is not clear which condition is meant, and for one that is not static
            and categorical or has several columns.
    """
    on = _with_parameter(pipeline, parameter) if on is None else on
    if on not in pipeline.conditions:
        there = ", ".join(map(repr, pipeline.conditions)) or "none"
        raise ValueError(f"the pipeline has no condition {on!r}; it has {there}")
    split, target = _train(pipeline, against)
    choice, points = pipeline.conditions[on], []
    for value in values:
        changed = registry().choose(
            "condition", choice.spec.id, **{**choice.params, parameter: value}
        )
        condition = changed.build({"dataset": pipeline.dataset})
        if condition.value_type != "categorical" or condition.refresh != "never":
            raise ValueError(
                f"{changed!r} is {condition.value_type} with refresh {condition.refresh!r}"
            )
        found = list(_points(on, condition, split, target))
        if len(found) > 1:
            raise ValueError(f"{changed!r} has {len(found)} columns; a sweep needs one")
        first = found[0]
        points.append(Point(str(value), first.values, first.samples, first.information))
    return points


def tabulate(points: Sequence[Point], against: str, notes: Sequence[str] = ()) -> Table:
    """The points as a table, in bits."""
    rows = [
        {
            "condition": point.name,
            "values": point.values,
            "samples": point.samples,
            f"I(Z;{against})": point.information.mutual,
            f"H(Z|{against})": point.information.conditional_entropy,
            "H(Z)": point.information.entropy,
        }
        for point in points
    ]
    return Table(rows, notes)


def best(points: Sequence[Point]) -> Point:
    """The point nearest to where I(Z;T) and -H(Z|T) cross; see `ccl_plugins.information.crossing`."""
    return points[crossing([point.information for point in points])]


def plot(points: Sequence[Point], path: str | Path, parameter: str, against: str = "T") -> None:
    """A sweep as a picture: in bits, and brought to 0 to 1 with the crossing.

    Args:
        points: In the order of the parameter.
        path: The file; its ending chooses the format.
        parameter: What stands below the axis.
        against: The name of T.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), figures 4 and 6.
    """
    from matplotlib.figure import Figure

    about = [point.information for point in points]
    names, crossed = [point.name for point in points], points.index(best(points))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    bits, unit = figure.subplots(1, 2)
    bits.plot(names, [each.mutual for each in about], marker="o", label=f"I(Z;{against})")
    bits.plot(
        names, [each.conditional_entropy for each in about], marker="s", label=f"H(Z|{against})"
    )
    bits.plot(names, [each.entropy for each in about], color="0.6", ls="--", label="H(Z)")
    bits.set_ylabel("bits")
    unit.plot(names, to_unit(about, "mutual").numpy(), marker="o", label=f"I(Z;{against})")
    fallen = 1 - to_unit(about, "conditional_entropy").numpy()
    unit.plot(names, fallen, marker="s", label=f"-H(Z|{against})")
    unit.axvline(crossed, color="0.6", ls=":", label=f"{parameter} = {names[crossed]}")
    unit.set_ylabel("brought to 0 to 1")
    for panel in (bits, unit):
        panel.set_xlabel(parameter)
        panel.legend()
    figure.savefig(path, dpi=150)


def _train(pipeline: Pipeline, against: str) -> tuple[Any, Tensor]:
    """The training split, and the target's class ids."""
    from ccl_plugins.metadata.columns import class_ids

    split = pipeline.dataset("train")
    return split, class_ids(split.metadata, against)


def _points(name: str, condition: Any, split: Any, target: Tensor) -> Iterator[Point]:
    """A point for each column of a condition, of the samples that have a value."""
    from ccl_plugins.training.tables import Tables

    def refuse() -> Tensor:
        raise ValueError(f"condition {name!r} asks for embeddings, which a trained model has")

    tables = Tables({name: condition}, len(split))
    tables.refresh(0, split, refuse)
    values = tables[name].values
    columns = [values] if values.ndim == 1 else list(values.T)
    for level, column in enumerate(columns):
        there = (column >= 0) & (target >= 0)
        if not there.any():
            raise ValueError(f"condition {name!r} and the target have no sample in common")
        yield Point(
            name if values.ndim == 1 else f"{name}[{level}]",
            len(column[there].unique()),
            int(there.sum()),
            information(column[there], target[there]),
        )


def _with_parameter(pipeline: Pipeline, parameter: str) -> str:
    found = [name for name, choice in pipeline.conditions.items() if parameter in choice.params]
    if len(found) == 1:
        return found[0]
    if not found:
        there = ", ".join(repr(choice) for choice in pipeline.conditions.values()) or "none"
        raise ValueError(f"no condition of the pipeline has a parameter {parameter!r}: {there}")
    raise ValueError(f"{', '.join(found)} have a parameter {parameter!r}: say which with on=")
