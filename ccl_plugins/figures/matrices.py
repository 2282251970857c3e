"""Figures of the kernel of a condition: as a matrix, and against the similarity of features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ccl_plugins.figures.samples import (
    DoesNotApply,
    Variable,
    column_of,
    conditions_of,
    features,
    same_data,
    some,
    variable,
)
from ccl_plugins.figures.style import (
    FAINT,
    NUMBERS,
    RUNS,
    TEXT,
    class_colors,
    figure,
    short,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from ccl_plugins.experiments.pipeline import Run

MOST = 256
"""Samples of a matrix."""
MOST_COMPARED = 1000
"""Samples whose pairs are compared with the kernel."""
BINS = 20


@dataclass(frozen=True, eq=False)
class Reader:
    """An objective that reads a condition through a kernel, or several conditions.

    Args:
        names: The names of the conditions.
        kernel: The kernel.
        objective: The objective, or the part of a mixture.
    """

    names: tuple[str, ...]
    kernel: Any
    objective: Any

    @property
    def kernel_name(self) -> str:
        """The kernel with its scale, if it has one."""
        scale = getattr(self.kernel, "scale", None)
        return type(self.kernel).__name__ + ("" if scale is None else f", scale {scale}")

    def variables(self, run: Run) -> list[Variable]:
        """What is known of the conditions."""
        return [variable(run, name) for name in self.names]

    def values(self, variables: Sequence[Variable], rows: Tensor) -> Any:
        """What the kernel takes of some samples: values, or those of several conditions by name."""
        values = [each.values[rows] for each in variables]
        return values[0] if len(values) == 1 else dict(zip(self.names, values, strict=True))


def reader(run: Run, condition: str | None = None) -> Reader:
    """The first objective of a run that reads a condition, or several, through a kernel.

    Raises:
        DoesNotApply: If there is none.
    """
    from ccl_plugins.training.kernel_check import kernel_of

    found = [
        Reader(names, kernel, each)
        for each in run.parts.objective.modules()
        for kernel, names in kernel_of(each)
    ]
    if condition is not None:
        found = [
            each
            for each in found
            if any(condition in (name, _column(run, name)) for name in each.names)
        ]
    if not found:
        of = "a condition" if condition is None else f"condition {condition!r}"
        raise DoesNotApply(f"no objective of {run.path} reads {of} through a kernel")
    return found[0]


def _column(run: Run, name: str) -> str | None:
    return column_of(conditions_of(run).get(name))


def known_rows(z: Variable, most: int, *others: Variable) -> Tensor:
    """The places of at most so many samples that have a value, of the others too.

    Raises:
        DoesNotApply: If these have no two values.
    """
    from ccl_plugins.metadata.values import missing_rows

    named = " and ".join(repr(each.name) for each in (z, *others))
    missing = missing_rows(z.values, z.value_type)
    for each in others:
        missing = missing | missing_rows(each.values, each.value_type)
    known = (~missing).nonzero().flatten()
    rows = known[some(len(known), most)]
    if len(rows) < 3:
        raise DoesNotApply(f"condition {named} is known of {len(rows)} samples only")
    if all((each.values[rows] == each.values[rows[0]]).all() for each in (z, *others)):
        raise DoesNotApply(
            f"condition {named} has one value in all of {len(rows)} samples, so that nothing can be"
            " compared by it"
        )
    return rows


def in_joint_order(values: Sequence[Tensor]) -> Tensor:
    """An order of samples by several variables: by class ids first, and within each by the others."""
    import torch

    order = torch.arange(len(values[0]))
    for z in sorted(values, key=lambda each: not each.is_floating_point()):  # the last one decides
        order = order[in_order(z[order])]
    return order


def in_order(z: Tensor) -> Tensor:
    """An order of samples in which neighbors have similar values.

    Of one column, the order of its values; of several, the order of the leaves of a tree of clusters
    (average linkage) in which neighbors are as similar as the tree allows.
    """
    import torch

    if z.ndim == 1 or z.shape[1] == 1:
        return z.flatten().argsort(stable=True)
    from scipy.cluster.hierarchy import leaves_list, linkage

    if not z.is_floating_point() or len(z) < 3:  # a hierarchy: by its first level, then the next
        order = torch.arange(len(z))
        for column in reversed(z.unbind(1)):
            order = order[column[order].argsort(stable=True)]
        return order
    tree = linkage(z.double().numpy(), "average", optimal_ordering=True)
    return torch.from_numpy(leaves_list(tree)).long()


def operator(reader: Reader, values: Any) -> Tensor | None:
    """(m, m) the conditional operator, as the objective computes it; None if it has none.

    Args:
        reader: The objective.
        values: What its kernel takes.
    """
    import torch

    from ccl_plugins.numerics.kernel_functions import count_of
    from ccl_plugins.objectives.cclk import CCLK
    from ccl_plugins.pairs.pairs import in_batch
    from ccl_plugins.pairs.samples import Samples

    if not isinstance(reader.objective, CCLK):
        return None
    named = values if isinstance(values, Mapping) else {reader.names[0]: values}
    pairs = reader.objective.joined(in_batch(torch.zeros(2, count_of(values), 1), Samples(named)))
    with torch.no_grad():
        if reader.objective.form == "released":
            return reader.objective.released_operator(pairs, 0)
        return reader.objective.operator(pairs, 0)(slice(None))


@styled
def kernel_matrix(run: Run, condition: str | None = None) -> Figure:
    """Draw the kernel matrix K of a condition beside the conditional operator W, samples in order of Z.

    K is the similarity of two samples' conditions.  Row i of W has the weight of every sample in the
    conditional expectation of sample i (eq. 6), which the objectives of CCL-K use.  Beside both, the
    values of Z are drawn as colors.  The samples are at most 256 training samples, and no more than a
    batch, since W depends on their number.  The colors of W end at its 99.5th percentile beside the
    diagonal, which is far larger, and at 0 where the loss takes weights below as 0.

    Args:
        run: The run.
        condition: The name of the condition; None: the first one that a kernel reads.

    Raises:
        ValueError: If no objective of the run reads the condition through a kernel.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), figure 2.
    """
    import torch

    from ccl_plugins.numerics.kernel_functions import similarities

    found = reader(run, condition)
    variables = found.variables(run)
    name = " and ".join(short(each.name) for each in variables)
    first, *others = variables
    rows = known_rows(first, min(MOST, run.record["fit"]["batch_size"]), *others)
    rows = rows[in_joint_order([each.values[rows] for each in variables])]
    values = found.values(variables, rows)
    with torch.no_grad():
        kernel = similarities(found.kernel, values, values)
    weights = operator(found, values)
    shown: list[tuple[str, Tensor, tuple[float, float] | None]] = [
        (f"K: similarity of {name} ({found.kernel_name})", kernel, None)
    ]
    if weights is not None:
        ridge = float(found.objective.ridge)
        form = "" if found.objective.form == "paper" else f", {found.objective.form}"
        title = f"W: conditional operator (ridge {ridge:g}{form})"
        shown.append((title, weights, _limits(found.objective, weights)))
    result = figure(0.4 + 4.0 * len(shown), 4.3)
    panels = result.subplots(1, len(shown), squeeze=False)[0]
    for panel, (title, matrix, limits) in zip(panels, shown, strict=True):
        low, high = limits or (min(0.0, float(matrix.min())), float(matrix.max()))
        image = panel.imshow(matrix.numpy(), cmap=NUMBERS, vmin=low, vmax=high)
        panel.set_title(title, pad=6 + 10 * len(variables))
        for place, each in enumerate(variables):
            _values_beside(panel, each, rows, place)
        above, below = bool(matrix.max() > high), bool(matrix.min() < low)
        extend = ("neither", "max", "min", "both")[above + 2 * below]
        bar = result.colorbar(image, ax=panel, shrink=0.75, aspect=25, extend=extend)
        bar.outline.set_visible(False)
    of_numbers = all(z.values.ndim == 1 or z.values.shape[1] == 1 for z in variables)
    order = "in order of Z" if of_numbers else "similar Z together"
    result.supxlabel(
        f"{len(rows)} training samples, {order}; the bars at the sides are Z ="
        f" {' and '.join(each.name for each in variables)}",
        fontsize=8,
    )
    return result


def _limits(objective: Any, weights: Tensor) -> tuple[float, float]:
    """The weights at the ends of the color scale: from 0, if the loss takes those below as 0."""
    import torch

    others = weights[~torch.eye(len(weights), dtype=torch.bool)].double()
    high = float(torch.quantile(others.clamp_min(0), 0.995))
    literal = objective.negative_weights == "keep"
    low = float(others.min()) if literal else 0.0
    return low, high if high > low else low + 1.0


def _values_beside(panel: Any, z: Variable, rows: Tensor, place: int = 0) -> None:
    """Draw the values as colored bars above and to the left of a matrix, at a place from it on."""
    colors, away = value_colors(z, rows), 0.045 * place
    top = panel.inset_axes((0, 1.015 + away, 1, 0.035))
    left = panel.inset_axes((-0.05 - away, 0, 0.035, 1))
    top.imshow(colors[None], aspect="auto")
    left.imshow(colors[:, None], aspect="auto")
    for each in (panel, top, left):
        each.set_xticks([])
        each.set_yticks([])
        for spine in each.spines.values():
            spine.set_visible(False)


def value_colors(z: Variable, rows: Tensor) -> Any:
    """(n, 4) a color for each value of Z at these rows."""
    import matplotlib
    from matplotlib.colors import Normalize, to_rgba_array

    if z.colors is not None:
        return to_rgba_array(z.colors[rows].double().numpy())
    if z.ids is not None:
        ids = z.ids[rows]
        classes = ids.unique().tolist()
        palette = to_rgba_array(class_colors(len(classes)))
        return palette[[classes.index(i) for i in ids.tolist()]]
    line = z.line()[rows].numpy()
    return matplotlib.colormaps[NUMBERS](Normalize()(line))


@styled
def similarity(run: Run | Mapping[str, Run], condition: str | None = None) -> Figure:
    """Draw the similarity of two samples' features against the kernel of their conditions.

    Each pair of samples is a point: how similar Z is, and how similar the features are (the cosine,
    after the mean of all features is subtracted).  The line is the mean in 20 bins of equal numbers of
    pairs, and the band holds the middle 80 % of each.  Where it rises, samples of similar Z have similar
    features: the features encode Z.  Where it is flat they do not.  Pairs of at most 1000 training
    samples are drawn.

    Args:
        run: A run, or several of one data set by their titles; the kernel is that of the first that
            reads the condition through one.
        condition: The name of the condition; None: the first one that a kernel reads.

    Raises:
        ValueError: If no objective reads the condition through a kernel; for runs of different data sets.
    """
    runs = run if isinstance(run, Mapping) else {"": run}
    same_data(runs)
    found, owner = _first_reader(runs, condition)
    variables = found.variables(owner)
    first, *others = variables
    rows = known_rows(first, MOST_COMPARED, *others)
    kernel = pairs_of_kernel(found.kernel, found.values(variables, rows))
    name = " and ".join(each.name for each in variables)
    result = figure(0.6 + 3.3 * len(runs), 3.3)
    panels = result.subplots(1, len(runs), squeeze=False, sharey=True, sharex=True)[0]
    for panel, (title, each), color in zip(panels, runs.items(), RUNS * len(runs), strict=False):
        cosine = pairs_of_features(features(each, "train", rows))
        _draw_pairs(panel, kernel, cosine, color)
        r = correlation(kernel, cosine)
        shown = "no r, as one is constant" if math.isnan(r) else f"r = {r:.2f}"
        panel.set_title(f"{short(title)}: {shown}".removeprefix(": "))
        panel.set_xlabel(f"similarity of {name} ({found.kernel_name})")
    panels[0].set_ylabel("cosine of features")
    return result


def _first_reader(runs: Mapping[str, Run], condition: str | None) -> tuple[Reader, Run]:
    why = []
    for run in runs.values():
        try:
            return reader(run, condition), run
        except DoesNotApply as error:
            why.append(str(error))
    raise DoesNotApply("; ".join(why))


def pairs_of_kernel(kernel: Any, values: Any) -> Tensor:
    """(n (n - 1) / 2,) the kernel of every pair of samples."""
    import torch

    from ccl_plugins.numerics.kernel_functions import similarities

    with torch.no_grad():
        return _upper(similarities(kernel, values, values).double())


def pairs_of_features(found: Tensor) -> Tensor:
    """(n (n - 1) / 2,) the cosine of every pair of samples' features about their mean."""
    from torch.nn import functional

    unit = functional.normalize(found.double() - found.double().mean(0), dim=1)
    return _upper(unit @ unit.T)


def _upper(matrix: Tensor) -> Tensor:
    import torch

    i, j = torch.triu_indices(len(matrix), len(matrix), 1)
    return matrix[i, j]


def correlation(a: Tensor, b: Tensor) -> float:
    """Pearson's correlation; NaN if one is constant."""
    import torch

    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


def binned(kernel: Tensor, cosine: Tensor, bins: int = BINS) -> Tensor:
    """(bins, 4) mean kernel, mean cosine, and its 10th and 90th percentile, in bins of equal numbers."""
    import torch

    order = kernel.argsort(stable=True)
    rows = []
    for part in order.tensor_split(bins):
        if len(part):
            some = cosine[part]
            ends = torch.quantile(some, some.new_tensor([0.1, 0.9]))
            rows.append(torch.stack([kernel[part].mean(), some.mean(), *ends]))
    return torch.stack(rows)


def _draw_pairs(panel: Any, kernel: Tensor, cosine: Tensor, color: str) -> None:
    x, mean, low, high = binned(kernel, cosine).numpy().T
    drawn = some(len(kernel), 3000)
    panel.scatter(kernel[drawn], cosine[drawn], s=2, color=FAINT, alpha=0.25, lw=0, rasterized=True)
    panel.fill_between(x, low, high, color=color, alpha=0.25, lw=0)
    panel.plot(x, mean, color=color, marker="o", ms=3)
    panel.axhline(0, color=TEXT, lw=0.6)
