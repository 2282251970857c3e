"""Pictures of components on four images: what an objective pulls and pushes, what a kernel sees.

The weight of a key is the derivative of an anchor's loss by its inner product with that key, as in the
figure `anchor`; it needs nothing of an objective but its loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.figures.anchor import derivatives
from ccl_plugins.numerics.conditional_operator import conditional_operator
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.pairs.pairs import Pairs, in_batch
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import DoesNotApply, trait

IMAGES = 4
OWN = 0.1
"""The cosine of two views of an image."""
COSINES = [[1.0, 0.4, 0.6, 0.1], [0.4, 1.0, 0.2, 0.1], [0.6, 0.2, 1.0, 0.4], [0.1, 0.1, 0.4, 1.0]]
"""Cosines of the images; those of their views are these times `OWN`.  The third looks like the first."""
CONDITION = {
    "continuous": torch.tensor([[1.0, 0.0], [1.0, 0.03], [0.0, 1.0], [0.1, 1.0]]).double(),
    "categorical": torch.tensor([0, 0, 1, 1]),
    "multi_label": torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]]).double(),
}
"""The condition of the images, by value type; a component gets the first that it accepts."""
RIDGE = 0.01
CELL, GAP, MARGIN = 20, 8, 22


def batch(objective: Any) -> Pairs:
    """Two views of four images, the same at every build, with the conditions that an objective reads."""
    images = torch.linalg.cholesky(torch.tensor(COSINES).double()).expand(2, IMAGES, IMAGES)
    views = torch.eye(2 * IMAGES).double().view(2, IMAGES, 2 * IMAGES)
    embeddings = torch.cat([images * OWN**0.5, views * (1 - OWN) ** 0.5], -1)
    condition = {
        name: next(values for kind, values in CONDITION.items() if kind in kinds)
        for name, kinds in objective.conditions.items()
    }
    return in_batch(embeddings, Samples(condition, torch.arange(IMAGES)))


def weights(objective: Any) -> Tensor:
    """(4, 8) weights of the keys of both views for the anchors of the first; below 0 a key attracts.

    Of a loss that is no mean over anchors, the weights of each pair in the whole loss.

    Raises:
        DoesNotApply: For an objective that does not compare embeddings with each other.
    """
    if trait(objective, "reads_features") or objective.embedding == "raw":
        raise DoesNotApply("it does not compare projections with each other")
    pairs = batch(objective)
    found = of_pairs(objective, pairs)
    if objective.distributed == "mean":
        found = torch.stack([derivatives(objective, pairs, i)[0].flatten() for i in range(IMAGES)])
    return found.where(found.abs() > 1e-9 * found.abs().max(), 0)  # rounding


def of_pairs(objective: Any, pairs: Pairs) -> Tensor:
    """(4, 8) the derivative of a loss by the inner products of the first view with both.

    The eight embeddings are linearly independent, so that the gradient of a function of their products
    has one such matrix M: it is M times the embeddings.

    Raises:
        DoesNotApply: For a loss that depends on the embeddings in another way.
    """
    leaf = pairs.anchors.detach().requires_grad_()
    samples = in_batch(leaf, pairs.samples)
    (gradient,) = torch.autograd.grad(objective.loss(samples), leaf)
    x, gradient = leaf.detach().flatten(0, 1), gradient.flatten(0, 1)
    found = torch.linalg.lstsq(x.mT, gradient.mT).solution.mT
    if (found @ x - gradient).norm() > 1e-6 * gradient.norm():
        raise DoesNotApply("its loss is no function of inner products")
    return found.fill_diagonal_(0)[:IMAGES]


def picture(objective: Any) -> str:
    """HTML of three matrices of an objective: positives, negatives and weights.

    Raises:
        DoesNotApply: As `weights`.
    """
    found = weights(objective)
    largest = float(found.abs().max())
    return _figure(
        [
            _matrix("positives", found, lambda w: ("pull", 1.0) if w < 0 else None),
            _matrix("negatives", found, lambda w: ("push", 1.0) if w > 0 else None),
            _matrix("weights", found, lambda w: _shade(w, largest, "pull", "push")),
        ]
    )


def kernel_picture(kernel: Any) -> str:
    """HTML of a kernel's similarities of each type of values, and of CCL-K's operator for numbers."""
    values = {"numbers": "continuous", "0/1 columns": "multi_label", "class ids": "categorical"}
    of = {title: CONDITION[value_type] for title, value_type in values.items()}
    if hasattr(kernel, "matrix"):
        of = {"samples": torch.arange(IMAGES)}
    shown = []
    for title, z in of.items():
        shown.append(_kernel_matrix(title, similarities(kernel, z, z).double()))
    if kernel.positive_definite:
        title, z = next(iter(of.items()))
        shown.append(_kernel_matrix(f"operator, {title}", conditional_operator(kernel, z, RIDGE)))
    return _figure(shown)


def _kernel_matrix(title: str, values: Tensor) -> str:
    largest = float(values.abs().max())
    return _matrix(title, values, lambda w: _shade(w, largest, "push", "pull"))


def _shade(value: float, largest: float, below: str, above: str) -> tuple[str, float] | None:
    """The color of a cell and its opacity."""
    if not value:
        return None
    return below if value < 0 else above, max(abs(value) / max(largest, 1e-12), 0.03)


def _figure(matrices: list[str]) -> str:
    return f'<div class="matrices">{"".join(matrices)}</div>\n'


def _matrix(title: str, values: Tensor, color: Callable[[float], tuple[str, float] | None]) -> str:
    """An SVG of a matrix; a cell says its value when it is pointed at."""
    rows, columns = values.shape
    width = MARGIN + CELL * columns + (GAP if columns > IMAGES else 0) + 1
    height = MARGIN + CELL * rows + 1
    parts = [
        f'<figure><svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}: {_text(values)}</title>",
        *_labels(rows, columns),
    ]
    for i in range(rows):
        for j in range(columns):
            value = float(values[i, j])
            shade = color(value)
            fill = f'class="{shade[0]}" fill-opacity="{shade[1]:.2f}"' if shade else 'class="none"'
            parts.append(
                f'<rect x="{_left(j)}" y="{MARGIN + CELL * i}" width="{CELL - 1}"'
                f' height="{CELL - 1}" {fill}><title>{value:.3g}</title></rect>'
            )
    return "".join([*parts, f"</svg><figcaption>{escape(title)}</figcaption></figure>"])


def _labels(rows: int, columns: int) -> Iterator[str]:
    for i in range(rows):
        yield _label(MARGIN / 2, MARGIN + CELL * (i + 0.5), "x" if columns > IMAGES else "z", i)
    for j in range(columns):
        letter = ("x" if j < IMAGES else "y") if columns > IMAGES else "z"
        yield _label(_left(j) + CELL / 2, MARGIN / 2, letter, j % IMAGES)


def _label(x: float, y: float, letter: str, number: int) -> str:
    below = f'<tspan dy="3" font-size="8">{number + 1}</tspan>'
    return f'<text x="{x:g}" y="{y + 3:g}">{letter}{below}</text>'


def _left(column: int) -> int:
    return MARGIN + CELL * column + (GAP if column >= IMAGES else 0)


def _text(values: Tensor) -> str:
    return "; ".join(" ".join(f"{float(v):.2g}" for v in row) for row in values)
