"""The figure ``kernel_matrix``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.figures.samples import (
    Values,
    kernel_reading,
    known_rows,
    of_applicable,
    variables_of,
)
from ccl_plugins.figures.style import NUMBERS, class_colors, figure, short, styled
from ccl_plugins.objectives.cclk import CCLK
from ccl_plugins.pairs import Samples, in_batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run
    from ccl_plugins.training.kernel_check import KernelReading

MOST = 256
"""The most samples of a matrix."""


class KernelMatrix:
    """The similarity of samples by a condition, and their weights in CCL-K's loss.

    The kernel matrix K, the similarity of two samples' conditions, is drawn beside the conditional
    operator W, with samples in order of Z, a row for each run. Row i of W has the weight of every
    sample in the conditional expectation of sample i (eq. 6), which the objectives of CCL-K use.
    Beside both, the values of Z are drawn as colors. The samples are at most 256 training samples,
    and at most a batch, because W depends on their number. The colors of W end at its 99.5th
    percentile without the diagonal, which is far larger, and begin at 0 if the loss clips negative
    weights. Runs that read no condition through a kernel are left out.

    Args:
        condition: The name of the condition, or of its column; None: the first one that a kernel reads.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), figure 2.
    """

    side_by_side = True

    def __init__(self, condition: str | None = None) -> None:
        self.condition = condition

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs, also of several data sets.

        Raises:
            DoesNotApply: If no objective of a run reads the condition through a kernel.
        """
        shown = of_applicable(
            runs, lambda run: Matrices.of(kernel_reading(run, self.condition), run)
        )
        width = 0.4 + 4.0 * max(len(each.drawn) for each in shown.values())
        result = figure(width, 4.3 * len(shown))
        if len(shown) == 1:
            (each,) = shown.values()
            each.draw(result)
            return result
        parts: Any = result.subfigures(len(shown), 1)
        for part, (title, each) in zip(parts, shown.items(), strict=True):
            part.suptitle(short(title, 40))
            each.draw(part)
        return result


@dataclass(frozen=True, eq=False)
class Matrices:
    """The matrices of a run.

    Args:
        variables: The conditions that the kernel reads.
        rows: The samples, in order of these.
        drawn: Title and matrix of each panel, and the values at the ends of its colors; None: the
            matrix's own.
    """

    variables: Sequence[Values]
    rows: Tensor
    drawn: Sequence[tuple[str, Tensor, tuple[float, float] | None]]

    @classmethod
    def of(cls, reading: KernelReading, run: Run) -> Matrices:
        """The matrices of the objective that reads the conditions."""
        by_name = variables_of(run, reading)
        variables = [*by_name.values()]
        name = " and ".join(short(each.name) for each in variables)
        rows = known_rows(variables, min(MOST, run.record["fit"]["batch_size"]))
        rows = rows[in_joint_order([each.values[rows] for each in variables])]
        values = {name: each.values[rows] for name, each in by_name.items()}
        with torch.no_grad():
            kernel = reading.matrix(values)
        drawn: list[tuple[str, Tensor, tuple[float, float] | None]] = [
            (f"K: similarity of {name} ({reading.kernel_name})", kernel, None)
        ]
        if (weights := operator(reading, values)) is not None:
            ridge = float(reading.objective.ridge)
            form = "" if reading.objective.form == "paper" else f", {reading.objective.form}"
            title = f"W: conditional operator (ridge {ridge:g}{form})"
            drawn.append((title, weights, _limits(reading.objective, weights)))
        return cls(variables, rows, drawn)

    def draw(self, part: Any) -> None:
        """Draw the matrices side by side on a figure, or a part of one."""
        panels = part.subplots(1, len(self.drawn), squeeze=False)[0]
        for panel, (title, matrix, limits) in zip(panels, self.drawn, strict=True):
            low, high = limits or (min(0.0, float(matrix.min())), float(matrix.max()))
            image = panel.imshow(matrix.numpy(), cmap=NUMBERS, vmin=low, vmax=high)
            panel.set_title(title, pad=6 + 10 * len(self.variables))
            for place, each in enumerate(self.variables):
                _values_beside(panel, each, self.rows, place)
            above, below = bool(matrix.max() > high), bool(matrix.min() < low)
            extend = ("neither", "max", "min", "both")[above + 2 * below]
            bar = part.colorbar(image, ax=panel, shrink=0.75, aspect=25, extend=extend)
            bar.outline.set_visible(False)
        of_numbers = all(z.values.ndim == 1 or z.values.shape[1] == 1 for z in self.variables)
        order = "in order of Z" if of_numbers else "similar Z together"
        part.supxlabel(
            f"{len(self.rows)} training samples, {order}; the bars at the sides are Z ="
            f" {' and '.join(short(each.name) for each in self.variables)}",
            fontsize=8,
        )


def in_joint_order(values: Sequence[Tensor]) -> Tensor:
    """An order of samples by several variables: by class ids first, and within each by the others."""
    order = torch.arange(len(values[0]))
    for z in sorted(values, key=lambda each: not each.is_floating_point()):  # the last sort decides
        order = order[in_order(z[order])]
    return order


def in_order(z: Tensor) -> Tensor:
    """An order of samples in which neighbors have similar values.

    Of one column, the order of its values; of several, the order of the leaves of a tree of clusters
    (average linkage) in which neighbors are as similar as the tree allows.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    z = z.reshape(len(z), -1)
    if z.shape[1] == 1 or not z.is_floating_point() or len(z) < 3:
        # A hierarchy: by its first level, then the next.
        return torch.from_numpy(np.lexsort(z.T.flip(0).numpy()))
    tree = linkage(z.double().numpy(), "average", optimal_ordering=True)
    return torch.from_numpy(leaves_list(tree)).long()


def operator(reading: KernelReading, values: Mapping[str, Tensor]) -> Tensor | None:
    """(m, m) the conditional operator, as the objective computes it; None if it has none.

    Args:
        reading: The objective and its kernel.
        values: By condition.
    """
    objective = reading.objective
    if not isinstance(objective, CCLK):
        return None
    size = len(values[reading.names[0]])
    pairs = objective.joined(in_batch(torch.zeros(2, size, 1), Samples(values)))
    with torch.no_grad():
        return objective.operator(pairs, 0)(slice(None))


def _limits(objective: Any, weights: Tensor) -> tuple[float, float]:
    """The weights at the ends of the color scale, which begins at 0 if the loss clips negative weights."""
    others = weights[~torch.eye(len(weights), dtype=torch.bool)].double()
    high = float(torch.quantile(others.clamp_min(0), 0.995))
    literal = objective.negative_weights == "keep"
    low = float(others.min()) if literal else 0.0
    return low, high if high > low else low + 1.0


def _values_beside(panel: Any, z: Values, rows: Tensor, place: int = 0) -> None:
    """Draw the values as colored bars above and to the left of a matrix, at a distance from it."""
    colors, away = value_colors(z, rows), 0.045 * place
    top = panel.inset_axes((0, 1.015 + away, 1, 0.035))
    left = panel.inset_axes((-0.05 - away, 0, 0.035, 1))
    top.imshow(colors[None], aspect="auto")
    left.imshow(colors[:, None], aspect="auto")
    for axes in (panel, top, left):
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)


def value_colors(z: Values, rows: Tensor) -> Any:
    """(n, 4) a color for each value of Z at these rows."""
    import matplotlib
    from matplotlib.colors import Normalize, to_rgba_array

    if z.are_colors:
        return to_rgba_array(z.colors(rows).double().numpy())
    if z.ids is not None:
        ids = z.ids[rows]
        classes = ids.unique().tolist()
        palette = to_rgba_array(class_colors(len(classes)))
        return palette[[classes.index(i) for i in ids.tolist()]]
    line = z.line(rows).numpy()
    return matplotlib.colormaps[NUMBERS](Normalize()(line))
