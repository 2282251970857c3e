"""The laws of methods."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Embedded
from ccl_plugins.testing.assertions import (
    require,
    require_equal,
    require_gradients,
    require_independent_rows,
    require_unchanged,
)
from ccl_plugins.testing.inputs import SHAPE, normal, seeded
from ccl_plugins.testing.subject import Subject

N, VIEWS = 8, 2


def image_views(seed: int = 0) -> list[Tensor]:
    """Two views of 8 images."""
    return [normal(N, *SHAPE, seed=10 * seed + view) for view in range(VIEWS)]


def pairs_of(method: Any, views: list[Tensor], first: int = 0) -> Pairs:
    """The pairs of a batch, with a condition and the dataset indices from ``first`` on."""
    index = torch.arange(first, first + N)
    embedded: Embedded = method.embed(views).normalized()
    pairs: Pairs = method.pairs(embedded, {"label": index % 3}, index)
    return pairs


def train_step(method: Any, number: int) -> Tensor:
    """The loss of a training step with plain gradient descent."""
    with seeded(number):
        pairs = pairs_of(method, image_views(number), number * N)
        loss: Tensor = InfoNCE().loss(pairs)
        loss.backward()
        method.enqueue(pairs)
        with torch.no_grad():
            for parameter in method.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
        method.after_step(number, 10)
    return loss.detach()


def observe(subject: Subject, method: Any) -> Any:
    """Features and projections in evaluation mode."""
    method = method.eval()
    with torch.no_grad():
        views = image_views()
        return method.encode(views[0]), method.project(views[0]), method.embed(views).projections


def check_embeds_views(subject: Subject) -> None:
    """``embed(views)`` must give features (u, n, f), projections (u, n, d), and keys (v, n, d) or None.

    u and v are numbers of views, and f and d the widths of ``encode`` and ``project``.
    """
    method, views = subject.build(), image_views()
    embedded = method.embed(views)
    f, d = method.encode(views[0]).shape[1], method.project(views[0]).shape[1]
    widths = {"features": f, "projections": d, "keys": d}
    parts = vars(embedded).items()
    shapes = {name: tuple(part.shape) for name, part in parts if isinstance(part, Tensor)}
    right = all(
        len(shape) == 3 and 1 <= shape[0] <= VIEWS and shape[1:] == (N, widths[name])
        for name, shape in shapes.items()
    )
    found = f"for {VIEWS} views of {N} images, with f = {f} and d = {d}, it has {shapes}"
    require(right and {*shapes} >= {"features", "projections"}, found)


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, ``encode`` and ``project`` must not depend on the rest of the batch."""
    method = subject.build().eval()
    for function in (method.encode, method.project):
        require_independent_rows(function, image_views()[0])


def check_own_keys_are_at_own_positions(subject: Subject) -> None:
    """The own key, index and condition of anchor sample i must be at position ``offset + i``.

    Every anchor needs a key of another view.
    """
    method = subject.build().eval()
    order = torch.tensor([3, 0, 7, 1, 6, 2, 5, 4])
    with torch.no_grad():
        pairs = pairs_of(method, image_views())
        moved = pairs_of(method, [view[order] for view in image_views()])
    require(pairs.anchors.shape[1] == N, f"{N} images gave {pairs.anchors.shape[1]} anchors")
    if pairs.index is None or pairs.keys.shape[1] < N:
        raise AssertionError("keys or indices are missing")
    require_equal(pairs.index[pairs.rows], torch.arange(N), "index")
    require_equal(pairs.condition["label"][pairs.rows], torch.arange(N) % 3, "condition")
    require_equal(moved.anchors, pairs.anchors[:, order], "anchors of images in another order")
    own_keys = pairs.keys[:, pairs.rows]
    require_equal(moved.keys[:, moved.rows], own_keys[:, order], "keys of images in another order")
    found = f"the anchor views are {pairs.anchor_views}, the key views {pairs.key_views}"
    require(any(pairs.cross()), found)


def check_gradient_reaches_every_weight(subject: Subject) -> None:
    """Every weight of backbone and heads must have a gradient, or be frozen as in a momentum encoder.

    Keys of a queue or of a momentum encoder must have none.
    """
    method = subject.build().train()
    pairs = pairs_of(method, image_views())
    InfoNCE().loss(pairs).backward()
    require_gradients(method)
    gradients = [p.grad for p in method.backbone.parameters() if p.grad is not None]
    reached = any(g.abs().sum() > 0 for g in gradients)
    require(reached, "the gradient of all weights of the attribute `backbone` is 0")
    keys = [x for x in (pairs.queue, None if pairs.shared else pairs.keys) if x is not None]
    require(not any(x.requires_grad for x in keys), "such keys have a gradient")


def check_copies_start_equal(subject: Subject) -> None:
    """A method with keys must have frozen weights that start as copies of learned ones."""
    method = subject.build()
    if method.embed(image_views()).keys is None:
        return
    frozen = [p for p in method.parameters() if not p.requires_grad]
    learned = [p for p in method.parameters() if p.requires_grad]
    require(bool(frozen), "none of its weights is frozen")
    different = [
        tuple(p.shape)
        for p in frozen
        if not any(p.shape == other.shape and torch.equal(p, other) for other in learned)
    ]
    require(not different, f"weights of the shapes {different} equal no learned weight")


def check_only_buffers_are_enqueued(subject: Subject) -> None:
    """``enqueue(pairs)`` must change nothing but persistent buffers, which a checkpoint holds."""
    method = subject.build()
    pairs = pairs_of(method, image_views())

    def other_than_saved_buffers() -> list[Tensor]:
        saved = method.state_dict()
        buffers = [buffer for name, buffer in method.named_buffers() if name not in saved]
        return [*(p.detach() for p in method.parameters()), *(x.detach() for x in buffers)]

    with require_unchanged(other_than_saved_buffers):
        method.enqueue(pairs)


def check_a_resumed_run_goes_on_as_it_would_have(subject: Subject) -> None:
    """After ``load_state_dict``, the next losses must equal those of the run that was not interrupted.

    The state dict must hold queue and momentum encoder.
    """
    method, other = subject.build().train(), subject.build().train()
    for number in range(2):
        train_step(method, number)
    other.load_state_dict(method.state_dict())
    expected = torch.stack([train_step(method, number) for number in (2, 3)])
    require_equal(torch.stack([train_step(other, number) for number in (2, 3)]), expected)


def check_goes_through_an_epoch(subject: Subject) -> None:
    """Ten steps of training must work, with finite losses and weights.

    A step calls embed, pairs, enqueue and ``after_step(step, total)``, at last ``after_step(9, 10)``.
    """
    method = subject.build().train()
    losses = torch.stack([train_step(method, number) for number in range(10)])
    require(bool(losses.isfinite().all()), f"the losses are {losses.tolist()}")
    numbers = [*method.parameters(), *method.buffers()]
    require(all(bool(x.isfinite().all()) for x in numbers), "some weights are not finite")
