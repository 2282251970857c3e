"""The figure ``similarity``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.figures.samples import (
    Values,
    features,
    kernel_reading,
    known_rows,
    of_applicable,
    same_data,
    sampled,
    variables_of,
)
from ccl_plugins.figures.style import FAINT, RUNS, TEXT, figure, short, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run
    from ccl_plugins.training.kernel_check import KernelReading

MOST = 1000
"""The most samples whose pairs are compared."""
BINS = 20

FEW = 5
"""A kernel with at most this many values has a box for each, in place of a line through bins."""


class Similarity:
    """Pairs of samples: the similarity of a condition Z, and the similarity of the features.

    Each pair of samples is a point: the kernel's similarity of Z, and the cosine of the centered
    features. The line is the mean in 20 bins of equal numbers of pairs, and the band holds the
    middle 80 % of each bin. A kernel of few values, such as ``delta``, has a box of the middle half
    for each value, with whiskers to the middle 80 %. If the line rises, samples of similar Z have
    similar features: the features encode Z. If it is flat, they do not. Pairs of at most 1000
    training samples are drawn. The kernel is that of the first run that reads the condition through
    one.

    Args:
        condition: The name of the condition, or of its column; None: the first one that a kernel reads.
    """

    side_by_side = True

    def __init__(self, condition: str | None = None) -> None:
        self.condition = condition

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs of one data set, a panel each, without those whose features have collapsed.

        Raises:
            DoesNotApply: If no objective reads the condition through a kernel, or no run has features that
                differ; for runs of different data sets.
        """
        same_data(runs)
        by, variables, rows = next(iter(of_applicable(runs, self._known).values()))
        with torch.no_grad():
            kernel = by.matrix({name: each.values[rows] for name, each in variables.items()})
        kernel = _pairs(kernel)
        name = " and ".join(short(each.name) for each in variables.values())
        drawn = of_applicable(runs, lambda run: features(run, "train", rows).double())
        result = figure(0.6 + 3.3 * len(drawn), 3.3)
        panels = result.subplots(1, len(drawn), squeeze=False, sharey=True, sharex=True)[0]
        for panel, (title, vectors), color in zip(panels, drawn.items(), cycle(RUNS), strict=False):
            unit = functional.normalize(vectors - vectors.mean(0), dim=1)
            cosine = _pairs(unit @ unit.T)
            _draw_pairs(panel, kernel, cosine, color)
            r = float(torch.corrcoef(torch.stack([kernel, cosine]))[0, 1])  # Pearson's
            shown = "no r, as one is constant" if math.isnan(r) else f"r = {r:.2f}"
            panel.set_title(f"{short(title)}: {shown}")
            panel.set_xlabel(f"similarity of {name} ({by.kernel_name})")
        panels[0].set_ylabel("cosine of features")
        return result

    def _known(self, run: Run) -> tuple[KernelReading, dict[str, Values], Tensor]:
        """The objective and kernel that read the condition in a run, and the samples with a value."""
        by = kernel_reading(run, self.condition)
        variables = variables_of(run, by)
        return by, variables, known_rows(variables.values(), MOST)


def _pairs(matrix: Tensor) -> Tensor:
    """(n (n - 1) / 2,) the entries (n, n) of every pair of samples."""
    i, j = torch.triu_indices(len(matrix), len(matrix), 1)
    return matrix[i, j].double()


def binned(kernel: Tensor, cosine: Tensor, bins: int = BINS) -> Tensor:
    """(bins, 4) mean kernel, mean cosine, and its 10th and 90th percentile, in bins of equal numbers."""
    order = kernel.argsort(stable=True)
    rows = []
    for part in order.tensor_split(bins):
        if len(part):
            some = cosine[part]
            ends = torch.quantile(some, some.new_tensor([0.1, 0.9]))
            rows.append(torch.stack([kernel[part].mean(), some.mean(), *ends]))
    return torch.stack(rows)


def _draw_pairs(panel: Any, kernel: Tensor, cosine: Tensor, color: str) -> None:
    panel.axhline(0, color=TEXT, lw=0.6)
    values = kernel.unique()
    if len(values) <= FEW:
        width = 0.5 * (float(values.diff().min()) if len(values) > 1 else 1.0)
        panel.boxplot(
            [cosine[kernel == value].numpy() for value in values],
            positions=values.tolist(),
            widths=width,
            whis=(10, 90),
            showfliers=False,
            manage_ticks=False,
            boxprops={"color": color},
            medianprops={"color": color},
            whiskerprops={"color": color},
            capprops={"color": color},
        )
        panel.set_xticks(values.tolist())
        return
    x, mean, low, high = binned(kernel, cosine).numpy().T
    drawn = sampled(len(kernel), 3000)
    panel.scatter(kernel[drawn], cosine[drawn], s=2, color=FAINT, alpha=0.25, lw=0, rasterized=True)
    panel.fill_between(x, low, high, color=color, alpha=0.25, lw=0)
    panel.plot(x, mean, color=color, marker="o", ms=3)
