"""The figure ``embedding_map``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.figures.samples import (
    Values,
    features,
    known_variables,
    of_applicable,
    same_data,
    sampled,
    variable,
)
from ccl_plugins.figures.style import FAINT, NUMBERS, TEXT, class_colors, figure, short, styled
from ccl_plugins.numerics.two_dimensions import Projection, project
from ccl_plugins.protocols import DoesNotApply

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run

NAMES = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
MOST = 1000
"""The most samples on a map; of more, this number is taken evenly."""
MOST_NAMED = 20
"""With more classes than this, names are left out."""
VECTORS = 1500
"""More points than this in a figure are drawn as pixels, because the SVG would be too large."""


class EmbeddingMap:
    """The features in two dimensions, colored by the label and by each condition.

    Samples near each other have similar features. If the colors of a row are ordered, the features
    encode that variable; samples without a value are pale. Test samples are shown, or training
    samples if a condition is known only for these; at most 1000.

    Args:
        by: Metadata columns and conditions, a row of maps each; None: the label and all conditions of all
            runs.  A column of colors (three numbers from 0 to 1) is shown in these colors.
        method: ``"pca"``: the two directions of largest variance; ``"tsne"``, which keeps neighbors
            together; ``"umap"``, which needs the extra ``umap``.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"method": "pca"}

    side_by_side = True
    caption = (
        "The features in two dimensions, similar samples near each other, colored by a variable. "
        "If colors form groups, the features encode the variable."
    )

    def __init__(self, by: str | Sequence[str] | None = None, method: Projection = "tsne") -> None:
        self.by = [by] if isinstance(by, str) else by
        one_of("method", method, get_args(Projection))
        self.method = method

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs of one data set, a column each, without those whose features have collapsed.

        Raises:
            DoesNotApply: If there is nothing to color the maps by, or no run has features that differ; for
                runs of different data sets, and names that are neither a column nor a condition.
            ImportError: For ``"umap"`` without the extra.
        """
        same_data(runs)
        split, shown = _rows(runs, self.by)
        if not shown:
            raise DoesNotApply(
                "every sample has a class of its own: name a column to color the map by"
            )
        number = len(next(iter(shown[next(iter(shown))].values())).values)
        drawn = sampled(number, MOST)
        points = of_applicable(runs, lambda run: project(features(run, split, drawn), self.method))
        result = figure(0.4 + 3.1 * len(points), 0.5 + 3.0 * len(shown))
        panels = result.subplots(len(shown), len(points), squeeze=False)
        many = panels.size * len(drawn) > VECTORS
        for row, variables in zip(panels, shown.values(), strict=True):
            for panel, (title, place) in zip(row, points.items(), strict=True):
                each = variables[title]
                _scatter(panel, place, each, drawn, many)
                panel.set(xticks=[], yticks=[])
                panel.spines[:].set(visible=True, alpha=0.4)
                panel.set_title(f"{short(title)}: by {short(each.name, 16)}")
            keys = [_key(panel) for panel in row]
            for panel, title in zip(row, points, strict=True):
                # Tables of one name may differ between runs.
                if panel is row[-1] or any(key != keys[0] for key in keys):
                    _explain(panel, variables[title])
        what = "all" if len(drawn) == number else f"{len(drawn)} of"
        samples = "test samples" if split == "test" else "training samples"
        caption = f"{NAMES[self.method]} of the features of {what} {number} {samples}"
        result.supxlabel(caption, fontsize=8, color=TEXT)
        return result


def _rows(
    runs: Mapping[str, Run], by: Sequence[str] | None
) -> tuple[str, dict[str, dict[str, Values]]]:
    """The split, and for each row the variable of each run: its own, or the first run's.

    The test split is taken if all variables are known there.
    """
    known = {title: known_variables(run) for title, run in runs.items()}
    wanted = dict.fromkeys(name for names in known.values() for name in names) if by is None else by
    if not wanted:
        raise DoesNotApply("there is no label and no condition to color a map by: name a column")
    try:
        return "test", _variables(runs, known, wanted, by is None, "test")
    except DoesNotApply:
        return "train", _variables(runs, known, wanted, by is None, "train")


def _variables(
    runs: Mapping[str, Run],
    known: Mapping[str, Mapping[str, str]],
    wanted: Iterable[str],
    by_default: bool,
    split: str,
) -> dict[str, dict[str, Values]]:
    rows = {}
    for shown in wanted:
        own = {}
        for title, run in runs.items():
            if shown not in known[title] and shown not in run.recorded.conditions:
                continue
            try:
                values = variable(run, known[title].get(shown, shown), split)
            except FileNotFoundError:  # a table, without the checkpoint that holds it
                if by_default:
                    continue
                raise
            own[title] = replace(values, name=shown)
        if not own and by_default:
            continue
        if not own:  # a column that is no condition
            own = {title: variable(run, shown, split) for title, run in runs.items()}
        first = next(iter(own.values()))
        row = {title: own.get(title, first) for title in runs}
        if not by_default or any(each.is_told_apart for each in row.values()):
            rows[shown] = row
    return rows


def _key(panel: Any) -> list[Any]:
    """The meaning of the colors: the limits of numbers, or the names of classes."""
    return [(each.get_clim(), each.get_label()) for each in panel.collections]


def _explain(panel: Any, by: Values) -> None:
    """Draw a color scale of numbers beside a map, or a legend of a few classes."""
    marks = panel.collections
    if by.ids is not None:
        if len(marks) <= MOST_NAMED:
            beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
            panel.legend(handles=marks, handletextpad=0.1, markerscale=1.3, **beside)
    elif not by.are_colors:
        several = by.values.ndim == 2 and by.values.shape[1] > 1
        label = short(by.name, 30) + " (first principal component)" * several
        panel.figure.colorbar(marks[-1], ax=panel, label=label, shrink=0.8, aspect=30)


def _scatter(panel: Any, points: Tensor, by: Values, drawn: Tensor, many: bool) -> None:
    """Draw the points; points without a value are pale."""
    options = {
        "s": 13 if len(points) <= 500 else 6,
        "linewidths": 0,
        "rasterized": many,
        "clip_on": False,
    }
    place = points.numpy().T
    if by.are_colors:
        # With an edge, since black and white points may have the color of the ground.
        edge = {"linewidths": 0.4, "edgecolors": FAINT}
        panel.scatter(*place, c=by.colors(drawn).numpy(), **{**options, **edge})
        return
    pale: dict[str, Any] = {"color": FAINT, "alpha": 0.3, "label": "none", **options}
    if by.ids is None:
        line = by.line(drawn)
        if line.isnan().any():
            panel.scatter(*points[line.isnan()].numpy().T, **pale)
        known = ~line.isnan()
        panel.scatter(*points[known].numpy().T, c=line[known].numpy(), cmap=NUMBERS, **options)
        return
    ids = by.ids[drawn]
    classes = ids[ids >= 0].unique().tolist()
    colors = class_colors(len(classes))
    if (ids < 0).any():
        panel.scatter(*points[ids < 0].numpy().T, **pale)
    for color, number in zip(colors, classes, strict=True):
        mine = points[ids == number].numpy().T
        panel.scatter(*mine, color=color, label=by.word(number)[:20], **options)
    if len(classes) <= MOST_NAMED:
        _name_classes(panel, points, ids, classes, by)


def _name_classes(panel: Any, points: Tensor, ids: Tensor, classes: list[int], by: Values) -> None:
    """Write a class's name amid its samples, if these are near each other."""
    from matplotlib.patheffects import withStroke

    for number in classes:
        mine = points[ids == number]
        center = mine[(mine - mine.median(0).values).square().sum(1).argmin()]
        nearest = (points - center).square().sum(1).topk(min(8, len(points)), largest=False).indices
        if (ids[nearest] == number).float().mean() <= 0.5:
            continue
        panel.annotate(
            by.word(number)[:20],
            center.tolist(),
            color="black",
            fontsize=9,
            fontweight="bold",
            ha="center",
            va="center",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )
