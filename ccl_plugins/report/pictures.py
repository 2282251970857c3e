"""The pictures of a report: every available figure, and the nearest neighbors of some images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

import ccl_registry as engine
from ccl_plugins.experiments.neighbors import data_uri, nearest, thumbnail
from ccl_plugins.figures.samples import Values, column
from ccl_plugins.figures.style import png, svg
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import trait

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run

LARGEST = 400_000
"""The bytes of an SVG above which a picture becomes a PNG, whose size does not grow with the points."""

QUERIES = 5
"""The number of test samples whose neighbors are shown."""

NEIGHBORS = 6
"""The number of neighbors of each."""

BANK = 10_000
"""The most training samples among which neighbors are searched."""


def offered_figures() -> list[engine.ComponentSpec]:
    """The figures by name, built-in ones first; none is imported."""
    return sorted(registry().specs("figure"), key=lambda spec: spec.plugin != registry().host)


def draw(
    choice: engine.Choice, runs: Mapping[str, Run], first: Mapping[str, Run]
) -> tuple[Figure, str]:
    """Draw runs, with a caption.

    Args:
        choice: The figure.
        runs: The runs by title.
        first: The first run of each configuration, which a figure with ``side_by_side`` gets.

    Raises:
        DoesNotApply: If the figure raises it.
        TypeError: For a figure that does not return a figure.
    """
    from matplotlib.figure import Figure

    built: Any = choice.build({})
    drawn = built(first if trait(built, "side_by_side") else runs)
    if not isinstance(drawn, Figure):
        raise TypeError(f"{choice.spec.label} must return a matplotlib Figure, not {drawn!r:.80}")
    return drawn, trait(built, "caption") or registry().summary(choice.spec)


def pictures(runs: Mapping[str, Run], first: Mapping[str, Run]) -> dict[str, dict[str, Any]]:
    """Each figure with its title and caption, or the reason why it is not drawn, by its name.

    Args:
        runs: The runs by title.
        first: The first run of each configuration.
    """
    from tqdm import tqdm  # type: ignore[import-untyped]  # it ships no types

    # A bar on a terminal, if it takes more than two seconds.
    specs = tqdm([*offered_figures()], "draw", unit=" pictures", delay=2, disable=None, leave=False)
    return {registry().short_name(spec): _picture_of(spec, runs, first) for spec in specs}


def _picture_of(
    spec: engine.ComponentSpec, runs: Mapping[str, Run], first: Mapping[str, Run]
) -> dict[str, Any]:
    title = spec.name.replace("_", " ").capitalize()
    try:
        figure, caption = draw(registry().choose("figure", spec.id), runs, first)
        return {
            "title": title,
            "caption": caption,
            "alt": f"{title}. {caption}",
            **_embedded(figure),
        }
    except Exception as error:  # a plug-in's figure may fail: it costs its own picture alone
        caption = registry().summary(spec)
        return {"title": title, "caption": caption, "src": "", "reason": engine.one_line(error)}


def _embedded(figure: Figure) -> dict[str, Any]:
    """A figure as an embedded image, with its size in pixels of the page."""
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    content, media_type = svg(figure).encode(), "image/svg+xml"
    if len(content) > LARGEST:
        content, media_type = png(figure), "image/png"
    return {"src": data_uri(content, media_type), "width": width, "height": height}


def neighbors(runs: Mapping[str, Run]) -> Iterator[dict[str, Any]]:
    """For some test samples, the nearest training samples by each run's features."""
    first = next(iter(runs.values()))
    train, test = first.splits
    labels, known = (column(first, "label", split) for split in ("test", "train"))
    rows = _queries(labels)
    # Features of millions of images would take hours, for five rows of pictures.
    bank = torch.linspace(0, len(train) - 1, min(BANK, len(train)), dtype=torch.float64).long()
    places = bank.tolist()
    k = min(NEIGHBORS, len(places))
    near = {}
    for name, run in runs.items():
        train_split, test_split = run.splits
        features = (
            run.features("train").features
            if len(places) == len(train_split)
            else _encoded(run, train_split, places)
        )
        near[name] = bank[nearest(_encoded(run, test_split, rows), features, k)[0]]
    for place, row in enumerate(rows):
        label = labels.text(row)
        yield {
            "index": row,
            "label": label,
            "src": _picture(test[row][0]),
            "rows": [
                {
                    "label": name,
                    "found": [
                        {
                            "index": i,
                            "label": (other := known.text(i)),
                            "same": other == label != "none",
                            "src": _picture(train[i][0]),
                        }
                        for i in each[place].tolist()
                    ],
                }
                for name, each in near.items()
            ],
        }


def _encoded(run: Run, split: Any, rows: Sequence[int]) -> Any:
    """The features of some samples, whose images are in memory a part at a time."""
    parts = torch.tensor(rows).split(512)
    return torch.cat([run.encode([split[i][0] for i in part.tolist()]) for part in parts])


def _picture(image: Any) -> str:
    encoded = thumbnail(image)
    return data_uri(*encoded) if encoded else ""


def _queries(labels: Values) -> list[int]:
    """The first test sample of each of some classes, evenly spaced among all, or the first samples."""
    ids = labels.ids
    classes = [] if ids is None else ids[ids >= 0].unique().tolist()
    if ids is None or not classes:
        return list(range(min(QUERIES, len(labels.values))))
    n = min(QUERIES, len(classes))
    chosen = [classes[i * len(classes) // n] for i in range(n)]
    return [int((ids == each).nonzero()[0]) for each in chosen]
