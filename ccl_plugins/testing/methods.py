"""The laws of methods."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from lightly.utils import dist
from torch import Tensor, distributed, nn
from torch.nn.functional import normalize

from ccl_plugins.objectives import InfoNCE, SupCon
from ccl_plugins.pairs import Masks, Pairs, Queue, Samples
from ccl_plugins.protocols import Embedded, trait
from ccl_plugins.testing.assertions import (
    require,
    require_equal,
    require_gradients,
    require_independent_rows,
    require_same_on_two_ranks,
    require_unchanged,
)
from ccl_plugins.testing.inputs import CLASSES, SHAPE, network_inputs, normal, seeded
from ccl_plugins.testing.subject import Subject

N, VIEWS = 8, 2


def views_of(method: Any, seed: int = 0, count: int = VIEWS) -> list[Tensor]:
    """Some views of 8 images, or the views of 8 samples as the towers of a method take them."""
    seeds = (10 * seed + view for view in range(10))
    if not trait(method, "embed_modality"):
        return [normal(N, *SHAPE, seed=next(seeds)) for _ in range(count)]
    towers = {name: type(tower) for name, tower in method.towers.items()}
    return [network_inputs(towers.get(name), N, next(seeds)) for name in method.modalities]


def conditions_of(index: Tensor, epoch: int = 0, *, reader: Any = None) -> dict[str, Tensor]:
    """Rows of tables, of every value type and shape, and of the conditions that a method itself reads.

    Those of another epoch are other values.
    """
    number = index + 2 * epoch
    rows = {
        "label": number % CLASSES,
        "levels": torch.stack([number % CLASSES, number % 2], 1),
        "attributes": torch.stack([number % k == 0 for k in (2, 3, 4)], 1).float(),
        "height": (0.7 * number).sin(),
        "color": torch.stack([(0.3 * k * number).cos() for k in (1, 2, 3)], 1),
    }
    of_type = {"categorical": "label", "multi_label": "attributes", "continuous": "height"}
    given = getattr(reader, "EXAMPLE_CONDITION", {})
    for name, types in trait(reader, "conditions").items():
        example = given.get(name) if isinstance(given, Mapping) else given
        rows[name] = rows[of_type[types[0]]]
        if example is not None:
            values = torch.as_tensor(example)
            rows[name] = values[number % len(values)]
    return rows


def pairs_of(method: Any, views: list[Tensor], first: int = 0, epoch: int = 0) -> Pairs:
    """The pairs of a batch with the dataset indices from ``first`` on, with conditions of every kind.

    The last condition differs per view, as one that is computed in every step.
    """
    masks = masks_of(method, views)
    embedded = method.embed(views, masks) if masks else method.embed(views)
    return pairs_of_embedded(method, embedded.normalized(), first, epoch)


def pairs_of_embedded(method: Any, embedded: Embedded, first: int = 0, epoch: int = 0) -> Pairs:
    """The pairs of embeddings on the sphere, with conditions as in `pairs_of`."""
    index = torch.arange(first, first + embedded.projections.shape[1])
    condition = {
        **conditions_of(index, epoch, reader=method),
        "embedding": embedded.projections.detach(),
    }
    samples = Samples(condition, index, embedded.features, patches=embedded.patches)
    pairs: Pairs = method.pairs(embedded, samples)
    return pairs


def masks_of(method: Any, views: list[Tensor]) -> Masks | None:
    """The masks of views, if the method masks patches; those of a sample depend on its first view alone."""
    if (masking := trait(method, "masking")) is None:
        return None
    height, width = views[0].shape[-2:]
    drawn = []
    for pixel in views[0].flatten(1)[:, 0].tolist():
        with seeded(int(1e6 * abs(pixel))):
            drawn.append(torch.stack([masking(height, width) for _ in range(masking.views)]))
    return Masks.of(torch.stack(drawn))


def loss_of(pairs: Pairs) -> Tensor:
    """A loss that contrasts, reads class ids of batch and queue, and attracts where nothing contrasts."""
    own = torch.stack([pairs.own_sim(i, j) for i, j in pairs.cross()]).mean()
    contrast: Tensor = InfoNCE().loss(pairs) + SupCon(on="label").loss(pairs)
    if (patches := pairs.samples.patches) is not None:
        contrast = (
            contrast - patches.mean_of_images((patches.student * patches.teacher).mean(1)).mean()
        )
    return contrast - own


def train_step(method: Any, number: int, epoch: int = 0, ranks: int = 1) -> tuple[Tensor, Pairs]:
    """The loss and the pairs of a step of plain gradient descent, on one process or on each of two."""
    part = N // ranks
    rows = slice(dist.rank() * part, (dist.rank() + 1) * part)
    with seeded(number):
        views = [view[rows] for view in views_of(method, number)]
        pairs = pairs_of(method, views, number * N + rows.start, epoch)
        loss = loss_of(pairs)
        loss.backward()
        seen = replace(pairs, queue=pairs.queue and _copied(pairs.queue))
        method.enqueue(pairs)
        with torch.no_grad():
            for parameter in method.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * _mean(parameter.grad, ranks)
                    parameter.grad = None
        method.after_step(number, 10)
    return _mean(loss.detach(), ranks), seen


def _copied(queue: Queue) -> Queue:
    rows = {name: z.clone() for name, z in queue.condition.items()}
    return replace(queue, keys=queue.keys.clone(), condition=rows)


def _mean(x: Tensor, ranks: int) -> Tensor:
    if ranks > 1:
        distributed.all_reduce(x)
    return x / ranks


def begin_epoch(method: Any, epoch: int) -> None:
    """Have a method read its condition values again, as when an epoch begins."""
    if read := trait(method, "read_conditions"):
        read(functools.partial(conditions_of, epoch=epoch, reader=method))


def observe(subject: Subject, method: Any) -> Any:
    """Features and projections in evaluation mode."""
    method = method.eval()
    with torch.no_grad():
        views = views_of(method)
        return method.encode(views[0]), method.project(views[0]), method.embed(views).projections


def check_embeds_views(subject: Subject) -> None:
    """``embed(views)`` must give features (u, n, f), projections (u, n, d), and keys (v, n, d) or None.

    u and v are numbers of views, and f and d the widths of ``encode`` and ``project``.
    """
    method = subject.build()
    views = views_of(method)
    embedded = method.embed(views)
    f, d = method.encode(views[0]).shape[1], method.project(views[0]).shape[1]
    widths = {"features": f, "projections": d, "keys": d}
    parts = vars(embedded).items()
    shapes = {name: tuple(part.shape) for name, part in parts if isinstance(part, Tensor)}
    right = all(
        len(shape) == 3 and 1 <= shape[0] <= len(views) and shape[1:] == (N, widths[name])
        for name, shape in shapes.items()
    )
    report = f"for {len(views)} views of {N} images, with f = {f} and d = {d}, it has {shapes}"
    require(right and {*shapes} >= {"features", "projections"}, report)


def check_embedding_and_pairing_change_nothing(subject: Subject) -> None:
    """``embed`` and ``pairs`` must change no weight and no buffer but the statistics of batch norm.

    They are called for conditions and measurements too; ``enqueue`` and ``after_step`` come once in a step.
    """
    method = subject.build().train()
    batch_norms = [m for m in method.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    own = {id(buffer) for each in batch_norms for buffer in each.buffers()}

    def weights() -> list[Tensor]:
        kept = [x for x in method.buffers() if id(x) not in own]
        return [x.detach() for x in (*method.parameters(), *kept)]

    pairs_of(method, views_of(method))  # a queue has its buffers from the first pairs on
    with require_unchanged(weights):
        pairs_of(method, views_of(method))


def check_projects_as_it_embeds(subject: Subject) -> None:
    """``project(x)`` must give the directions of the projections, or of the keys, that ``embed`` gives.

    A method with a predictor may project before it, as its keys are.
    """
    method = subject.build().eval()
    views = views_of(method)
    with torch.no_grad():
        embedded = method.embed(views).normalized()
        directions = normalize(method.project(views[0]), dim=1)
    # A momentum encoder begins as a copy of the one that is trained.
    parts = [embedded.projections, *([] if embedded.keys is None else [embedded.keys])]
    same = any(torch.allclose(part[0], directions, rtol=1e-4, atol=1e-5) for part in parts)
    require(same, "project(x) has other directions than embed((x, y))")


def check_a_momentum_encoder_moves_once_in_a_step(subject: Subject) -> None:
    """``after_step`` must move each frozen weight by ``1 - momentum`` of its way to the trained one.

    This is for methods with the trait ``momentum``.
    """
    method = subject.build().train()
    if trait(method, "momentum") is None:
        return
    frozen = [p for p in method.parameters() if not p.requires_grad and p.is_floating_point()]
    held = [p.detach().clone() for p in frozen]
    with torch.no_grad():
        for parameter in method.parameters():
            if parameter.requires_grad:
                parameter += 1.0
        method.after_step(0, 10**6)
        moves = [float((p - x).abs().max()) for p, x in zip(frozen, held, strict=True)]
    # Some frozen weights may have no trained one, as fixed position embeddings.
    moved, share = [each for each in moves if each], 1 - float(method.momentum)
    report = f"with a momentum of {method.momentum} frozen weights moved by {moved} of their way"
    require(bool(moved) and all(0.75 * share <= m <= 1.25 * share for m in moved), report)


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, ``encode`` and ``project`` must not depend on the rest of the batch.

    Nor must ``project_key``, if the method has it.
    """
    method = subject.build().eval()
    keys = [key] if (key := trait(method, "project_key")) else []
    for function in (method.encode, method.project, *keys):
        require_independent_rows(function, views_of(method)[0])


def check_own_keys_are_at_own_positions(subject: Subject) -> None:
    """The own key, index and condition of anchor sample i must be at position ``offset + i``.

    Every anchor needs a key of another view.
    """
    method = subject.build().eval()
    order = torch.tensor([3, 0, 7, 1, 6, 2, 5, 4])
    with torch.no_grad():
        pairs = pairs_of(method, views_of(method))
        moved = pairs_of(method, [view[order] for view in views_of(method)])
    require(pairs.anchors.shape[1] == N, f"{N} images gave {pairs.anchors.shape[1]} anchors")
    samples = pairs.samples
    if samples.index is None or pairs.keys.shape[1] < N:
        raise AssertionError("keys or indices are missing")
    require_equal(samples.index[pairs.rows], torch.arange(N), "index")
    for name, rows in conditions_of(torch.arange(N), reader=method).items():
        require_equal(samples.condition[name][pairs.rows], rows, f"the condition {name!r}")
    require_equal(moved.anchors, pairs.anchors[:, order], "anchors of images in another order")
    own_keys = pairs.keys[:, pairs.rows]
    require_equal(moved.keys[:, moved.rows], own_keys[:, order], "keys of images in another order")
    report = f"the anchor views are {pairs.anchor_views}, the key views {pairs.key_views}"
    require(any(pairs.cross()), report)


def check_every_view_reaches_the_pairs(subject: Subject) -> None:
    """Every view that ``embed`` takes must be an anchor, or a key of another view's anchor.

    This is asked of two views and of three; a method that takes two alone refuses more by a ValueError.
    """
    for count in (VIEWS, VIEWS + 1):
        method = subject.build().eval()
        try:
            compared = compared_views(method, count)
        except ValueError:
            if count == VIEWS:
                raise
            continue
        reached = set[int]().union(*(anchor | key for anchor, key in compared.values()))
        lost = sorted({*range(len(views_of(method, count=count)))} - reached)
        report = (
            f"with {count} views, other images in {lost} change no anchor and no key in cross()"
        )
        require(not lost, report)


def check_keys_are_of_other_views(subject: Subject) -> None:
    """A key that is compared with an anchor must not be of the anchor's own view.

    ``anchor_views`` and ``key_views`` say which views are compared; what they name must be true.
    """
    compared = compared_views(subject.build().eval(), VIEWS)
    own = {
        (i, j): f"key {j} and anchor {i} are both made of view {', '.join(map(str, sorted(key)))}"
        for (i, j), (anchor, key) in compared.items()
        if key and key <= anchor
    }
    require(not own, f"in cross(), {'; '.join(own.values())}")


Sources: TypeAlias = set[int]
"""The numbers of the views that embeddings are made of."""


@torch.no_grad()
def compared_views(method: Any, count: int) -> dict[tuple[int, int], tuple[Sources, Sources]]:
    """Of which views anchor and key are made, by their positions in ``cross()``: what changes with them.

    The method is in evaluation mode, where no batch statistics mix views.
    """

    def pairs_of_views(views: list[Tensor]) -> Pairs:
        with seeded():
            return pairs_of_embedded(method, method.embed(views).normalized())

    views = views_of(method, count=count)
    pairs = pairs_of_views(views)
    of_anchors: list[Sources] = [set() for _ in pairs.anchors]
    of_keys: list[Sources] = [set() for _ in pairs.keys]
    # Several other images, since a key may be the nearest of a queue, which some of them share.
    for number, seed in itertools.product(range(len(views)), (1, 2, 3)):
        changed = [*views]
        changed[number] = views_of(method, seed, count)[number]
        after = pairs_of_views(changed)
        for sources, x, y in (
            *zip(of_anchors, after.anchors, pairs.anchors, strict=True),
            *zip(of_keys, after.keys, pairs.keys, strict=True),
        ):
            if not torch.allclose(x, y, rtol=1e-4, atol=1e-5):  # as of rows that are independent
                sources.add(number)
    return {(i, j): (of_anchors[i], of_keys[j]) for i, j in pairs.cross()}


def check_calls_leave_the_mode_as_it_was(subject: Subject) -> None:
    """Each call must leave the mode (train, eval) of every module as it was.

    ``encode`` and ``project`` are called in the middle of training too, for conditions and monitors.
    """
    for training in (True, False):
        method = subject.build().train(training)
        for name, call in _calls(method).items():
            before = {path: module.training for path, module in method.named_modules()}
            call()
            changed = [
                f"{path or 'the method'} is in {'train' if module.training else 'eval'} mode"
                for path, module in method.named_modules()
                if module.training != before.get(path, module.training)
            ]
            report = (
                f"after {name} in {'train' if training else 'eval'} mode {', '.join(changed[:3])}"
            )
            require(not changed, report)


def _calls(method: Any) -> dict[str, Callable[[], Any]]:
    """The calls that a run makes of a method, in the order of a step, by their text."""
    views, made = views_of(method), dict[str, Pairs]()
    calls: dict[str, Callable[[], Any]] = {
        "encode(x)": lambda: method.encode(views[0]),
        "project(x)": lambda: method.project(views[0]),
        "embed(views)": lambda: method.embed(views),
        "embed(views) and pairs(...)": lambda: made.update(of=pairs_of(method, views)),
        "enqueue(pairs)": lambda: method.enqueue(made["of"]),
        "after_step(0, 10)": lambda: method.after_step(0, 10),
        "read_conditions(...)": lambda: begin_epoch(method, 1),
    }
    if project_key := trait(method, "project_key"):
        calls["project_key(x)"] = lambda: project_key(views[0])
    if embed_modality := trait(method, "embed_modality"):
        for name, view in zip(method.modalities, views, strict=True):
            calls[f"embed_modality({name!r}, x)"] = functools.partial(embed_modality, name, view)
    return calls


def check_gradient_reaches_every_weight(subject: Subject) -> None:
    """Every weight of backbone and heads must have a gradient, or be frozen as in a momentum encoder."""
    method = subject.build().train()
    pairs = pairs_of(method, views_of(method))
    loss_of(pairs).backward()
    require_gradients(method)
    gradients = [p.grad for p in method.backbone.parameters() if p.grad is not None]
    reached = any(g.abs().sum() > 0 for g in gradients)
    require(reached, "the gradient of all weights of the attribute `backbone` is 0")


def check_keys_carry_no_gradient(subject: Subject) -> None:
    """Keys must carry no gradient: ``Embedded.keys``, those of pairs and queue, and of ``project_key``.

    The keys of pairs that are ``shared`` are the anchors of all processes, with their gradient.
    """
    for training in (True, False):
        method = subject.build().train(training)
        views = views_of(method)
        embedded, pairs = method.embed(views), pairs_of(method, views)
        keys = {"embed(views).keys": embedded.keys}
        if pairs.queue is not None:
            keys["pairs(...).queue.keys"] = pairs.queue.keys
        if project_key := trait(method, "project_key"):
            keys["project_key(x)"] = project_key(views[0])
        if pairs.shared:
            require_equal(pairs.keys[:, pairs.rows], pairs.anchors, "keys of pairs that are shared")
            require(pairs.keys.requires_grad, "pairs(...) are shared, and keys have no gradient")
        else:
            keys["pairs(...).keys"] = pairs.keys
        learned = [name for name, key in keys.items() if key is not None and key.requires_grad]
        report = f"in {'train' if training else 'eval'} mode {', '.join(learned)} carry a gradient"
        require(not learned, report)


def check_a_queue_keeps_the_conditions_of_its_keys(subject: Subject) -> None:
    """Each key in a queue must come with its sample's conditions, of every value type and shape.

    When an epoch begins, ``read_conditions`` must read those with a table again.
    """
    method = subject.build().eval()
    with torch.no_grad():
        batches = [pairs_of(method, views_of(method, number), number * N) for number in range(2)]
        for pairs in batches:
            method.enqueue(pairs)
        for epoch in range(2):
            next_pairs = pairs_of(method, views_of(method, 2), 2 * N, epoch)
            if next_pairs.queue is None:
                return
            _require_conditions(next_pairs.queue, batches, epoch)
            begin_epoch(method, epoch + 1)


def _require_conditions(queue: Queue, batches: list[Pairs], epoch: int) -> None:
    """Compare the rows of those keys in a queue that a batch had with the rows of their samples."""
    lacking = batches[0].samples.condition.keys() - queue.condition.keys()
    require(not lacking, f"the queue has no rows of the conditions {sorted(lacking)}")
    keys = torch.cat([pairs.keys for pairs in batches], 1)
    views = torch.cat([pairs.samples.condition["embedding"] for pairs in batches], 1)
    rows = {**conditions_of(torch.arange(keys.shape[1]), epoch), "embedding": views}
    for place in queue.valid.nonzero().flatten():
        same = (keys - queue.of_view(0)[place]).abs().amax(-1) < 1e-5
        for sample in same.any(0).nonzero().flatten()[:1]:
            for name, expected in rows.items():
                held = queue.condition[name][place]
                wanted = expected[:, sample] if expected.ndim == 3 else expected[sample][None]
                require(
                    any(w.shape == held.shape and torch.allclose(w, held) for w in wanted),
                    f"a key of sample {int(sample)} has {held.tolist()} of the condition {name!r} in epoch"
                    f" {epoch}, and the sample has {wanted.tolist()}",
                )


def check_only_buffers_are_enqueued(subject: Subject) -> None:
    """``enqueue(pairs)`` must change nothing but persistent buffers, which a checkpoint holds."""
    method = subject.build()
    pairs = pairs_of(method, views_of(method))

    def other_than_saved_buffers() -> list[Tensor]:
        saved = method.state_dict()
        buffers = [buffer for name, buffer in method.named_buffers() if name not in saved]
        return [*(p.detach() for p in method.parameters()), *(x.detach() for x in buffers)]

    with require_unchanged(other_than_saved_buffers):
        method.enqueue(pairs)


def check_a_resumed_run_goes_on_as_it_would_have(subject: Subject) -> None:
    """After ``load_state_dict`` in the middle of an epoch, the next steps must equal those that were due.

    The state dict must hold queue, its conditions and momentum encoder; ``read_conditions`` is called
    again before the next step.
    """
    method, other = subject.build().train(), subject.build().train()
    for number in range(3):
        if number in (0, 2):  # two steps are an epoch
            begin_epoch(method, number // 2)
        train_step(method, number, number // 2)
    other.load_state_dict(method.state_dict())
    begin_epoch(other, 1)
    for number in (3, 4):
        (expected, due), (loss, pairs) = (train_step(m, number, 1) for m in (method, other))
        require_equal(loss, expected, f"the loss of step {number}")
        held, wanted = (
            p.queue and {**p.queue.condition, "its keys": p.queue.keys} for p in (pairs, due)
        )
        require_equal(held, wanted, f"the queue in step {number}")


def check_goes_through_an_epoch(subject: Subject) -> None:
    """Ten steps of training must work, with finite losses and weights.

    A step calls embed, pairs, enqueue and ``after_step(step, total)``, at last ``after_step(9, 10)``.
    """
    method = subject.build().train()
    losses = torch.stack([train_step(method, number)[0] for number in range(10)])
    require(bool(losses.isfinite().all()), f"the losses are {losses.tolist()}")
    numbers = [*method.parameters(), *method.buffers()]
    require(all(bool(x.isfinite().all()) for x in numbers), "some weights are not finite")


def check_two_processes_equal_one(subject: Subject) -> None:
    """Two processes with half of each batch must train as one process does, in losses and weights.

    Gather keys, conditions and indices over all processes, as with ``gather_distributed=True``.  This
    runs in evaluation mode, so that batch statistics are not compared.
    """
    require_same_on_two_ranks(
        train_together, subject.chosen_as(subject.choice).build, rtol=1e-4, atol=1e-5
    )


def train_together(build: Callable[[], Any]) -> dict[str, Any]:
    """Losses and weights of three steps, and the samples of the last, on each process that takes part."""
    method, losses = build().eval(), []
    for number in range(3):
        loss, pairs = train_step(method, number, ranks=dist.world_size())
        losses.append(loss)
    weights = {name: p.detach().clone() for name, p in method.named_parameters()}
    samples = {"index": pairs.samples.index, **pairs.samples.condition}
    return {"losses": torch.stack(losses), "weights": weights, "samples": samples}
