"""The laws of methods."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Embedded
from ccl_plugins.testing.assertions import require, require_equal, require_no_error
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
    """``embed`` gives features, projections and keys by view, sample and dimension."""
    method = subject.build()
    law = (
        "embed(views) must be Embedded: features (u, n, f), projections (u, n, d), and keys (v, n, d)"
        " or None, for u and v of the views"
    )
    views = image_views()
    with require_no_error(law):
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
    require(law, right and {*shapes} >= {"features", "projections"}, found)


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, ``encode`` and ``project`` do not depend on the rest of the batch."""
    method, x = subject.build().eval(), image_views()[0]
    with torch.no_grad():
        for function in (method.encode, method.project):
            alone = torch.cat([function(row[None]) for row in x])
            law = f"in evaluation mode, {function.__name__}(x) of an image must not depend on its batch"
            require_equal(law, alone, function(x), rtol=1e-4, atol=1e-5)


def check_own_keys_are_at_own_positions(subject: Subject) -> None:
    """The key, index and condition of anchor sample i are at position ``offset + i``."""
    method = subject.build().eval()
    order = torch.tensor([3, 0, 7, 1, 6, 2, 5, 4])
    with torch.no_grad():
        pairs = pairs_of(method, image_views())
        moved = pairs_of(method, [view[order] for view in image_views()])
    law = "the own key, index and condition of anchor sample i must be at position offset + i"
    require(law, pairs.anchors.shape[1] == N, f"{N} images gave {pairs.anchors.shape[1]} anchors")
    if pairs.index is None or pairs.keys.shape[1] < N:
        raise AssertionError(f"{law}\n  keys or indices are missing")
    require_equal(law, pairs.index[pairs.rows], torch.arange(N))
    require_equal(law, pairs.condition["label"][pairs.rows], torch.arange(N) % 3)
    require_equal(law, moved.anchors, pairs.anchors[:, order])
    require_equal(law, moved.keys[:, moved.rows], pairs.keys[:, pairs.rows][:, order])
    require(
        "every anchor needs a key of another view",
        any(pairs.cross()),
        f"the anchor views are {pairs.anchor_views}, the key views {pairs.key_views}",
    )


def check_gradient_reaches_every_weight(subject: Subject) -> None:
    """Every weight of backbone and heads has a gradient; keys of a momentum encoder or queue have none."""
    method = subject.build().train()
    pairs = pairs_of(method, image_views())
    InfoNCE().loss(pairs).backward()
    unused = [n for n, p in method.named_parameters() if p.requires_grad and p.grad is None]
    require(
        "every weight must have a gradient, or be frozen by requires_grad_(False), as the weights of a"
        " momentum encoder",
        not unused,
        f"there is none for {', '.join(unused)}",
    )
    law = "the gradient must reach the weights of the attribute `backbone`"
    gradients = [p.grad for p in method.backbone.parameters() if p.grad is not None]
    require(law, any(g.abs().sum() > 0 for g in gradients), "it reaches none of them")
    keys = [x for x in (pairs.queue, None if pairs.shared else pairs.keys) if x is not None]
    law = "keys of a queue or of a momentum encoder must have no gradient"
    require(law, not any(x.requires_grad for x in keys))


def check_copies_start_equal(subject: Subject) -> None:
    """A momentum encoder starts as a copy: each frozen weight equals a learned weight of its shape."""
    method = subject.build()
    if method.embed(image_views()).keys is None:
        return
    frozen = [p for p in method.parameters() if not p.requires_grad]
    learned = [p for p in method.parameters() if p.requires_grad]
    law = "a method with keys must have a momentum encoder with frozen weights"
    require(law, bool(frozen), "none of its weights is frozen")
    different = [
        tuple(p.shape)
        for p in frozen
        if not any(p.shape == other.shape and torch.equal(p, other) for other in learned)
    ]
    law = "a momentum encoder must start as a copy of the learned weights"
    require(law, not different, f"weights of the shapes {different} equal no learned weight")


def check_only_buffers_are_enqueued(subject: Subject) -> None:
    """``enqueue`` changes nothing but persistent buffers, which the state dict holds."""
    method = subject.build()
    pairs = pairs_of(method, image_views())
    before = [x.detach().clone() for x in _other_than_saved_buffers(method)]
    method.enqueue(pairs)
    law = "enqueue(pairs) must change nothing but persistent buffers, which a checkpoint holds"
    require_equal(law, _other_than_saved_buffers(method), before, rtol=0, atol=0)


def _other_than_saved_buffers(module: nn.Module) -> list[Tensor]:
    """All parameters, and the buffers that are not in the state dict."""
    saved = module.state_dict()
    buffers = [buffer for name, buffer in module.named_buffers() if name not in saved]
    return [*(p.detach() for p in module.parameters()), *buffers]


def check_a_resumed_run_goes_on_as_it_would_have(subject: Subject) -> None:
    """The state dict holds queue and momentum encoder: the next losses are the same."""
    method, other = subject.build().train(), subject.build().train()
    for number in range(2):
        train_step(method, number)
    with require_no_error("its state_dict must load into another object of the same parameters"):
        other.load_state_dict(method.state_dict())
    expected = torch.stack([train_step(method, number) for number in (2, 3)])
    law = (
        "after load_state_dict the next losses must equal those of the run that was not interrupted"
    )
    require_equal(law, torch.stack([train_step(other, number) for number in (2, 3)]), expected)


def check_goes_through_an_epoch(subject: Subject) -> None:
    """Ten steps of training work; the last one ends with ``after_step(9, 10)``."""
    method = subject.build().train()
    law = "embed, pairs, enqueue and after_step(step, total) must work in turn"
    with require_no_error(law):
        losses = torch.stack([train_step(method, number) for number in range(10)])
    require(law, bool(losses.isfinite().all()), f"the losses are {losses.tolist()}")
    numbers = [*method.parameters(), *method.buffers()]
    require("weights must stay finite", all(bool(x.isfinite().all()) for x in numbers))
