"""The figure ``anchor``."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.arguments import whole
from ccl_plugins.figures.samples import same_data
from ccl_plugins.figures.style import FAINT, MARKERS, RUNS, TEXT, figure, short, styled
from ccl_plugins.objectives.base import own_terms
from ccl_plugins.objectives.scalars import count_epochs
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import DoesNotApply, Sizes, trait
from ccl_plugins.training.loader import Batch, Items, augment, collate
from ccl_plugins.training.sampling import Batches, Consumed, EpochSampler
from ccl_plugins.training.step import take_step
from ccl_plugins.training.tables import Tables
from ccl_plugins.transforms.modalities import IMAGE, column_of, modality_of_each, sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run

MOST = 512
"""The most samples of a batch that are embedded."""
ROWS = (
    "positives that\nweigh most",
    "positives that\nweigh least",
    "negatives that\nweigh most",
    "negatives that\nweigh least",
)


@dataclass(frozen=True, eq=False)
class Weights:
    """How strongly a loss pulls an anchor to the other samples of a batch and a queue, and pushes it away.

    Args:
        index: The anchor's index in the training split.
        views: The views of the anchor's sample, the anchor's first. A view of another modality than
            the image is given as its text, or its values as words; if the modality reads no column,
            as the anchor's view.
        own: The share of the pull of each own key, by its view.
        positives: The other samples that the anchor is pulled to, ``[(share of the pull, index)]``,
            largest share first.
        negatives: The samples that the anchor is pushed from, ``[(share of the push, index)]``,
            largest first; samples that the loss leaves out have a share of 0.
        modalities: The modality of each view.
    """

    index: int
    views: list[Tensor | str]
    own: dict[int, float]
    positives: list[tuple[float, int]]
    negatives: list[tuple[float, int]]
    modalities: tuple[str, ...]


class Anchor:
    """One sample, and the samples that weigh most and least in its loss, by run.

    A weight is the derivative of the anchor's loss with respect to its inner product with a key:
    for InfoNCE, the softmax of the similarities, for CCL-K the operator's weight times the
    exponential, for CACR the conditional distributions π⁺ and π⁻. Weights above 0 push the anchor
    away (negatives), weights below 0 pull it (positives); each number is the share of the whole
    push or pull. Weights that an objective computes with gradient are held constant. The batch is
    the run's first training batch with the anchor, with the same augmentations, embedded by the
    trained networks; a queue is included.

    Args:
        index: The anchor's index in the training split; None: the first sample of the first run's first
            batch.
        shown: Samples in each row, 1 to 64.

    Source:
        Zheng et al., Contrastive Attraction and Contrastive Repulsion for Representation Learning (2023),
        figure 6.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"shown": 2}
    side_by_side = True

    def __init__(self, index: int | None = None, shown: int = 5) -> None:
        self.index = index
        self.shown = whole("shown", shown, 1, 64)

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs of one data set, a column each.

        Raises:
            DoesNotApply: For runs of different data sets, samples that are not images, and
                objectives that do not compare anchors with keys.
            ValueError: For an index without a sample or in no batch.
        """
        same_data(runs)
        by_title, index = dict[str, Weights](), self.index
        for title, run in runs.items():
            by_title[title] = weights(run, index)
            index = by_title[title].index
        split = next(iter(runs.values())).splits[0]

        def images(place: int) -> Any:
            return as_picture(split[place][0])

        images(by_title[next(iter(runs))].index)  # what is no image is refused before drawing
        rows = [r for r in range(4) if any(_row(each, r, self.shown) for each in by_title.values())]
        height = 0.85 * (len(rows) + 1) + 0.3
        result = figure(0.9 + 3.4 * len(runs), height + 2.2)
        parts: Any = result.subfigures(2, 1, height_ratios=[height, 2.2])
        gaps = [*([1] * self.shown + [0.3]) * len(by_title)][:-1]
        grid = parts[0].add_gridspec(len(rows) + 1, len(gaps), width_ratios=gaps)
        for column, (title, each) in enumerate(by_title.items()):
            first_panel = column * (self.shown + 1)
            panels = [
                [parts[0].add_subplot(grid[line, first_panel + i]) for i in range(self.shown)]
                for line in range(len(rows) + 1)
            ]
            _draw_column(panels, title, each, rows, images, names=column == 0)
        _draw_ranks(parts[1].subplots(), by_title)
        return result


def weights(run: Run, index: int | None = None) -> Weights:
    """The weights of a batch's samples in the loss of one anchor; see `Anchor`.

    Raises:
        DoesNotApply: If the objective does not compare anchors with keys, or compares anchors with
            each other.
        ValueError: For an index without a sample or in no batch.
    """
    tables, batch, place = _batch(run, index)
    run.parts.method.to("cpu")
    objective = run.parts.objective.to("cpu")
    step, total = run.progress
    count_epochs(objective, total / run.pipeline.settings.epochs)
    trait(objective, "progress")(max(step - 1, 0), total)
    with torch.no_grad():
        _, pairs = take_step(run.parts, tables, batch)
    # After a run is read back, objectives that collect numbers in a step have no buffers for them.
    width = pairs.anchors.shape[-1]
    features = width if pairs.samples.features is None else pairs.samples.features.shape[-1]
    sizes = Sizes(len(run.splits[0]), width, features, total)
    trait(objective, "setup")({name: tables.with_values(name) for name in tables}, sizes)
    batched, queued = derivatives(objective, pairs, place)
    own = {view: -float(w) for view, w in zip(pairs.key_views, batched[:, place], strict=True)}
    others = batched.sum(0)
    samples = batch.index if batch.index.ndim == 1 else batch.index[:, -1]
    listed = [(float(w), int(i)) for w, i in zip(others, samples, strict=True)]
    del listed[place]
    if pairs.queue is not None and pairs.queue.index is not None:
        listed += [(float(w), int(i)) for w, i in zip(queued, pairs.queue.index, strict=True)]
    listed.sort(key=lambda each: (-each[0], each[1]))
    # Exponents are clamped, so a pair without weight may have 1e-260.
    none = 1e-12 * max(abs(w) for w in [*(w for w, _ in listed), *own.values()])
    listed = [(w if abs(w) > none else 0.0, i) for w, i in listed]
    own = {view: w for view, w in own.items() if w > none}
    pull = sum(-w for w, _ in listed if w < 0) + sum(own.values())
    push = sum(w for w, _ in listed if w > 0)
    if not pull and not push:
        raise DoesNotApply(f"{type(objective).__name__} does not compare anchors with keys")
    first = batch.index.flatten()[place * batch.index[0].numel()]
    return Weights(
        index=int(first),
        views=_shown(run, batch, place),
        own={view: w / pull for view, w in own.items()},
        positives=[(-w / pull, i) for w, i in reversed(listed) if w < 0],
        negatives=[(w / push, i) for w, i in listed if w >= 0] if push else [],
        modalities=modality_of_each(run.parts.transform),
    )


def _shown(run: Run, batch: Batch, place: int) -> list[Tensor | str]:
    """The views of a sample for drawing: images, and for other modalities the text or the values."""
    columns = sources(run.parts.transform)
    sample = int(batch.index[place].flatten()[-1])  # views after the first are of a partner
    shown: list[Tensor | str] = []
    for name, view in zip(modality_of_each(run.parts.transform), batch.views, strict=True):
        if (column := columns[name]) is None:
            shown.append((view if name == IMAGE else batch.views[0])[place])
            continue
        given = column_of(run.splits[0], column)[sample]
        shown.append(given if isinstance(given, str) else str(torch.as_tensor(given).tolist()))
    return shown


def derivatives(objective: Any, pairs: Pairs, place: int) -> tuple[Tensor, Tensor]:
    """The derivative of one anchor's loss with respect to its inner product with each key.

    Args:
        objective: The objective.
        pairs: The pairs of a batch; the anchor is of the first view.
        place: The anchor's place in the batch.

    Returns:
        (v, m) for the keys of the batch and (q,) for the queue, float64.

    Raises:
        DoesNotApply: If the anchor's loss depends on the keys not only through these products.
    """
    first = pairs.anchors[:1].detach().double()
    keys = pairs.keys.detach().double().requires_grad_()
    queue, features = pairs.queue, pairs.samples.features
    if queue is not None:
        leaf = queue.of_view(0).detach().double().requires_grad_()
        queue = replace(queue, keys=leaf)
    one_view = replace(
        pairs,
        anchors=first,
        anchor_views=pairs.anchor_views[:1],
        keys=keys,
        queue=queue,
        samples=replace(pairs.samples, features=None if features is None else features[:1]),
    )
    leaves = [keys] if queue is None else [keys, queue.keys]
    with torch.enable_grad(), _constant_weights(objective):
        values, weights = own_terms(objective, one_view)
        counted = weights[:, place].detach().double()
        loss = (values[:, place] * counted).sum() / counted.sum().clamp_min(1e-300)
        gradients: Sequence[Tensor] = [torch.zeros_like(leaf) for leaf in leaves]
        if loss.requires_grad:
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    multiples = [
        _along(first[0, place], leaf.detach(), gradient, objective)
        for leaf, gradient in zip(leaves, gradients, strict=True)
    ]
    return multiples[0], multiples[1] if queue is not None else keys.new_zeros(0)


def _along(anchor: Tensor, keys: Tensor, gradient: Tensor, objective: Any) -> Tensor:
    """The gradients (..., d) at unit keys as multiples of the anchor, both in the keys' tangent space."""
    across = anchor - (keys @ anchor)[..., None] * keys
    gradient = gradient - (gradient * keys).sum(-1, keepdim=True) * keys
    multiples = (gradient * across).sum(-1) / across.square().sum(-1).clamp_min(1e-12)
    rest = (gradient - multiples[..., None] * across).norm(dim=-1)
    if rest.max() > 1e-5 * gradient.norm(dim=-1).max().clamp_min(1e-12):
        raise DoesNotApply(
            f"the loss of {type(objective).__name__} is not a mean over anchors, so samples have "
            "no weight for one anchor"
        )
    return multiples


@contextmanager
def _constant_weights(objective: Any) -> Iterator[None]:
    """Hold constant the weights that an objective computes from the embeddings."""
    having = [each for each in objective.modules() if hasattr(each, "weight_gradient")]
    before = [each.weight_gradient for each in having]
    for each in having:
        each.weight_gradient = False
    try:
        yield
    finally:
        for each, value in zip(having, before, strict=True):
            each.weight_gradient = value


def _batch(run: Run, index: int | None) -> tuple[Any, Batch, int]:
    """The tables, the first training batch with a sample (at most 512 of it), and the sample's place."""
    split, settings = run.splits[0], run.pipeline.settings
    if index is not None and not 0 <= index < len(split):
        raise ValueError(f"index must be from 0 to {len(split) - 1}, not {index}")
    tables = Tables(run.parts.conditions, len(split), settings.seed)
    fitted = run.condition_tables().items()
    tables.load_state_dict(
        {name: {"values": t.values, "extras": t.extras, "epoch": 0} for name, t in fitted}
    )
    sampler = EpochSampler(run.parts, tables, settings, split)
    batches = Batches(sampler, Consumed(), settings.batch_size)
    for keys in batches:
        places = [i for i, key in enumerate(keys) if index in (None, key[2])]
        if not places:
            continue
        if places[0] >= MOST:
            keys[0], keys[places[0]], places = keys[places[0]], keys[0], [0]
        transform = run.parts.transform
        batched, masking = bool(trait(transform, "batch_transforms")), trait(run.method, "masking")
        items = Items(split, transform, settings.seed, batched, masking)
        batch = collate(items.__getitems__(keys[:MOST]))
        return tables, augment(transform, batch), places[0]
    raise ValueError(f"sample {index} is in no batch of the first epoch: give another index")


def as_picture(image: Any) -> Any:
    """An image, as PIL or (channels, height, width), as an array (height, width, 3) from 0 to 1.

    An image with other values, such as a normalized one, is rescaled to 0 to 1; of more than three
    channels, the first three are shown.

    Raises:
        DoesNotApply: For samples that are not images.
    """
    if isinstance(image, torch.Tensor):
        if image.ndim != 3:
            raise DoesNotApply(
                f"the samples are not images: they have shape {tuple(image.shape)}, not (3, h, w)"
            )
        shown = image[: 3 if len(image) > 2 else 1]
        array = shown.permute(1, 2, 0).double().numpy()
        if image.dtype == torch.uint8:
            array = array / 255
    elif hasattr(image, "convert"):
        array = np.asarray(image.convert("RGB"), dtype="float64") / 255
    else:
        raise DoesNotApply(f"the samples are not images: they are {type(image).__name__}")
    if array.min() < 0 or array.max() > 1:
        array = (array - array.min()) / max(float(array.max() - array.min()), 1e-12)
    return array.repeat(3, 2) if array.shape[2] == 1 else array


def _row(weighed: Weights, row: int, count: int) -> list[tuple[float, int]]:
    """The samples in one of `ROWS`."""
    listed = weighed.positives if row < 2 else weighed.negatives
    if row % 2 == 0:
        return listed[:count]
    return listed[count:][-count:]


def _draw_column(
    panels: list[list[Any]],
    title: str,
    weighed: Weights,
    rows: list[int],
    images: Callable[[int], Any],
    names: bool,
) -> None:
    panels[0][len(panels[0]) // 2].set_title(short(title, 40))
    for panel in itertools.chain(*panels):
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
    shown = [("anchor", weighed.views[0])]
    of = ["" if each == weighed.modalities[0] else f"{each} " for each in weighed.modalities]
    shown += [(of[v] + _percent(share), weighed.views[v]) for v, share in weighed.own.items()]
    for panel, (text, view) in zip(panels[0], shown[: len(panels[0])], strict=False):
        if isinstance(view, str):
            words = textwrap.fill(textwrap.shorten(view, 60, placeholder="..."), 14)
            panel.text(0.5, 0.5, words, ha="center", va="center", fontsize=6)
        else:
            panel.imshow(as_picture(view))
        panel.set_xlabel(text, fontsize=8)
    if names:
        _name_row(panels[0][0], "anchor and its\nown keys")
    for line, row in zip(panels[1:], rows, strict=True):
        for panel, (share, index) in zip(line, _row(weighed, row, len(line)), strict=False):
            panel.imshow(images(index))
            panel.set_xlabel(_percent(share), fontsize=8)
        if names:
            _name_row(line[0], ROWS[row])


def _name_row(panel: Any, text: str) -> None:
    panel.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)


def _percent(share: float) -> str:
    percent = 100 * share
    if 0 < percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def _draw_ranks(panel: Any, by_title: Mapping[str, Weights]) -> None:
    """The negatives' shares in falling order."""
    from matplotlib.ticker import LogFormatter

    lines = []
    numbers = {len(each.negatives) for each in by_title.values()}
    for (title, each), color, marker in zip(
        by_title.items(), itertools.cycle(RUNS), itertools.cycle(MARKERS), strict=False
    ):
        shares = [100 * share for share, _ in each.negatives if share > 0]
        first: dict[str, Any] = {"marker": marker, "ms": 5, "markevery": len(shares) + 1}
        ranks = range(1, len(shares) + 1)
        lines += panel.plot(ranks, shares, color=color, label=short(title), **first)
    panel.set_yscale("log")
    panel.set_ylim(bottom=max(panel.get_ylim()[0], 0.1 / max(numbers | {1})))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(LogFormatter())  # matplotlib's own writes formulas
    if len(numbers) == 1 and 0 not in numbers:
        equal = 100 / max(numbers)
        panel.axhline(equal, color=FAINT, lw=0.8, ls=":")
        place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
        panel.annotate("equal weights", (0.99, equal), fontsize=7, color=TEXT, **place)
    panel.set_xlabel("negatives, in order of their weight")
    panel.set_ylabel("share of the push in %")
    panel.set_title(
        "weight: derivative of the anchor's loss by its product with a key;\n"
        "in %: its share of the whole pull (positives) or push (negatives)",
        fontsize=7.5,
    )
    panel.legend(handles=lines)
