"""The laws of methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Embedded
from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import random, seeded
from ccl_plugins.testing.subject import Subject

N, VIEWS = 8, 2


def batch(seed: int = 0) -> list[Tensor]:
    """Two views of 8 images."""
    return [random(N, 3, 32, 32, seed=10 * seed + view) for view in range(VIEWS)]


def pairs_of(method: Any, views: list[Tensor], first: int = 0) -> Pairs:
    """The pairs of a batch, with a condition and the indices from ``first`` on."""
    index = torch.arange(first, first + N)
    embedded: Embedded = method.embed(views).normalized()
    pairs: Pairs = method.pairs(embedded, {"label": index % 3}, index)
    return pairs


def step(method: Any, number: int) -> Tensor:
    """A training step without an optimizer: the loss, and what the method does around it."""
    with seeded(number):
        pairs = pairs_of(method, batch(number), number * N)
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
    """Features and projections in evaluation."""
    method = method.eval()
    with torch.no_grad():
        x = batch()[0]
        return method.encode(x), method.project(x), method.embed(batch()).projections


def check_embeds_views(subject: Subject) -> None:
    """Views first, then samples, then what they are made of."""
    method = subject.build()
    law = (
        "embed(views) must be Embedded: features (u, n, f), projections (u, n, d), and keys (v, n, d)"
        " or None, for u and v of the views"
    )
    with may_not(law):
        embedded = method.embed(batch())
        x = batch()[0]
        f, d = method.encode(x).shape[1], method.project(x).shape[1]
    shapes = {
        name: tuple(part.shape) for name, part in vars(embedded).items() if isinstance(part, Tensor)
    }
    widths = {"features": f, "projections": d, "keys": d}
    right = all(
        len(shape) == 3 and 1 <= shape[0] <= VIEWS and shape[1:] == (N, widths[name])
        for name, shape in shapes.items()
    )
    told = f"of {VIEWS} views of {N} images, encode giving {f} and project {d}, it is {shapes}"
    hold(law, right and {*shapes} >= {"features", "projections"}, told)


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """``encode`` and ``project`` are what frozen features and tables are made of."""
    method, x = subject.build().eval(), batch()[0]
    with torch.no_grad():
        for function in (method.encode, method.project):
            alone = torch.cat([function(row[None]) for row in x])
            law = f"in evaluation, {function.__name__}(x) of an image must not depend on its batch"
            agree(law, alone, function(x), rtol=1e-4, atol=1e-5)


def check_own_keys_are_at_own_positions(subject: Subject) -> None:
    """Everything of sample i stands at ``offset + i``."""
    method = subject.build().eval()
    order = torch.tensor([3, 0, 7, 1, 6, 2, 5, 4])
    with torch.no_grad():
        pairs = pairs_of(method, batch())
        moved = pairs_of(method, [view[order] for view in batch()])
    law = "an anchor's own key must stand at offset + its place, where its index and condition are too"
    hold(law, pairs.anchors.shape[1] == N, f"{N} images gave {pairs.anchors.shape[1]} anchors")
    if pairs.index is None or pairs.keys.shape[1] < N:
        raise AssertionError(f"{law}\n  keys or indices are missing")
    agree(law, pairs.index[pairs.rows], torch.arange(N))
    agree(law, pairs.condition["label"][pairs.rows], torch.arange(N) % 3)
    agree(law, moved.anchors, pairs.anchors[:, order])
    agree(law, moved.keys[:, moved.rows], pairs.keys[:, pairs.rows][:, order])
    same = [n for n in pairs.anchor_views if n in pairs.key_views]
    cross = [*pairs.cross()]
    hold(
        "every anchor needs a key of another view",
        bool(cross),
        f"views {pairs.anchor_views}, {same}",
    )


def check_gradient_reaches_every_weight(subject: Subject) -> None:
    """Of backbone and heads; keys of a momentum encoder have none."""
    method = subject.build().train()
    pairs = pairs_of(method, batch())
    InfoNCE().loss(pairs).backward()
    unused = [n for n, p in method.named_parameters() if p.requires_grad and p.grad is None]
    hold(
        "every weight must have a gradient, or be frozen by requires_grad_(False), as those of a"
        " momentum encoder",
        not unused,
        f"there is none for {', '.join(unused)}",
    )
    reached = [p for p in method.backbone.parameters() if p.grad is not None and p.grad.abs().sum()]
    hold("the gradient must reach the backbone, called `backbone`", bool(reached), "none did")
    held = [x for x in (pairs.queue, None if pairs.shared else pairs.keys) if x is not None]
    law = "keys of a queue or of a momentum encoder must have no gradient"
    hold(law, not any(x.requires_grad for x in held))


def check_copies_start_equal(subject: Subject) -> None:
    """A momentum encoder starts as what it follows: weights of equal shapes, in order, are equal."""
    method = subject.build()
    if method.embed(batch()).keys is None:
        return
    frozen = [p for p in method.parameters() if not p.requires_grad]
    learned = [p for p in method.parameters() if p.requires_grad]
    law = "a method with keys must hold a momentum encoder whose weights are frozen"
    hold(law, bool(frozen), "none of its weights is frozen")
    alone = [
        tuple(p.shape)
        for p in frozen
        if not any(p.shape == other.shape and torch.equal(p, other) for other in learned)
    ]
    law = "a momentum encoder must start as a copy of what it follows"
    hold(law, not alone, f"weights of the shapes {alone} equal no learned ones")


def check_only_buffers_are_enqueued(subject: Subject) -> None:
    """What enters the queue is in the state dict, and the weights stay."""
    method = subject.build()
    pairs = pairs_of(method, batch())
    weights = [p.detach().clone() for p in method.parameters()]
    passing = {n: b.clone() for n, b in _passing(method).items()}
    method.enqueue(pairs)
    law = "enqueue(pairs) must change nothing but persistent buffers, for a checkpoint to hold it"
    agree(law, [p.detach() for p in method.parameters()], weights, rtol=0, atol=0)
    agree(law, _passing(method), passing, rtol=0, atol=0)


def _passing(module: nn.Module) -> dict[str, Tensor]:
    """Buffers that no checkpoint holds."""
    kept = module.state_dict()
    return {name: buffer for name, buffer in module.named_buffers() if name not in kept}


def check_a_resumed_run_goes_on_as_it_would_have(subject: Subject) -> None:
    """Queue, momentum encoder and all: the next losses are the same."""
    method, other = subject.build().train(), subject.build().train()
    for number in range(2):
        step(method, number)
    with may_not("its state_dict must load into another of the same parameters"):
        other.load_state_dict(method.state_dict())
    expected = torch.stack([step(method, number) for number in (2, 3)])
    law = "after load_state_dict the next losses must be those of the run that was not stopped"
    agree(law, torch.stack([step(other, number) for number in (2, 3)]), expected)


def check_goes_through_an_epoch(subject: Subject) -> None:
    """Ten steps, the last of which is ``after_step(9, 10)``."""
    method = subject.build().train()
    law = "embed, pairs, enqueue and after_step(step, total) must work in turn"
    with may_not(law):
        losses = torch.stack([step(method, number) for number in range(10)])
    hold(law, bool(losses.isfinite().all()), f"the losses are {losses.tolist()}")
    numbers = [*method.parameters(), *method.buffers()]
    hold("weights must stay finite", all(bool(x.isfinite().all()) for x in numbers))


CHECKS: list[Callable[[Subject], None]] = [
    check_embeds_views,
    check_evaluation_looks_at_each_image_alone,
    check_own_keys_are_at_own_positions,
    check_gradient_reaches_every_weight,
    check_copies_start_equal,
    check_only_buffers_are_enqueued,
    check_a_resumed_run_goes_on_as_it_would_have,
    check_goes_through_an_epoch,
]
